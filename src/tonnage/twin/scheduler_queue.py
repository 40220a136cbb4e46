"""The pods that wait for a scheduling cycle: now, after their back-off, or until the cluster changes.

Source: kube-scheduler 1.35 (SchedulingQueue): priority first, then age; back-off of 1 s doubling to 10 s.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Final

from tonnage.adapters.informer import Key

_FIRST_BACK_OFF_S: Final = 1.0
_LONGEST_BACK_OFF_S: Final = 10.0
_FORGOTTEN_S: Final = 300.0
"""A pod that nothing woke is tried again after this long."""


@dataclass(slots=True)
class _Waiting:
    """A pod that waits. `ready_s` is None while only a change of the cluster can help it."""

    order: tuple[int, int]
    attempts: int = 0
    failed_s: float = 0.0
    ready_s: float | None = 0.0


class SchedulingQueue:
    """Keys of pods. Times are those of a monotonic clock that the caller reads."""

    def __init__(self) -> None:
        self._waiting: dict[Key, _Waiting] = {}
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def waiting(self) -> tuple[Key, ...]:
        """Every pod that waits."""
        return tuple(self._waiting)

    def add(self, key: Key, priority: int) -> None:
        """Have a new pod tried at once; one that waits already keeps its place and back-off."""
        if key not in self._waiting:
            self._arrivals += 1
            self._waiting[key] = _Waiting((-priority, self._arrivals))

    def remove(self, key: Key) -> None:
        """The pod is bound, or gone."""
        self._waiting.pop(key, None)

    def fail(self, key: Key, now_s: float) -> None:
        """The pod was tried in vain: it waits for a change of the cluster."""
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.attempts += 1
            waiting.failed_s = now_s
            waiting.ready_s = None

    def wake(self, key: Key) -> None:
        """The pod itself changed: try it again, after its back-off."""
        waiting = self._waiting.get(key)
        if waiting is not None and waiting.ready_s is None:
            waiting.ready_s = waiting.failed_s + _back_off_s(waiting.attempts)

    def wake_all(self) -> None:
        """The cluster changed: try every pod again, each after its back-off."""
        for key in self._waiting:
            self.wake(key)

    def pop(self, now_s: float) -> Key | None:
        """The most urgent pod whose time has come. It stays in the queue until `remove` or `fail`."""
        ready = [(waiting.order, key) for key, waiting in self._waiting.items() if _due_s(waiting) <= now_s]
        return heapq.nsmallest(1, ready)[0][1] if ready else None

    def next_due_s(self) -> float | None:
        """When the next pod's time comes; None when none waits."""
        return min((_due_s(waiting) for waiting in self._waiting.values()), default=None)


def _due_s(waiting: _Waiting) -> float:
    return waiting.failed_s + _FORGOTTEN_S if waiting.ready_s is None else waiting.ready_s


def _back_off_s(attempts: int) -> float:
    """The pause after so many failures.

    >>> [_back_off_s(n) for n in (1, 2, 3, 5)]
    [1.0, 2.0, 4.0, 10.0]
    """
    return min(_FIRST_BACK_OFF_S * 2.0 ** min(attempts - 1, 10), _LONGEST_BACK_OFF_S)
