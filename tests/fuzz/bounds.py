"""How much one input may cost: seconds of this process, and memory beyond what it had.

The bounds keep machines safe and say nothing about speed: they are far above what any input needs that a
person writes, and far below what a machine notices.
"""

from __future__ import annotations

import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

MOST_WALL_S: Final = 20.0
"""For one input; whoever waits that long waits for nothing, or is held up by a call that does not end."""
_MOST_CPU_S: Final = 4.0
_CPU_S_PER_MIB: Final = 10.0
"""What is added for each MiB of an input: ten thousand objects take their time."""
_MOST_MIB: Final = 128
"""More than before, at any moment while one input is read: half of what the chart lets an agent have."""
_ADDRESSES_MIB: Final = 4096
"""More addresses than before: what asks for that much at once is refused, and the machine lives."""
_STATUS: Final = Path("/proc/self/status")
_CLEAR: Final = Path("/proc/self/clear_refs")
_FORGET_PEAK: Final = "5"


class OverBoundError(AssertionError):
    """One input cost more than it may."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What an input took: time of the processor, and memory at its highest beyond what there was before."""

    cpu_s: float = 0.0
    peak_mib: float = 0.0
    size: int = 0

    def highest(self, other: Cost) -> Cost:
        """The more of each; the size is that of the slower."""
        slower = max(self, other, key=lambda cost: cost.cpu_s)
        return Cost(slower.cpu_s, max(self.peak_mib, other.peak_mib), slower.size)


def bounded(target: Callable[[bytes], None], data: bytes) -> Cost:
    """Run the target on the input. Raises OverBoundError; and whatever the target raises."""
    with suppress(OSError):  # else the peak is the process's so far, and only its growth is seen
        _CLEAR.write_text(_FORGET_PEAK, encoding="ascii")
    before_mib, start = _memory_mib("VmRSS"), time.process_time()
    target(data)
    cost = Cost(time.process_time() - start, max(0.0, _memory_mib("VmHWM") - before_mib), len(data))
    _check(cost)
    return cost


def growing(target: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """The target with the same bounds, for where a millisecond counts: only a new peak of memory is seen."""

    def run(data: bytes) -> None:
        before_kib, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        target(data)
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
        _check(Cost(time.process_time() - start, grown_kib / 1024, len(data)))

    return run


def _check(cost: Cost) -> None:
    if cost.cpu_s > _MOST_CPU_S + _CPU_S_PER_MIB * cost.size / (1 << 20):
        raise OverBoundError(f"an input of {cost.size} bytes took {cost.cpu_s:.1f} s of processor time")
    if cost.peak_mib > _MOST_MIB:
        raise OverBoundError(f"an input of {cost.size} bytes took {cost.peak_mib:.0f} MiB of memory")


@contextmanager
def alarmed() -> Iterator[None]:
    """Raise OverBoundError in what is inside once it has lasted too long. Only in the main thread."""

    def late(_number: int, _frame: FrameType | None) -> None:
        raise OverBoundError(f"an input took more than {MOST_WALL_S:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, MOST_WALL_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def few_addresses() -> Iterator[None]:
    """Let this process map little more memory than it has; what needs more gets a MemoryError."""
    before, most = resource.getrlimit(resource.RLIMIT_AS)
    wanted = (int(_memory_mib("VmSize")) + _ADDRESSES_MIB) << 20
    resource.setrlimit(resource.RLIMIT_AS, (wanted if before < 0 else min(before, wanted), most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, most))


def _memory_mib(name: str) -> float:
    for line in _STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"{_STATUS} has no {name}")
