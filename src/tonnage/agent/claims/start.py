"""Makes the driver for ResourceClaims, if the agent is told to be it; nobody else needs its modules."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tonnage.agent.board import NodeBoard
    from tonnage.agent.claims.driver import ClaimDriver
    from tonnage.agent.context import AgentWorld
    from tonnage.agent.holds.hold_ledger import HoldLedger
    from tonnage.ports.node import CdiView, ClaimSockets

_LOG: Final = logging.getLogger(__name__)
_OFF: Final = "the configuration offers GPUs as claims, and the agent runs without --claims: nobody gets them"


@dataclass(frozen=True, slots=True)
class ClaimPorts:
    """What the driver has of its node: sockets, specs, PCIe root complexes by PCI address, and the boot."""

    sockets: ClaimSockets
    specs: CdiView
    roots: Callable[[Sequence[str]], Mapping[str, str]]
    boot: str = ""


async def claims_of(
    served: bool, world: AgentWorld, board: NodeBoard, ledger: HoldLedger, ports: Callable[[], ClaimPorts]
) -> ClaimDriver | None:
    """The driver, which knows what an earlier agent prepared; None unless `served`, or without a cluster."""
    if not served or world.api is None:
        board.configuration.subscribe(lambda: _warn(world, board))
        return None
    from tonnage.agent.claims.claim_specs import ClaimSpecs
    from tonnage.agent.claims.devices import ClaimableDevices
    from tonnage.agent.claims.driver import ClaimDriver
    from tonnage.agent.claims.preparation import ClaimPreparation
    from tonnage.agent.holds.claim_book import ClaimBook

    node = ports()
    devices = ClaimableDevices(world, board, node.roots)
    book = ClaimBook(world, ledger, boot=node.boot)
    await ledger.restore()
    await book.restore()
    specs = ClaimSpecs(world, board, node.specs)
    preparation = ClaimPreparation(world, board, ledger, book, specs, devices)
    return ClaimDriver(world, board, node.sockets, devices, book, preparation)


def _warn(world: AgentWorld, board: NodeBoard) -> None:
    current = board.configuration.value
    if current is not None and current.config.claimed:
        _LOG.warning("claims not served: node=%s why=%s", world.node, _OFF)
        world.events.post("Warning", "ClaimsNotServed", _OFF)
