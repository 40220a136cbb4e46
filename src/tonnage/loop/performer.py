"""Performs the Actions of `model.actions`, each recorded before and after."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar

from tonnage.loop.effects import ActionPorts, have_effect
from tonnage.model.actions.action import Action
from tonnage.model.actions.checkpoints import SaveCheckpoint
from tonnage.model.actions.retry import LooksFirst, Retry
from tonnage.model.errors import ApiError, Bug, ClusterError, Problem

_LOG: Final = logging.getLogger(__name__)
_T = TypeVar("_T")


class Phase(Enum):
    """Where an action stands when it is recorded.

    DECLINED: the port has done nothing, and another action is to be performed instead. WITHHELD: a dry run
    leaves it at that.
    """

    BEGUN = "begun"
    DONE = "done"
    DECLINED = "declined"
    FAILED = "failed"
    WITHHELD = "withheld"


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """An action before it, and after it; `why` it failed, with the code of an API server's refusal."""

    action: Action
    phase: Phase
    why: str = ""
    code: int = 0

    def __str__(self) -> str:
        action = self.action
        return f"{self.phase.value}: action={action!r} retry={action.retry.value} why={self.why}"


class Sight:
    """The subject was read; good for one action on it, since that makes it old."""

    __slots__ = ("subject", "used")

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.used = False


class Note:
    """It is on disk what is about to be performed; good for each action once.

    Who comes after a crash finds the note, and decides anew with a note of its own.
    """

    __slots__ = ("performed",)

    def __init__(self) -> None:
        self.performed: list[Action] = []


def log_record(record: ActionRecord) -> None:
    """The record as a line for whoever looks for mistakes."""
    _LOG.debug("action %s", record)


class Performer:
    """Performs one action at a call, and repeats none: when to try again is the loop's to say.

    That an action which must look first, or is never repeated, is not repeated blindly is kept here, whatever
    a loop does.
    """

    def __init__(
        self,
        ports: ActionPorts,
        *,
        dry_run: bool = False,
        record: Callable[[ActionRecord], None] = log_record,
        may_act: Callable[[], bool] | None = None,
    ) -> None:
        """`may_act` is asked before each action; None: nobody else acts beside this process."""
        self._ports = ports
        self._dry_run = dry_run
        self._record = record
        self._may_act = may_act

    async def look(self, subject: str, reading: Awaitable[_T]) -> tuple[_T, Sight]:
        """What was read of the subject, and the permission to change it once. Raises what the reading does.

        Subjects are named by `model.actions.subjects`.
        """
        return await reading, Sight(subject)

    async def note(self, checkpoint: SaveCheckpoint) -> Note:
        """The permission to perform, once each, actions that the checkpoint says are about to be performed.

        Raises HardwareError: it is not on disk.
        """
        await self.perform(checkpoint)
        return Note()

    async def perform(self, action: Action, permission: Sight | Note | None = None) -> bool:
        """Return once it is done; False: nothing is, in a dry run or where a row finds nothing to add it to.

        Raises:
            HardwareError, ConfigError, ClusterError: it is not done, or nobody knows; also where another
                process acts by now.
            Bug: it must look first, and nobody has looked at its subject since the last such action; or it is
                never repeated, and there is no note of it, or it was performed for that note.
        """
        if action.retry is not Retry.IDEMPOTENT:
            _use(permission, action)
        if self._dry_run:
            self._record(ActionRecord(action, Phase.WITHHELD))
            return False
        if self._may_act is not None and not self._may_act():
            raise ClusterError(Problem("another process leads by now, and this one changes nothing"))
        self._record(ActionRecord(action, Phase.BEGUN))
        try:
            done = await have_effect(self._ports, action)
        except BaseException as error:
            code = error.code if isinstance(error, ApiError) else 0
            self._record(ActionRecord(action, Phase.FAILED, str(error) or type(error).__name__, code))
            raise
        self._record(ActionRecord(action, Phase.DONE if done else Phase.DECLINED))
        return done


def _use(permission: Sight | Note | None, action: Action) -> None:
    """Use up the permission for an action. Raises Bug: there is none for it any more."""
    match action, permission:
        case LooksFirst(), Sight(used=False) if permission.subject == action.subject:
            permission.used = True
        case LooksFirst(), _:
            raise Bug(Problem(f"{action!r} is performed without a new look at {action.subject}"))
        case _, Note() if action not in permission.performed:
            permission.performed.append(action)
        case _:
            raise Bug(Problem(f"{action!r} is performed without a note on disk, or again for the same note"))
