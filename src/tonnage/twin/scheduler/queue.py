"""PriorityQueue: pods that wait for a cycle: now, after their back-off, or until the cluster changes.

Source: kube-scheduler 1.35 (SchedulingQueue). Priority first, then age; a back-off of 1 s doubles to 10 s.
Since 1.33 (SchedulerPopFromBackoffQ) it ends with a whole second; it is cut short when no other pod is ready.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from tonnage.loop.informer import Key

_FIRST_BACK_OFF_S: Final = 1.0
_LONGEST_BACK_OFF_S: Final = 10.0
_FORGOTTEN_S: Final = 300.0
"""A pod that nothing woke is tried again after this long."""

Pool = list[tuple[float, tuple[int, int], int, Key]]
"""A heap of pods by time, then by order. An entry counts while the pod is still at that move."""


@dataclass(slots=True)
class _Waiting:
    """A pod that waits, in one pool at a time: where its last move has put it."""

    order: tuple[int, int]
    pool: Pool = field(default_factory=list)
    move: int = 0
    refusals: int = 0
    errors: int = 0
    """In a row, since the last refusal."""
    failed_s: float = 0.0
    refused_by: frozenset[str] = frozenset()


class SchedulingQueue:
    """Keys of pods. Times are those of a monotonic clock that the caller reads."""

    def __init__(self, *, cuts_short: bool = True) -> None:
        self._cuts_short = cuts_short
        self._waiting: dict[Key, _Waiting] = {}
        self._moves = 0
        self._ready: Pool = []
        self._backing_off: Pool = []
        self._after_errors: Pool = []
        self._asleep: Pool = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: Key, priority: int) -> None:
        """Have a new pod tried at once; one that waits already keeps its place and back-off."""
        if key not in self._waiting:
            self._waiting[key] = _Waiting((-priority, self._moves))
            self._put(key, self._ready, 0.0)

    def remove(self, key: Key) -> None:
        """The pod is bound, or gone."""
        self._waiting.pop(key, None)

    def fail(self, key: Key, now_s: float, refused_by: frozenset[str] = frozenset()) -> None:
        """The pod was tried in vain: it waits for a change that may help against these plugins."""
        if waiting := self._tried(key, now_s):
            waiting.refusals += 1
            waiting.errors = 0
            waiting.refused_by = refused_by
            self._put(key, self._asleep, now_s + _FORGOTTEN_S)

    def hold(self, key: Key, held_by: str) -> None:
        """The pod is not to be tried: it waits for a change that may help against this plugin."""
        if waiting := self._waiting.get(key):
            waiting.refused_by = frozenset((held_by,))
            self._put(key, self._asleep, math.inf)

    def err(self, key: Key, now_s: float) -> None:
        """The pod was not refused, something broke: try it again, never before its back-off has ended."""
        if waiting := self._tried(key, now_s):
            waiting.errors += 1
            self._put(key, self._after_errors, self._end_of_back_off(waiting))

    def wake(self, key: Key) -> None:
        """Try the pod again, after its back-off."""
        waiting = self._waiting.get(key)
        if waiting is None or waiting.pool is not self._asleep:
            return
        if waiting.refusals or waiting.errors:
            self._put(key, self._backing_off, self._end_of_back_off(waiting))
        else:
            self._put(key, self._ready, 0.0)

    def wake_where(self, helps: Callable[[Key, frozenset[str]], bool]) -> None:
        """The cluster changed: try the pods again that it may help, each after its back-off."""
        for key, waiting in self._waiting.items():
            if waiting.pool is self._asleep and helps(key, waiting.refused_by):
                self.wake(key)

    def pop(self, now_s: float) -> Key | None:
        """The most urgent pod whose time has come. It stays in the queue until `remove`, `fail` or `err`."""
        for pool in (self._backing_off, self._after_errors, self._asleep):
            while (first := self._first(pool)) and pool[0][0] <= now_s:
                self._put(first, self._ready, 0.0)
        ready = self._first(self._ready)
        return self._first(self._backing_off) if ready is None and self._cuts_short else ready

    def next_due_s(self) -> float | None:
        """When the next pod's time comes; None when none waits."""
        pools = (self._ready, self._backing_off, self._after_errors, self._asleep)
        due_s = min((pool[0][0] for pool in pools if self._first(pool)), default=math.inf)
        return due_s if due_s < math.inf else None

    def _tried(self, key: Key, now_s: float) -> _Waiting | None:
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.failed_s = now_s
        return waiting

    def _put(self, key: Key, pool: Pool, due_s: float) -> None:
        waiting = self._waiting[key]
        self._moves += 1
        waiting.pool, waiting.move = pool, self._moves
        heappush(pool, (due_s, waiting.order, self._moves, key))

    def _first(self, pool: Pool) -> Key | None:
        """The pod of a pool's first entry that counts; those before it are dropped."""
        while pool:
            _, _, move, key = pool[0]
            waiting = self._waiting.get(key)
            if waiting is not None and waiting.move == move:
                return key
            heappop(pool)
        return None

    def _end_of_back_off(self, waiting: _Waiting) -> float:
        ends_s = waiting.failed_s + _back_off_s(waiting.errors or waiting.refusals)
        return math.floor(ends_s) + 1.0 if self._cuts_short else ends_s


def _back_off_s(attempts: int) -> float:
    """The pause after so many failures.

    >>> [_back_off_s(n) for n in (1, 2, 3, 5)]
    [1.0, 2.0, 4.0, 10.0]
    """
    return min(_FIRST_BACK_OFF_S * 2.0 ** min(attempts - 1, 10), _LONGEST_BACK_OFF_S)
