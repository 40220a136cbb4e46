"""What claims are made of on a real node: before the agent has it, and after."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from tonnage.adapters.node_lock import alone_on
from tonnage.agent.claims.start import ClaimPorts, NodeClaims, claims_of
from tonnage.agent.options import STATE, AgentOptions
from tonnage.model.errors import ConfigError, Problem
from tonnage.ports.claims import ClaimSockets
from tonnage.ports.clock import Clock
from tonnage.ports.node import CdiView, DeviceReader

if TYPE_CHECKING:
    from tonnage.adapters.kubelet.claim_sockets import ClaimFolder
    from tonnage.agent.board import NodeBoard
    from tonnage.agent.claims.standby import Missing
    from tonnage.agent.context import AgentContext
    from tonnage.agent.events import NodeEvents
    from tonnage.agent.holds.hold_ledger import HoldLedger

_LOG: Final = logging.getLogger(__name__)
_LOCK: Final = "agent.lock"
_EXPORTER_LOCK: Final = "exporter.lock"


@dataclass(frozen=True, slots=True)
class ClaimParts:
    """What other parts of the agent give the driver: open sockets, if kubelet asks already, and their own."""

    early: ClaimSockets | None
    specs: CdiView
    hardware: DeviceReader
    rescan: Callable[[], Awaitable[None]]


async def node_claims(
    options: AgentOptions, context: AgentContext, board: NodeBoard, ledger: HoldLedger, parts: ClaimParts
) -> NodeClaims | None:
    """What serves claims on this machine; None where nobody may claim anything."""
    return await claims_of(options.claims, context, board, ledger, partial(_ports, options, parts))


def _ports(options: AgentOptions, parts: ClaimParts) -> ClaimPorts:
    from tonnage.adapters.boot import boot_id
    from tonnage.adapters.machine import pcie_roots

    return ClaimPorts(
        lambda: parts.early or _sockets(options),
        parts.specs,
        partial(pcie_roots, options.root),
        parts.hardware,
        parts.rescan,
        boot_id(options.root),
        asked_already=parts.early is not None,
    )


@asynccontextmanager
async def alone_on_the_node(
    options: AgentOptions, clock: Clock, events: Callable[[], NodeEvents]
) -> AsyncIterator[ClaimSockets | None]:
    """Hold the node's lock, an exporter its own. Yields sockets for claims if kubelet asks at them already.

    An agent for claims that is a pod's waits for the one before as long as it takes: kubelet may ask either
    of the two meanwhile (`maxSurge: 1`). Raises HardwareError: another agent runs on this node.
    """
    file = options.root / STATE / (_EXPORTER_LOCK if options.exporter.alone else _LOCK)
    if options.exporter.alone or not (options.claims and options.pod_uid):
        async with alone_on(file, clock):
            yield None
        return
    from tonnage.agent.claims.standby import ClaimStandby, StandbyPorts

    ports = StandbyPorts(
        partial(_sockets, options),
        partial(_peek, options),
        partial(_answer_probes, options),
        events(),
    )
    standby = ClaimStandby(options.node_name, clock, ports)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(standby.close)
        await stack.enter_async_context(alone_on(file, clock, beside=standby.keep))
        yield await standby.taken_over()


def _sockets(options: AgentOptions) -> ClaimFolder:
    from tonnage.adapters.kubelet.claim_sockets import ClaimFolder

    return ClaimFolder(options.root, options.kubelet_root_dir, options.pod_uid)


def _peek(options: AgentOptions, name: str) -> bytes | None:
    from tonnage.adapters.checkpoints import peek

    return peek(options.root / STATE / name)


async def _answer_probes(options: AgentOptions, missing: Missing) -> None:
    """At the address at which the agent will, and which nobody else of its pod serves meanwhile."""
    from tonnage.adapters.http.address import listen, parse_address
    from tonnage.adapters.http.pages import probe_page
    from tonnage.adapters.http.server import HttpServer

    address = parse_address(options.metrics_address) if options.metrics_address else None
    if address is None or isinstance(address, Problem):
        return
    try:
        listening = listen(address)
    except ConfigError as error:
        _LOG.warning("probes not answered: node=%s error=%s", options.node_name, error)
        return
    await HttpServer(listening, {"/healthz": probe_page(tuple), "/readyz": probe_page(missing)}).run()
