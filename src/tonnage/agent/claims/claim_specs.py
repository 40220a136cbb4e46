"""The CDI specs of claims: there before kubelet is answered, gone after the claim."""

from __future__ import annotations

from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.decide.node.cdi.spec import spec_bytes
from tonnage.decide.node.claims.claim_spec import claim_file, claim_spec, device_name
from tonnage.model.actions.cdi import RemoveSpec, WriteSpec
from tonnage.model.devices.cdi import DriverFiles
from tonnage.model.devices.claims import PreparedClaim
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.errors import HardwareError, Problem
from tonnage.ports.node import CdiView

_MOST_NAMED: Final = 3


class ClaimSpecs:
    """Writes a spec a claim. The driver's files are looked for again only when something of them changed."""

    def __init__(self, context: AgentContext, board: NodeBoard, files: CdiView) -> None:
        self._performer = context.performer
        self._board = board
        self._files = files
        self._files_seen: tuple[str, str, PluginConfig, DriverFiles] | None = None

    async def write(self, prepared: PreparedClaim, *, new: bool) -> None:
        """Have the claim's spec say what is so now; of a `new` one none is right yet.

        Raises HardwareError: a device would not be found.
        """
        inventory, current = self._board.inventory.value, self._board.configuration.value
        if inventory is None or current is None:
            raise HardwareError(Problem("the agent has not read the devices of this node yet"))
        files = await self._driver_files(inventory.driver_version, current.config)
        spec = claim_spec(prepared, inventory, files, current.config)
        missing = [
            device.device for device in prepared.devices if device_name(prepared, device) not in spec.names
        ]
        if spec.document is None or missing:
            named = ", ".join(missing[:_MOST_NAMED])
            why = "; ".join(
                ": ".join(filter(None, (problem.what, problem.why)))
                for problem in spec.left_out[:_MOST_NAMED]
            )
            raise HardwareError(Problem(f"no CDI spec can be made for {named}", str(prepared.claim), why))
        content, name = spec_bytes(spec.document), claim_file(prepared.claim.uid)
        if new or await self._files.read(name) != content:
            await self._performer.perform(WriteSpec(name, content))

    async def present(self, uid: str) -> bool:
        """Whether the claim has a spec: it was answered, or nearly."""
        return await self._files.read(claim_file(uid)) is not None

    async def remove(self, uid: str) -> None:
        """The claim's spec is no more, if it was. Raises HardwareError."""
        await self._performer.perform(RemoveSpec(claim_file(uid)))

    async def _driver_files(self, version: str, config: PluginConfig) -> DriverFiles:
        stamp = await self._files.stamp()
        if (
            self._files_seen is None
            or self._files_seen[:2] != (stamp, version)
            or self._files_seen[2] is not config
        ):
            self._files_seen = stamp, version, config, await self._files.driver_files(version, config)
        return self._files_seen[3]
