"""The change of the MIG layout that is under way, on disk before anything is done for it."""

from __future__ import annotations

import msgspec

from tonnage.agent.context import AgentWorld
from tonnage.decide.node.mig.change import MigChange
from tonnage.loop.performer import Note
from tonnage.model.actions.checkpoints import SaveCheckpoint
from tonnage.wire.decode import decoded_json

CHECKPOINT = "mig"


class MigJournal:
    """Holds `change`, as it is on disk. None: no change is under way."""

    def __init__(self, world: AgentWorld) -> None:
        self._checkpoints = world.checkpoints
        self._performer = world.performer
        self.change: MigChange | None = None
        self.note: Note | None = None
        """The permission to do once what must not be done again for the change as it is written."""

    async def restore(self) -> None:
        """What the disk has. Raises HardwareError, ValueError: nobody knows what an earlier agent began."""
        payload = await self._checkpoints.load(CHECKPOINT)
        if payload is not None:
            self.change = decoded_json(payload, MigChange | None)

    async def write(self, change: MigChange | None) -> None:
        """Have this on disk. Raises HardwareError: it is not, and nothing may be done for it."""
        self.note = await self._performer.note(SaveCheckpoint(CHECKPOINT, msgspec.json.encode(change)))
        self.change = change
