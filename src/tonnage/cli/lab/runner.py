"""Runs a lab: one process for each command, no shell, expectations tried again until their time is up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Final

from tonnage.cli.lab.checks import Check, Observation, checks_of
from tonnage.cli.lab.environment import Surroundings
from tonnage.cli.lab.pause import CLEAN_UP, NEXT_STEP
from tonnage.cli.lab.report import LabReport, StepReport
from tonnage.documents.lab.review import MAX_VALUE
from tonnage.documents.lab.steps import Lab, LabStep
from tonnage.documents.yaml.source import DocumentFieldError
from tonnage.ports.clock import Clock

MAX_OUTPUT_BYTES: Final = 1 << 20
_PAUSES_S: Final = (0.05, 0.1, 0.2, 0.4)
_TIMED_OUT: Final = 124


async def _no_pause(_prompt: str) -> None:
    """Goes on at once."""


@dataclass(frozen=True, slots=True)
class RunListener:
    """Who hears how the run goes; `pause` returns when the next step, or the clean-up, may begin."""

    before: Callable[[LabStep, int, int], None] = lambda _step, _number, _total: None
    after: Callable[[StepReport], None] = lambda _report: None
    pause: Callable[[str], Awaitable[None]] = _no_pause


async def run_lab(
    lab: Lab,
    surroundings: Surroundings,
    clock: Clock,
    *,
    listener: RunListener,
    keep: bool = False,
    variables: Mapping[str, str] | None = None,
) -> LabReport:
    """Run the steps until one fails, then the clean-up unless `keep`; also when the run is interrupted.

    `variables` are values of variables that no step assigns.
    """
    values: dict[str, str] = {**(variables or {})}
    began = clock.monotonic()
    paused = 0.0
    reports: list[StepReport] = []
    cleaned: tuple[StepReport, ...] = ()
    try:
        for number, step in enumerate(lab.steps, start=1):
            listener.before(step, number, len(lab.steps))
            paused += await _paused(listener, NEXT_STEP, clock)
            report = await run_step(step, values, surroundings, clock)
            reports.append(report)
            listener.after(report)
            if not report.passed:
                break
        if not keep and lab.cleanup:
            paused += await _paused(listener, CLEAN_UP, clock)
    finally:  # an interrupted run, too, leaves nothing behind
        if not keep:
            cleaned = await _clean_up(lab, values, surroundings, clock, listener)
    skipped = [StepReport(step.title, step.run) for step in lab.steps[len(reports) :]]
    return LabReport(
        name=lab.name,
        title=lab.title,
        covers=lab.covers,
        server="",
        kubectl=surroundings.programs["kubectl"][0],
        steps=(*reports, *skipped),
        cleanup=cleaned,
        duration_s=clock.monotonic() - began - paused,
    )


async def _paused(listener: RunListener, prompt: str, clock: Clock) -> float:
    """How many seconds the pause took."""
    began = clock.monotonic()
    await listener.pause(prompt)
    return clock.monotonic() - began


async def _clean_up(
    lab: Lab, values: dict[str, str], surroundings: Surroundings, clock: Clock, listener: RunListener
) -> tuple[StepReport, ...]:
    """Every clean-up step, whatever the ones before did; one that lacks a variable has no work."""
    reports = []
    due = [step for step in lab.cleanup if (step.command.variables | step.expect.variables) <= values.keys()]
    for number, step in enumerate(due, start=1):
        listener.before(step, number, len(due))
        report = await run_step(step, values, surroundings, clock)
        reports.append(report)
        listener.after(report)
    return tuple(reports)


async def run_step(
    step: LabStep, values: dict[str, str], surroundings: Surroundings, clock: Clock
) -> StepReport:
    """Run a step, again until all its expectations come true or their time is up; may add to `values`."""
    try:
        argv, expect = surroundings.argv(step.command, values, step.user), step.expect.filled(values)
    except DocumentFieldError as error:
        refused = Check("runs only what a lab may run", str(error), False)
        return StepReport(step.title, step.run, attempts=1, checks=(refused,))
    began = clock.monotonic()
    attempts = 0
    while True:
        observed = await _observe(argv, surroundings, step.timeout)
        attempts += 1
        checks = checks_of(expect, observed)
        waited = clock.monotonic() - began
        if all(check.passed for check in checks) or waited >= expect.within:
            break
        pause = _PAUSES_S[min(attempts, len(_PAUSES_S)) - 1]
        await clock.sleep(min(pause, expect.within - waited))
    if step.command.assigns:
        checks = (*checks, _assigned(step.command.assigns, observed))
        if all(check.passed for check in checks):
            values[step.command.assigns] = observed.stdout.strip()
    return StepReport(
        title=step.title,
        command=step.run,
        exit_status=observed.exit_status,
        stdout=observed.stdout,
        stderr=observed.stderr,
        attempts=attempts,
        duration_s=clock.monotonic() - began,
        checks=checks,
    )


def _assigned(name: str, observed: Observation) -> Check:
    value = observed.stdout.strip()
    if len(value) > MAX_VALUE:
        return Check(f"{name} gets a value", f"{len(value)} characters: at most {MAX_VALUE} are kept", False)
    return Check(f"{name} gets a value", "" if value else "it printed nothing", bool(value))


async def _observe(argv: tuple[str, ...], surroundings: Surroundings, timeout_s: float) -> Observation:
    """Run one process to its end, or until `timeout_s` of real time has passed.

    It gets a session of its own, so that Ctrl-C reaches the runner alone and the clean-up can still run. Its
    pipes are ours: asyncio's own would have us wait for whoever else it handed them to.
    """
    async with _pipe() as (out, out_end), _pipe() as (err, err_end):
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=surroundings.folder,
            env=surroundings.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out_end,
            stderr=err_end,
            start_new_session=True,
        )
        out_end.close()
        err_end.close()
        try:
            async with asyncio.timeout(timeout_s):
                stdout, stderr = await asyncio.gather(_bounded(out), _bounded(err))
                status = await process.wait()
        except TimeoutError:
            return Observation(_TIMED_OUT, "", f"no end after {timeout_s:g} s")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return Observation(status, stdout, stderr)


@contextlib.asynccontextmanager
async def _pipe() -> AsyncIterator[tuple[asyncio.StreamReader, BinaryIO]]:
    """A reader, and the end for a process; both are closed at last, whoever still holds that end."""
    read, write = os.pipe()
    reader = asyncio.StreamReader()
    with os.fdopen(read, "rb", 0) as source, os.fdopen(write, "wb", 0) as end:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), source
        )
        try:
            yield reader, end
        finally:
            transport.close()


async def _bounded(stream: asyncio.StreamReader) -> str:
    """The stream's text; what exceeds the bound is read and dropped, so that the process can end."""
    content = bytearray()
    while chunk := await stream.read(1 << 16):
        content += chunk[: MAX_OUTPUT_BYTES - len(content)]
    return content.decode("utf-8", "replace")
