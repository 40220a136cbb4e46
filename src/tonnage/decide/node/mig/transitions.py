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
from tonnage.model.reasons.gpu.mig import (
    MigAgentsEnded,
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
    BACK_FOR_BOARD = "restored for its board"
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


class MigChangeEvent(StrEnum):
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


TRANSITIONS: Final[Mapping[Stage, Mapping[MigChangeEvent, Stage]]] = {
    Stage.WITHDRAWN: {
        MigChangeEvent.FREE: Stage.FORWARD,
        MigChangeEvent.IN_USE: Stage.WAITING,
        MigChangeEvent.REFUSED: Stage.UNTOUCHED,
        MigChangeEvent.RESUMED: Stage.UNTOUCHED,
        MigChangeEvent.RESUMED_OFTEN: Stage.UNTOUCHED,
        MigChangeEvent.RESUMED_TOO_OFTEN: Stage.UNTOUCHED,
    },
    Stage.FORWARD: {
        MigChangeEvent.REACHED: Stage.APPLIED,
        MigChangeEvent.REFUSED: Stage.BACK,
        MigChangeEvent.BOARD_NEEDED: Stage.BACK_FOR_BOARD,
        MigChangeEvent.RESET_REFUSED: Stage.RESTART,
        MigChangeEvent.RESUMED: Stage.FORWARD,
        MigChangeEvent.RESUMED_OFTEN: Stage.BACK,
        MigChangeEvent.RESUMED_TOO_OFTEN: Stage.GIVEN_UP,
    },
    Stage.RESTART: {
        MigChangeEvent.REFUSED: Stage.BACK,
        MigChangeEvent.RESUMED: Stage.FORWARD,
        MigChangeEvent.RESUMED_OFTEN: Stage.BACK,
        MigChangeEvent.RESUMED_TOO_OFTEN: Stage.GIVEN_UP,
    },
    Stage.BACK: {
        MigChangeEvent.REACHED: Stage.RESTORED,
        MigChangeEvent.REFUSED: Stage.GIVEN_UP,
        MigChangeEvent.BOARD_NEEDED: Stage.GIVEN_UP,
        MigChangeEvent.RESET_REFUSED: Stage.GIVEN_UP,
        MigChangeEvent.RESUMED: Stage.BACK,
        MigChangeEvent.RESUMED_OFTEN: Stage.BACK,
        MigChangeEvent.RESUMED_TOO_OFTEN: Stage.GIVEN_UP,
    },
    Stage.BACK_FOR_BOARD: {
        MigChangeEvent.REACHED: Stage.ANEW,
        MigChangeEvent.REFUSED: Stage.GIVEN_UP,
        MigChangeEvent.BOARD_NEEDED: Stage.GIVEN_UP,
        MigChangeEvent.RESET_REFUSED: Stage.GIVEN_UP,
        MigChangeEvent.RESUMED: Stage.BACK_FOR_BOARD,
        MigChangeEvent.RESUMED_OFTEN: Stage.BACK_FOR_BOARD,
        MigChangeEvent.RESUMED_TOO_OFTEN: Stage.GIVEN_UP,
    },
}
"""What is not in it cannot happen."""


def next_stage(stage: Stage, event: MigChangeEvent) -> Stage:
    """The stage that follows. Raises Bug: the event cannot happen there.

    >>> str(next_stage(Stage.BACK, MigChangeEvent.REFUSED))
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
    if change.refusal:
        return Stage.BACK_FOR_BOARD if change.stubborn else Stage.BACK
    return Stage.RESTART if change.rebooted else Stage.FORWARD


def resumed(change: MigChange) -> tuple[MigChangeEvent, MigChange]:
    """What it is that one more agent has ended, and the change with that agent counted."""
    count = change.resumed + 1
    refusal = change.refusal or (_agents_ended(change, count) if count >= _MANY_RESUMES else None)
    event = MigChangeEvent.RESUMED_OFTEN if count >= _MANY_RESUMES else MigChangeEvent.RESUMED
    if count >= 2 * _MANY_RESUMES:
        event = MigChangeEvent.RESUMED_TOO_OFTEN
    return event, replace(change, resumed=count, refusal=refusal)


def _agents_ended(change: MigChange, count: int) -> MigAgentsEnded:
    message = f"{count} agents ended during the change"
    return MigAgentsEnded(subject=f"MIG configuration {change.config}", message=message, agents=count)


def refusal_of(step: MigStep | MigObstacle | None) -> MigChangeEvent:
    """What it is that a step was not taken; None: which one it would have been is not known."""
    match step:
        case MigBoardResetNeeded():
            return MigChangeEvent.BOARD_NEEDED
        case MigRestartNeeded() | ResetGpu():
            return MigChangeEvent.RESET_REFUSED
    return MigChangeEvent.REFUSED


def restart_obstacle(change: MigChange, boot: str, held: DeviceHolds) -> MigObstacle | None:
    """Why the node, which is in boot `boot`, does not restart for a change; None: it may."""
    if change.rebooted not in ("", boot):
        message = "a reboot of the node did not help"
        return MigRestartUseless(subject="MIG layout", message=message, lasting=True)
    if holders := sorted({f"{hold.namespace}/{hold.pod}" for hold in held.holds}):
        named = ", ".join(holders[:_MOST_NAMED])
        message = f"a reboot of the node may help, but its GPUs are used by {named}"
        return MigRestartHeldUp(subject="MIG layout", message=message, holders=tuple(holders))
    return None
