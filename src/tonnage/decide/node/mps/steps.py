"""What to do next about each MPS control daemon, given those that should run and those that stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from tonnage.model.actions.mps import StartDaemon, StopDaemon
from tonnage.model.devices.mps import MpsDaemon, MpsState
from tonnage.model.names import ResourceName

BACK_OFF_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""After the first failure in a row, the second …; the last for all that follow."""
ASK_S: Final = 10.0
ASK_AGAIN_S: Final = 2.0
"""After a question that was not answered."""
MOST_SILENCES: Final = 3
"""So many unanswered questions in a row, and the daemon is replaced."""
FORGIVEN_S: Final = 60.0
"""A daemon that served so long has no failures behind it."""


@dataclass(frozen=True, slots=True)
class DaemonState:
    """A daemon as it was left; monotonic seconds. `ready`: it answered last. `why`: why it does not serve.

    One that is not `alive` may still have left processes, files and the devices' mode behind. `busy`: a step
    is under way, and nothing else is begun. `due_at` is when it is to be asked, or started, again.
    """

    daemon: MpsDaemon
    alive: bool = False
    ready: bool = False
    busy: bool = False
    why: str = "not started yet"
    failures: int = 0
    silences: int = 0
    starts: int = 0
    since: float = 0.0
    due_at: float = 0.0

    @property
    def state(self) -> MpsState:
        """As others see it."""
        return MpsState(self.daemon, "" if self.ready else self.why, max(0, self.starts - 1))


@dataclass(frozen=True, slots=True)
class QueryDaemon:
    """Ask whether it serves."""

    daemon: MpsDaemon


Step: TypeAlias = StartDaemon | QueryDaemon | StopDaemon


def next_steps(
    targets: tuple[MpsDaemon, ...],
    standing: Mapping[ResourceName, DaemonState],
    held: Set[str],
    *,
    now: float,
) -> tuple[Step, ...]:
    """At most one step for each resource; those of different resources may be taken at the same time.

    A daemon that is not wanted any more, or with other limits, stays while containers hold its resource
    (`held`): its end would be theirs. One that died, or is silent, serves nobody and is replaced at once. No
    daemon starts on a device that another still has.
    """
    return tuple(_steps({daemon.resource: daemon for daemon in targets}, standing, held, now))


def _steps(
    targets: Mapping[ResourceName, MpsDaemon],
    standing: Mapping[ResourceName, DaemonState],
    held: Set[str],
    now: float,
) -> Iterator[Step]:
    for resource, state in standing.items():
        if state.busy:
            continue
        right = resource in targets and targets[resource].like(state.daemon)
        if state.alive and (right or resource in held):
            if now >= state.due_at:
                yield QueryDaemon(state.daemon)
        elif not right:
            if now >= state.due_at or state.alive:
                yield StopDaemon(state.daemon)
        elif now >= state.due_at and not _is_occupied(targets[resource], standing):
            yield StartDaemon(targets[resource])
    for resource, daemon in targets.items():
        if resource not in standing and not _is_occupied(daemon, standing):
            yield StartDaemon(daemon)


def _is_occupied(daemon: MpsDaemon, standing: Mapping[ResourceName, DaemonState]) -> bool:
    """Whether a device of it is still another daemon's."""
    uuids = {device.uuid for device in daemon.devices}
    return any(
        resource != daemon.resource and any(device.uuid in uuids for device in other.daemon.devices)
        for resource, other in standing.items()
    )


def pause_s(failures: int) -> float:
    """Seconds before the next try after so many failures in a row.

    >>> pause_s(1), pause_s(3), pause_s(100)
    (0.5, 2.0, 30.0)
    """
    return BACK_OFF_S[min(failures, len(BACK_OFF_S)) - 1]


def started(state: DaemonState, *, now: float) -> DaemonState:
    """After a start that succeeded."""
    return replace(
        state,
        alive=True,
        ready=True,
        why="",
        silences=0,
        starts=state.starts + 1,
        since=now,
        due_at=now + ASK_S,
    )


def answered(state: DaemonState, *, now: float) -> DaemonState:
    """After a question that was answered."""
    failures = 0 if now - state.since >= FORGIVEN_S else state.failures
    return replace(state, ready=True, why="", silences=0, failures=failures, due_at=now + ASK_S)


def silent(state: DaemonState, why: str, *, now: float) -> DaemonState:
    """After a question that was not answered: after some in a row it counts as dead."""
    silences = state.silences + 1
    if silences >= MOST_SILENCES:
        return died(state, why, now=now)
    return replace(state, ready=False, why=why, silences=silences, due_at=now + ASK_AGAIN_S)


def died(state: DaemonState, why: str, *, now: float) -> DaemonState:
    """After its end, or a start that failed. One that served long is started again at once."""
    failures = 0 if state.ready and now - state.since >= FORGIVEN_S else state.failures
    pause = pause_s(failures) if failures else 0.0
    return replace(
        state, alive=False, ready=False, why=why, silences=0, failures=failures + 1, due_at=now + pause
    )
