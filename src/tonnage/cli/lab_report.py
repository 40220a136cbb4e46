"""How a lab reads: each step's command, what was expected, what was seen; and the same as JSON. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import click

from tonnage.cli.lab_checks import Check
from tonnage.cli.output import printable
from tonnage.documents.lab import Lab, Step
from tonnage.model.json import JsonObject

_LONGEST_LINES: Final = 32
_LONGEST_JSON: Final = 8


@dataclass(frozen=True, slots=True)
class StepReport:
    """One step as it went. `attempts` is 0 for a step that was not run because an earlier one failed."""

    title: str
    command: str
    exit_status: int | None = None
    stdout: str = ""
    stderr: str = ""
    attempts: int = 0
    duration_s: float = 0.0
    checks: tuple[Check, ...] = ()

    @property
    def skipped(self) -> bool:
        """Whether the step was not run."""
        return self.attempts == 0

    @property
    def passed(self) -> bool:
        """Whether it was run and everything came true."""
        return not self.skipped and all(check.passed for check in self.checks)


@dataclass(frozen=True, slots=True)
class LabReport:
    """A whole run. A failed clean-up fails the lab: it left something behind."""

    name: str
    title: str
    covers: tuple[str, ...]
    server: str
    kubectl: str
    steps: tuple[StepReport, ...]
    cleanup: tuple[StepReport, ...]
    duration_s: float

    @property
    def passed(self) -> bool:
        """Whether every step and every clean-up step passed."""
        return all(step.passed for step in (*self.steps, *self.cleanup))

    def as_json(self) -> JsonObject:
        """The report for scripts."""
        return {
            "lab": self.name,
            "title": self.title,
            "covers": list(self.covers),
            "passed": self.passed,
            "kubectl": self.kubectl,
            "server": self.server,
            "durationS": round(self.duration_s, 3),
            "steps": [_step_json(step) for step in self.steps],
            "cleanup": [_step_json(step) for step in self.cleanup],
        }


def _step_json(step: StepReport) -> JsonObject:
    return {
        "title": step.title,
        "command": step.command,
        "passed": step.passed,
        "skipped": step.skipped,
        "exitStatus": step.exit_status,
        "stdout": step.stdout,
        "stderr": step.stderr,
        "attempts": step.attempts,
        "durationS": round(step.duration_s, 3),
        "checks": [dataclasses.asdict(check) for check in step.checks],
    }


def in_a_line(text: str) -> str:
    """A lab's text where one line is meant: nothing in it steers a terminal or begins a line of its own.

    >>> in_a_line("a\\x1b[2J\\n[1/3] b")
    'a\\\\x1b[2J [1/3] b'
    """
    return printable(" ".join(text.splitlines()))


def render_head(lab: Lab, folder: str, where: str) -> str:
    """What stands above the steps."""
    lines = [
        click.style(f"Lab {lab.name}: {in_a_line(lab.title)}", bold=True),
        *(f"  {printable(line)}" for line in lab.description.strip().splitlines()),
        f"  covers {', '.join(lab.covers)}" if lab.covers else "",
        f"  {in_a_line(where)}",
        f"  cd {in_a_line(folder)}",
    ]
    return "\n".join(line for line in lines if line)


def render_command(step: Step, number: int, total: int) -> str:
    """What stands above a step while it runs: title, reason, and the command to paste."""
    title = click.style(f"[{number}/{total}] {in_a_line(step.title)}".rstrip(), bold=True)
    reason = [f"  {printable(line)}" for line in step.explain.strip().splitlines()]
    lines = [printable(line.strip()) for line in step.run.strip().splitlines()]
    command = click.style("\n    ".join(lines), fg="cyan")
    return "\n".join(["", title, *reason, f"  $ {command}"])


def render_outcome(report: StepReport) -> str:
    """What stands below a step once it has run: what was seen, then each expectation with ✓ or ✗."""
    lines = [*(f"    {printable(line)}" for line in trimmed(report.stdout, report.stderr)), *_marks(report)]
    return "\n".join(lines)


def _marks(report: StepReport) -> Iterator[str]:
    for check in report.checks:
        if check.passed:
            yield f"  {click.style('✓', fg='green')} {in_a_line(check.expected)}"
        else:
            yield f"  {click.style('✗', fg='red', bold=True)} {in_a_line(check.expected)}"
            yield f"      seen: {in_a_line(check.seen)}"
    if report.attempts > 1:
        yield f"    (after {report.duration_s:.1f} s, {report.attempts} tries)"


def trimmed(stdout: str, stderr: str) -> tuple[str, ...]:
    """The output without its middle when long; of long JSON its length: the checks say what matters."""
    lines = [*stdout.rstrip().splitlines(), *stderr.rstrip().splitlines()]
    if len(lines) > _LONGEST_JSON and not stderr and (lines[0][:1], lines[-1]) == ("{", "}"):
        return (f"{{... {len(lines)} lines of JSON ...}}",)
    if len(lines) <= _LONGEST_LINES:
        return tuple(lines)
    head, tail = lines[: _LONGEST_LINES - 9], lines[-8:]
    return (*head, f"... {len(lines) - len(head) - len(tail)} lines ...", *tail)


def render_summary(report: LabReport) -> str:
    """The last line."""
    total = len(report.steps)
    passed = sum(step.passed for step in report.steps)
    took = f"{report.duration_s:.1f} s"
    if report.passed:
        return click.style(f"\nLab {report.name} passed: {passed} of {total} steps in {took}.", fg="green")
    failed = next((step for step in (*report.steps, *report.cleanup) if not step.passed), None)
    where = f" First failure: {in_a_line(failed.title or failed.command)}." if failed else ""
    return click.style(
        f"\nLab {report.name} failed: {passed} of {total} steps passed in {took}.{where}", fg="red"
    )
