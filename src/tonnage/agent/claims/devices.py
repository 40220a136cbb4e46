"""The devices that claims may get now, as they follow from the board."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.decide.node.claims.published import available, pci_address, published_devices
from tonnage.model.devices.claims import Partition, PublishedDevice
from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.operands import DEPLOY

_PATIENCE_S: Final = 20.0
"""kubelet's own is 45 seconds."""
_LOOK_S: Final = 0.05
_OPT_OUT: Final = (f"{DEPLOY}dra-driver", f"{DEPLOY}operands")
"""Labels by which people of NVIDIA's operator keep its driver for claims off a node."""
_Published: TypeAlias = tuple[Inventory, PluginConfig, frozenset[Partition], tuple[PublishedDevice, ...]]
"""Devices, behind what they follow from."""


class ClaimableDevices:
    """Those of the node's configuration. `roots` gives PCIe root complexes by PCI address.

    `made` are MIG devices that were made for claims.
    """

    def __init__(
        self,
        context: AgentContext,
        board: NodeBoard,
        roots: Callable[[Sequence[str]], Mapping[str, str]],
        made: Callable[[], frozenset[Partition]] = frozenset,
    ) -> None:
        self._made = made
        self._clock = context.clock
        self._board = board
        self._roots = roots
        self._last: _Published | None = None

    def current(self) -> tuple[PublishedDevice, ...] | None:
        """The devices; None while they, the configuration or who holds them is not known."""
        inventory, current = self._board.inventory.value, self._board.configuration.value
        held = self._board.holds.value
        if inventory is None or current is None or not held.settled:
            return None
        if not current.config.claimed or self._opted_out():
            return ()
        return available(self._published(inventory, current.config), held)

    def _published(self, inventory: Inventory, config: PluginConfig) -> tuple[PublishedDevice, ...]:
        """All of them, made anew only where something of it changed: each answer to kubelet asks for them."""
        made, last = self._made(), self._last
        if last is None or last[0] is not inventory or last[1] is not config or last[2] != made:
            roots = self._roots([pci_address(device.pci_bus_id) for device in inventory.devices])
            last = self._last = inventory, config, made, published_devices(inventory, config, roots, made)
        return last[3]

    def _opted_out(self) -> bool:
        """Whether a label of the Node says that no driver for claims is to serve it."""
        node = self._board.node.value
        return node is not None and any(node.metadata.labels.get(label) == "false" for label in _OPT_OUT)

    async def settled(self) -> bool:
        """Whether they are known: at once, or while kubelet has patience with an agent that starts."""
        patience = self._clock.monotonic() + _PATIENCE_S
        while self.current() is None and self._clock.monotonic() < patience:
            await self._clock.sleep(_LOOK_S)
        return self.current() is not None
