"""How a change of a node's MIG layout proceeds: forward, back, with a restart of the node, or given up.

The stage of a change and what happened to it say which stage follows. `TRANSITIONS` is all of that;
`python -m scripts.draw_mig` draws it into `docs/explanation/how-a-mig-change-proceeds.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final

from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.mig.change import MigChange
from tonnage.model.actions.devices import MigStep, ResetGpu
from tonnage.model.errors import Bug, Problem
from tonnage.model.reasons.mig import (
    MigBoardResetNeeded,
    MigObstacle,
    MigRestartHeldUp,
    MigRestartNeeded,
    MigRestartUseless,
)

_MANY_RESUMES: Final = 3
"""After so many agents that ended during a change it goes back; after twice as many it is given up."""
_MOST_NAMED: Final = 5


class Stage(StrEnum):
    """Where a change stands; those without a way onward are its ends."""

    WITHDRAWN = "withdrawn"
    """Kubelet may give out nothing of it; nothing is done to the GPUs."""
    FORWARD = "forward"
    RESTART = "restart"
    """The node restarts, if it may."""
    BACK = "back"
    BACK_FOR_BOARD = "back for its board"
    """To begin anew with all GPUs that are reset with one of them."""
    APPLIED = "applied"
    RESTORED = "restored"
    ANEW = "anew"
    """The layout of before is back, and the change begins again with more GPUs."""
    GIVEN_UP = "given up"
    WAITING = "waiting"
    """Somebody was quicker, and is waited for."""
    UNTOUCHED = "untouched"
    """It ended before anything was done."""


class Event(StrEnum):
    """What happens to a change."""

    FREE = "free"
    """Nobody uses what it destroys."""
    IN_USE = "in use"
    REACHED = "reached"
    """The GPUs are as they shall be."""
    REFUSED = "refused"
    """The driver, the host, a disk or whoever uses the GPUs does not let it go on."""
    BOARD_NEEDED = "board needed"
    RESET_REFUSED = "reset refused"
    """A reset, and nothing else, is what it lacks."""
    RESUMED = "resumed"
    """An agent ended, and the next one has found the change in the journal."""
    RESUMED_OFTEN = "resumed often"
    RESUMED_TOO_OFTEN = "resumed too often"


TRANSITIONS: Final[Mapping[Stage, Mapping[Event, Stage]]] = {
    Stage.WITHDRAWN: {
        Event.FREE: Stage.FORWARD,
        Event.IN_USE: Stage.WAITING,
        Event.REFUSED: Stage.UNTOUCHED,
        Event.RESUMED: Stage.UNTOUCHED,
        Event.RESUMED_OFTEN: Stage.UNTOUCHED,
        Event.RESUMED_TOO_OFTEN: Stage.UNTOUCHED,
    },
    Stage.FORWARD: {
        Event.REACHED: Stage.APPLIED,
        Event.REFUSED: Stage.BACK,
        Event.BOARD_NEEDED: Stage.BACK_FOR_BOARD,
        Event.RESET_REFUSED: Stage.RESTART,
        Event.RESUMED: Stage.FORWARD,
        Event.RESUMED_OFTEN: Stage.BACK,
        Event.RESUMED_TOO_OFTEN: Stage.GIVEN_UP,
    },
    Stage.RESTART: {
        Event.REFUSED: Stage.BACK,
        Event.RESUMED: Stage.FORWARD,
        Event.RESUMED_OFTEN: Stage.BACK,
        Event.RESUMED_TOO_OFTEN: Stage.GIVEN_UP,
    },
    Stage.BACK: {
        Event.REACHED: Stage.RESTORED,
        Event.REFUSED: Stage.GIVEN_UP,
        Event.BOARD_NEEDED: Stage.GIVEN_UP,
        Event.RESET_REFUSED: Stage.GIVEN_UP,
        Event.RESUMED: Stage.BACK,
        Event.RESUMED_OFTEN: Stage.BACK,
        Event.RESUMED_TOO_OFTEN: Stage.GIVEN_UP,
    },
    Stage.BACK_FOR_BOARD: {
        Event.REACHED: Stage.ANEW,
        Event.REFUSED: Stage.GIVEN_UP,
        Event.BOARD_NEEDED: Stage.GIVEN_UP,
        Event.RESET_REFUSED: Stage.GIVEN_UP,
        Event.RESUMED: Stage.BACK_FOR_BOARD,
        Event.RESUMED_OFTEN: Stage.BACK_FOR_BOARD,
        Event.RESUMED_TOO_OFTEN: Stage.GIVEN_UP,
    },
}
"""What is not in it cannot happen."""


def next_stage(stage: Stage, event: Event) -> Stage:
    """The stage that follows. Raises Bug: the event cannot happen there.

    >>> str(next_stage(Stage.BACK, Event.REFUSED))
    'given up'
    """
    after = TRANSITIONS.get(stage, {}).get(event)
    if after is None:
        raise Bug(Problem(f"a MIG change that is {stage} has met {event!s}"))
    return after


def stage_of(change: MigChange) -> Stage:
    """Where a change stands that an agent finds in its journal."""
    if not change.begun:
        return Stage.WITHDRAWN
    if change.why:
        return Stage.BACK_FOR_BOARD if change.stubborn else Stage.BACK
    return Stage.RESTART if change.rebooted else Stage.FORWARD


def resumed(change: MigChange) -> tuple[Event, MigChange]:
    """What it is that one more agent has ended, and the change with that agent counted."""
    count = change.resumed + 1
    why = change.why or (f"{count} agents ended during the change" if count >= _MANY_RESUMES else "")
    event = Event.RESUMED_OFTEN if count >= _MANY_RESUMES else Event.RESUMED
    if count >= 2 * _MANY_RESUMES:
        event = Event.RESUMED_TOO_OFTEN
    return event, replace(change, resumed=count, why=why)


def refusal_of(step: MigStep | MigObstacle | None) -> Event:
    """What it is that a step was not taken; None: which one it would have been is not known."""
    match step:
        case MigBoardResetNeeded():
            return Event.BOARD_NEEDED
        case MigRestartNeeded() | ResetGpu():
            return Event.RESET_REFUSED
    return Event.REFUSED


def restart_obstacle(change: MigChange, boot: str, held: DeviceHolds) -> MigObstacle | None:
    """Why the node, which is in boot `boot`, does not restart for a change; None: it may."""
    if change.rebooted not in ("", boot):
        message = "a restart of the node did not help"
        return MigRestartUseless(subject="MIG layout", message=message, lasting=True)
    if holders := sorted({f"{hold.namespace}/{hold.pod}" for hold in held.holds}):
        named = ", ".join(holders[:_MOST_NAMED])
        message = f"a restart of the node may help, but its GPUs are used by {named}"
        return MigRestartHeldUp(subject="MIG layout", message=message, holders=tuple(holders))
    return None
