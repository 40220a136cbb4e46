"""Measures services that share this container's GPU: `python3 -m tonnage.adapters.measured_load`.

`tonnage-load` of pretended containers says the same out of a model. Here every service is a process that
computes on the GPU (`gpu_service`), first one by itself, then all at once, and what they see is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from tonnage.documents.pretended_load import parse_load
from tonnage.model.devices.mps import PIPE_VARIABLE
from tonnage.model.devices.pretended_load import PretendedLoad
from tonnage.model.devices.service_levels import LEVEL_HEADING, ServiceLevel, SharingWay, level_line
from tonnage.model.errors import HardwareError, Problem

_PATIENCE_S: Final = 120.0
"""For what a process does beside serving: its start, the driver's compiler, trials of the kernel."""
_MOST_PROCESSES: Final = 48
_LONGEST_S: Final = 600
_KEEPS_UP: Final = 0.95
"""So large a part of the requests must have been begun by the end, or the queue grows."""


@dataclass(frozen=True, slots=True)
class MeasuredLevels:
    """What services saw: one that was alone, and all of them at once in `way`."""

    device: str
    way: SharingWay
    alone: ServiceLevel
    together: tuple[ServiceLevel, ...]


class _Service:
    """A process that obeys orders."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ask(self, order: Mapping[str, Any], patience_s: float = _PATIENCE_S) -> Mapping[str, Any]:
        """Its answer. Raises HardwareError: what does not work, or that it does not answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(patience_s):
                self._process.stdin.write(json.dumps(order).encode() + b"\n")
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise HardwareError(Problem(f"a service did not answer within {patience_s:g} s")) from None
        if not line:
            raise HardwareError(Problem("a service ended; what it said stands above"))
        answer = json.loads(line)
        if "error" in answer:
            raise HardwareError(Problem(f"a service cannot use the GPU: {answer['error']}"))
        assert isinstance(answer, dict)
        return answer


@asynccontextmanager
async def _service() -> AsyncIterator[_Service]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tonnage.adapters.gpu_service"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield _Service(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def measure(load: PretendedLoad, processes: int, seconds: float) -> MeasuredLevels:
    """What so many services of this load see, each way for so long. Raises HardwareError."""
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(_service())
        device = (await first.ask({"width": load.width}))["device"]
        rounds = (await first.ask({"service_s": load.service_s}))["rounds"]

        async def served(service: _Service, seed: int) -> ServiceLevel:
            order = {"rounds": rounds, "rate": load.rate, "seconds": seconds, "seed": seed}
            return _level(await service.ask(order, 2 * seconds + _PATIENCE_S), seconds)

        alone = await served(first, 0)
        services = [first]
        for _ in range(processes - 1):
            services.append(await stack.enter_async_context(_service()))
            await services[-1].ask({"width": load.width})
        together = await asyncio.gather(*(served(service, seed) for seed, service in enumerate(services)))
    return MeasuredLevels(device, _way(processes), alone, tuple(together))


def _level(answer: Mapping[str, Any], seconds: float) -> ServiceLevel:
    throughput = answer["answered"] / seconds
    if not answer["answered"] or answer["answered"] < _KEEPS_UP * answer["came"]:
        return ServiceLevel(throughput, None, None, None)
    return ServiceLevel(throughput, answer["p50"], answer["p95"], answer["p99"])


def _way(processes: int) -> SharingWay:
    """How processes of this container share its GPU: through MPS where they are told of a daemon."""
    if processes == 1:
        return SharingWay.EXCLUSIVE
    return SharingWay.MPS if os.environ.get(PIPE_VARIABLE) else SharingWay.TIME_SLICING


def report(levels: MeasuredLevels, load: PretendedLoad, p95_s: float) -> Iterator[str]:
    """Lines as `tonnage-load` of the twin prints them; the advice is of what was measured alone."""
    processes, way = len(levels.together), levels.way
    yield f"{processes} on this GPU, {way}; measured on {levels.device}"
    yield LEVEL_HEADING
    yield level_line(SharingWay.EXCLUSIVE, load.rate, levels.alone, "process-0")
    if processes > 1:
        for number, level in enumerate(levels.together):
            yield level_line(way, load.rate, level, f"process-{number}")
    yield f"advice for 95 % within {p95_s * 1000:g} ms: {_advice(levels, p95_s)}"


def _advice(levels: MeasuredLevels, p95_s: float) -> str:
    processes, way = len(levels.together), levels.way
    if not levels.alone.meets(p95_s):
        return "a larger GPU, or smaller requests: one service by itself is later"
    if processes == 1:
        return "exclusive on 1 GPU: more services were not tried (--processes)"
    other = SharingWay.MPS if way is SharingWay.TIME_SLICING else SharingWay.TIME_SLICING
    if all(level.meets(p95_s) for level in levels.together):
        return f"{way} on 1 GPU: all {processes} were in time; {other} was not measured"
    return f"exclusive on {processes} GPUs: {way} was late; {other} was not measured"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("measured_load", description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("load", help="inference rate=20 service=10ms width=20%%, in one argument")
    parser.add_argument("--processes", type=int, default=4, help="services at once (%(default)s)")
    parser.add_argument("--seconds", type=float, default=10, help="for how long each way (%(default)s)")
    parser.add_argument("--p95", default="50ms", help="the latency to meet (%(default)s)")
    chosen = parser.parse_args(arguments)
    load = parse_load(chosen.load)
    if isinstance(load, Problem):
        parser.error(str(load))
    if not load.rate or not load.service_s or not load.width:
        parser.error("a load that answers requests is needed: inference rate=20 service=10ms width=20%")
    if not 1 <= chosen.processes <= _MOST_PROCESSES:
        parser.error(f"--processes takes 1 to {_MOST_PROCESSES}")
    if not 0.1 <= chosen.seconds <= _LONGEST_S:
        parser.error(f"--seconds takes 0.1 to {_LONGEST_S}")
    number = chosen.p95.removesuffix("ms")
    if not number.isdecimal() or len(number) > 6:
        parser.error("--p95 takes milliseconds, as 50ms")
    chosen.load, chosen.p95 = load, int(number) / 1000
    return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = _options(arguments)
    try:
        levels = asyncio.run(measure(options.load, options.processes, options.seconds))
    except HardwareError as error:
        print(f"error: nothing was measured: {error}", file=sys.stderr)
        return 1
    for line in report(levels, options.load, options.p95):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
