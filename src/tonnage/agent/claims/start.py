"""Makes the driver for ResourceClaims, if the agent is told to be it; nobody else needs its modules."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tonnage.model.devices.sharing import HoldKind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from tonnage.agent.board import NodeBoard
    from tonnage.agent.claims.driver import ClaimDriver
    from tonnage.agent.context import AgentContext
    from tonnage.agent.holds.claim_book import ClaimBook
    from tonnage.agent.holds.hold_ledger import HoldLedger
    from tonnage.model.metric_families import MetricFamily
    from tonnage.ports.claims import ClaimSockets
    from tonnage.ports.node import CdiView, DeviceReader

_LOG: Final = logging.getLogger(__name__)
_OFF: Final = (
    "the configuration offers GPUs as claims, but the agent runs without --claims, so no pod can claim them"
)
_STUCK: Final = (
    "but the agent runs without --claims: kubelet cannot give them back, and their pods do not end"
)
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class ClaimPorts:
    """What the driver has of its node: sockets once it serves, specs, PCIe roots by address, and the boot.

    `hardware` says how GPUs are divided; `rescan` returns once changed devices are known. `asked_already`:
    the sockets are open, since the agent before served claims.
    """

    sockets: Callable[[], ClaimSockets]
    specs: CdiView
    roots: Callable[[Sequence[str]], Mapping[str, str]]
    hardware: DeviceReader
    rescan: Callable[[], Awaitable[None]]
    boot: str = ""
    asked_already: bool = False


async def claims_of(
    served: bool, context: AgentContext, board: NodeBoard, ledger: HoldLedger, ports: Callable[[], ClaimPorts]
) -> NodeClaims | None:
    """What serves claims, once there are any to serve; None unless `served`, or without a cluster."""
    if not served or context.api is None:
        _tell_once(context, board)
        return None
    claims = NodeClaims(context, board, ledger, ports)
    await claims.restore()
    return claims


class NodeClaims:
    """Loads the driver when the configuration offers claims first, or an earlier agent prepared some.

    Slices that an earlier agent left on a node without either are kubelet's to remove.
    """

    def __init__(
        self, context: AgentContext, board: NodeBoard, ledger: HoldLedger, ports: Callable[[], ClaimPorts]
    ) -> None:
        self._context = context
        self._board = board
        self._ledger = ledger
        self._ports = ports
        self._driver: ClaimDriver | None = None
        self._wake = asyncio.Event()
        board.configuration.subscribe(self._wake.set)

    async def restore(self) -> None:
        """Read what an earlier agent prepared, before anybody is given a device."""
        from tonnage.agent.holds.claim_book import ClaimBook

        node = self._ports()
        book = ClaimBook(self._context, self._ledger, boot=node.boot)
        if await book.restore() or node.asked_already:
            self._driver = self._made(book, node)

    async def run(self) -> None:
        """Run until cancelled."""
        from tonnage.agent.holds.claim_book import ClaimBook

        while self._driver is None:
            await self._wake.wait()
            self._wake.clear()
            current = self._board.configuration.value
            if current is not None and current.config.claimed:
                node = self._ports()
                self._driver = self._made(ClaimBook(self._context, self._ledger, boot=node.boot), node)
        await self._driver.run()

    def families(self) -> Iterable[MetricFamily]:
        """What the driver counts; nothing before there is one."""
        return () if self._driver is None else self._driver.metrics.families()

    def _made(self, book: ClaimBook, node: ClaimPorts) -> ClaimDriver:
        """The driver of claims with its parts, which are imported only where claims are served."""
        from tonnage.agent.claims.claim_specs import ClaimSpecs
        from tonnage.agent.claims.devices import ClaimableDevices
        from tonnage.agent.claims.driver import ClaimDriver
        from tonnage.agent.claims.partitions import ClaimPartitions
        from tonnage.agent.claims.preparation import ClaimPreparation, ClaimWays
        from tonnage.agent.claims.sharing import ClaimSharing
        from tonnage.agent.claims.sweep import ClaimSweep

        context, board = self._context, self._board
        devices = ClaimableDevices(context, board, node.roots, book.partitions)
        specs = ClaimSpecs(context, board, node.specs)
        sharing = ClaimSharing(context, board, book)
        sharing.restore()
        partitions = ClaimPartitions(context, board, book, node.hardware, node.rescan)
        ways = ClaimWays(specs, sharing, partitions)
        preparation = ClaimPreparation(context, board, self._ledger, book, devices, ways)
        sweep = ClaimSweep(context, board, book, specs, preparation)
        return ClaimDriver(context, board, node.sockets(), devices, preparation, sweep)


def _tell_once(context: AgentContext, board: NodeBoard) -> None:
    """Log and post what is wrong where nobody serves claims, as soon as it is so."""
    reported = set[str]()

    def look() -> None:
        for text in _unserved(board):
            if text not in reported:
                reported.add(text)
                _LOG.warning("claims not served: node=%s why=%s", context.node, text)
                context.events.post("Warning", "ClaimsNotServed", text)

    board.configuration.subscribe(look)
    board.holds.subscribe(look)


def _unserved(board: NodeBoard) -> Iterator[str]:
    current = board.configuration.value
    if current is not None and current.config.claimed:
        yield _OFF
    held = sorted({hold.resource for hold in board.holds.value.holds if hold.kind is HoldKind.CLAIM})
    if held:
        named = ", ".join(held[:_MOST_NAMED]) + (" and others" if len(held) > _MOST_NAMED else "")
        yield f"GPUs are held by claims ({named}), {_STUCK}"
