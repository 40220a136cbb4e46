"""The change of the MIG layout that is under way, on disk before anything is done for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import msgspec

from tonnage.agent.context import AgentContext
from tonnage.decide.node.mig.change import MigChange
from tonnage.decide.node.mig.obstacles import change_refused
from tonnage.loop.performer import Note
from tonnage.model.actions.checkpoints import SaveCheckpoint
from tonnage.wire.decode import decoded_json

CHECKPOINT: Final = "mig"
_REFUSAL: Final = "why"
"""The key of what refused the change: on disk it is its words alone."""


class MigJournal:
    """Holds `change`, as it is on disk. None: no change is under way."""

    def __init__(self, context: AgentContext) -> None:
        self._checkpoints = context.checkpoints
        self._performer = context.performer
        self.change: MigChange | None = None
        self.note: Note | None = None
        """The permission to do once what must not be done again for the change as it is written."""

    async def restore(self) -> None:
        """What the disk has. Raises HardwareError, ValueError: nobody knows what an earlier agent began."""
        payload = await self._checkpoints.load(CHECKPOINT)
        if payload is not None:
            fields: dict[str, Any] | None = decoded_json(payload, dict[str, Any] | None)
            self.change = None if fields is None else _read(fields)

    async def write(self, change: MigChange | None) -> None:
        """Have this on disk. Raises HardwareError: it is not, and nothing may be done for it."""
        self.note = await self._performer.note(SaveCheckpoint(CHECKPOINT, _written(change)))
        self.change = change


def _written(change: MigChange | None) -> bytes:
    if change is None:
        return b"null"
    fields: dict[str, Any] = msgspec.to_builtins(replace(change, refusal=None))
    del fields["refusal"]
    return msgspec.json.encode({**fields, _REFUSAL: change.refusal.message if change.refusal else ""})


def _read(fields: dict[str, Any]) -> MigChange:
    """The change, of whose refusal its words are left. Raises ValueError: it is none."""
    words = msgspec.convert(fields.pop(_REFUSAL, ""), str)
    change: MigChange = msgspec.convert({**fields, "refusal": None}, MigChange)
    return replace(change, refusal=change_refused(change.config, words)) if words else change
