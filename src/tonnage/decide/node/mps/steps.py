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
class Standing:
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
class Ask:
    """Ask whether it serves."""

    daemon: MpsDaemon


Step: TypeAlias = StartDaemon | Ask | StopDaemon


def next_steps(
    wanted: tuple[MpsDaemon, ...], standing: Mapping[ResourceName, Standing], held: Set[str], *, now: float
) -> tuple[Step, ...]:
    """At most one step for each resource; those of different resources may be taken at the same time.

    A daemon that is not wanted any more, or with other limits, stays while containers hold its resource
    (`held`): its end would be theirs. One that died, or is silent, serves nobody and is replaced at once. No
    daemon starts on a device that another still has.
    """
    return tuple(_steps({daemon.resource: daemon for daemon in wanted}, standing, held, now))


def _steps(
    wanted: Mapping[ResourceName, MpsDaemon],
    standing: Mapping[ResourceName, Standing],
    held: Set[str],
    now: float,
) -> Iterator[Step]:
    for resource, one in standing.items():
        if one.busy:
            continue
        right = resource in wanted and wanted[resource].like(one.daemon)
        if one.alive and (right or resource in held):
            if now >= one.due_at:
                yield Ask(one.daemon)
        elif not right:
            if now >= one.due_at or one.alive:
                yield StopDaemon(one.daemon)
        elif now >= one.due_at and not _taken(wanted[resource], standing):
            yield StartDaemon(wanted[resource])
    for resource, daemon in wanted.items():
        if resource not in standing and not _taken(daemon, standing):
            yield StartDaemon(daemon)


def _taken(daemon: MpsDaemon, standing: Mapping[ResourceName, Standing]) -> bool:
    """Whether a device of it is still another daemon's."""
    uuids = {device.uuid for device in daemon.devices}
    return any(
        resource != daemon.resource and any(device.uuid in uuids for device in one.daemon.devices)
        for resource, one in standing.items()
    )


def pause_s(failures: int) -> float:
    """Seconds before the next try after so many failures in a row.

    >>> pause_s(1), pause_s(3), pause_s(100)
    (0.5, 2.0, 30.0)
    """
    return BACK_OFF_S[min(failures, len(BACK_OFF_S)) - 1]


def started(one: Standing, *, now: float) -> Standing:
    """After a start that succeeded."""
    return replace(
        one, alive=True, ready=True, why="", silences=0, starts=one.starts + 1, since=now, due_at=now + ASK_S
    )


def answered(one: Standing, *, now: float) -> Standing:
    """After a question that was answered."""
    failures = 0 if now - one.since >= FORGIVEN_S else one.failures
    return replace(one, ready=True, why="", silences=0, failures=failures, due_at=now + ASK_S)


def silent(one: Standing, why: str, *, now: float) -> Standing:
    """After a question that was not answered: after some in a row it counts as dead."""
    silences = one.silences + 1
    if silences >= MOST_SILENCES:
        return died(one, why, now=now)
    return replace(one, ready=False, why=why, silences=silences, due_at=now + ASK_AGAIN_S)


def died(one: Standing, why: str, *, now: float) -> Standing:
    """After its end, or a start that failed. One that served long is started again at once."""
    failures = 0 if one.ready and now - one.since >= FORGIVEN_S else one.failures
    pause = pause_s(failures) if failures else 0.0
    return replace(
        one, alive=False, ready=False, why=why, silences=0, failures=failures + 1, due_at=now + pause
    )
