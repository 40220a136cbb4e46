"""The node agent: what its loops are made of."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from tonnage import __version__
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.adapters.http.address import Address, listen, parse_address, somebody_connects
from tonnage.agent.options import STATE, AgentOptions, wrong_options, wrong_overrides
from tonnage.model.errors import ConfigError, Problem, first_error
from tonnage.ports.claims import ClaimSockets
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.ports.node import DeviceBackend, HostPrograms

if TYPE_CHECKING:
    from tonnage.adapters.cdi.files import FolderCdi
    from tonnage.adapters.http.server import HttpServer
    from tonnage.agent.board import NodeBoard
    from tonnage.agent.claims.start import NodeClaims
    from tonnage.agent.config.selection import NodeConfig
    from tonnage.agent.context import AgentContext, MigPermits
    from tonnage.agent.events import NodeEvents
    from tonnage.agent.exporter.main import NodeSources
    from tonnage.agent.metrics.counters import AgentMetrics
    from tonnage.agent.metrics.probes import Probes
    from tonnage.agent.status.node_software import SoftwareWatch
    from tonnage.loop.effects import ActionPorts
    from tonnage.model.metric_families import MetricFamily

_LOG: Final = logging.getLogger(__name__)
_SERVE_S: Final = 2.0
"""After this all the rest is begun even if kubelet took no registration: it may be waiting for the probes."""
_LOOK_S: Final = 0.1


class OpenSockets(NamedTuple):
    """Where the agent's own metrics, those of devices and claims are served already; None: nowhere."""

    metrics: socket.socket | None
    device_metrics: socket.socket | None
    claims: ClaimSockets | None


class TextOutput(Protocol):
    """A stream of text, such as standard output."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


@dataclass(frozen=True, slots=True)
class AgentHost:
    """What the agent may do on its host beside reading and writing files.

    `programs` run there; None: those below `--mig-host-root` are really run. `output` is what the agent calls
    its standard output; None: that of this process. Device metrics are served at `exporting` if it is given.
    """

    programs: HostPrograms | None = None
    output: TextOutput | None = None
    exporting: socket.socket | None = None


async def run_agent(
    options: AgentOptions,
    *,
    api: KubernetesApi | None,
    clock: Clock,
    metrics: AgentMetrics | None = None,
    started: asyncio.Event | None = None,
    host: AgentHost = AgentHost(),
) -> None:
    """Run until cancelled; without `api` the configuration is `options.config` and nothing is published.

    Cancelled, it removes its sockets; allocations and configuration stay on disk for the next start.
    `metrics` is where `api` counts its requests, if it does. `started` is set when kubelet knows the devices
    or needs an answer of `api` first, after two seconds at the latest. `host` stands for the machine's
    programs and standard output, where these are not its own.

    Raises:
        ConfigError: an option cannot be used, such as an address with a port that is in use.
        HardwareError: another agent runs on this node, or the state folder cannot be used.
    """
    address, exporter_address = _check(options)
    backend = backend_of(options.devices, options.root, options.driver_root, clock)
    from tonnage.adapters.operand_files import logged_by_part
    from tonnage.agent.claims.main import alone_on_the_node

    events = partial(_events, options, api, clock)
    # The lock before the ports: an agent that still runs listens on the same ones.
    async with alone_on_the_node(options, clock, events) as early:
        with (
            listen(address) if address else nullcontext() as listening,
            listen(exporter_address, "--exporter-address")
            if exporter_address
            else nullcontext(host.exporting) as exporting,
            logged_by_part(options.root) if options.operands else nullcontext(),
        ):
            ports = _ports(options, backend, api, host)
            context = _context(options, ports, clock, metrics, started or asyncio.Event())
            try:
                if options.exporter.alone:
                    from tonnage.agent.exporter.main import run_exporter

                    assert exporting is not None
                    await run_exporter(options.exporter, context, backend, exporting, options.root)
                else:
                    await _run(options, ports, context, OpenSockets(listening, exporting, early))
            except BaseExceptionGroup as group:
                raise first_error(group) from None


def _events(options: AgentOptions, api: KubernetesApi | None, clock: Clock) -> NodeEvents:
    from tonnage.agent.events import NodeEvents
    from tonnage.loop.effects import ActionPorts
    from tonnage.loop.performer import Performer

    return NodeEvents(options.node_name, Performer(ActionPorts(api=api)) if api is not None else None, clock)


def _ports(
    options: AgentOptions, backend: DeviceBackend, api: KubernetesApi | None, host: AgentHost
) -> ActionPorts:
    """What the agent may change: as the exporter alone nothing but its own files."""
    from tonnage.loop.effects import ActionPorts

    if options.exporter.alone:
        return ActionPorts(checkpoints=FolderCheckpoints(options.root / STATE), api=api)
    from tonnage.adapters.features_file import FeatureLines
    from tonnage.adapters.mps.daemon import ControlDaemons
    from tonnage.adapters.operand_files import NodeStatusFiles

    programs = host.programs
    if programs is None and options.mig_host_root is not None:
        from tonnage.adapters.host_programs import ChrootPrograms

        programs = ChrootPrograms(options.mig_host_root)
    return ActionPorts(
        checkpoints=FolderCheckpoints(options.root / STATE),
        devices=backend,
        daemons=ControlDaemons(options.root),
        specs=_spec_folder(options),
        api=api,
        host=programs if options.mig_host_root is not None else None,
        labels=FeatureLines(options.root, host.output or sys.stdout),
        status_files=NodeStatusFiles(options.root) if options.operands else None,
    )


def _context(
    options: AgentOptions,
    ports: ActionPorts,
    clock: Clock,
    metrics: AgentMetrics | None,
    started: asyncio.Event,
) -> AgentContext:
    from tonnage.agent.context import AgentContext
    from tonnage.agent.metrics.counters import AgentMetrics
    from tonnage.loop.performer import Performer

    performer = Performer(ports)
    events = _events(options, ports.api, clock)
    counters = metrics or AgentMetrics(clock)
    assert ports.checkpoints is not None
    return AgentContext(
        options.node_name, ports.api, clock, ports.checkpoints, events, counters, performer, started
    )


async def _run(options: AgentOptions, ports: ActionPorts, context: AgentContext, opened: OpenSockets) -> None:
    """Make and run the loops; whatever ends them, let go of sockets, driver and connections."""
    from tonnage.adapters.boot import boot_id
    from tonnage.adapters.kubelet.device_holders import KubeletFiles
    from tonnage.adapters.kubelet.plugin_folder import PluginFolder
    from tonnage.adapters.machine import MachineFiles
    from tonnage.agent.board import NodeBoard
    from tonnage.agent.cdi import CdiSpecs, NodeCdi
    from tonnage.agent.claims.main import ClaimParts, node_claims
    from tonnage.agent.devices import NodeDevices
    from tonnage.agent.holds.hold_ledger import HoldLedger
    from tonnage.agent.labels.features import NodeFeatures
    from tonnage.agent.labels.sinks import sinks_of
    from tonnage.agent.metrics.probes import Probes
    from tonnage.agent.mps import NodeMps
    from tonnage.agent.plugin.device_plugin import DevicePlugin
    from tonnage.agent.plugin.holders import Holders
    from tonnage.agent.startup import end_without_devices, layout_of, operands_of, publisher_of, socket_of
    from tonnage.agent.status.node_condition import NodeConditions

    backend, daemons, spec_folder = ports.devices, ports.daemons, ports.specs
    assert backend is not None
    assert daemons is not None
    assert spec_folder is not None
    board = NodeBoard.blank(context.clock)
    sockets = PluginFolder(options.root / "var/lib/kubelet/device-plugins", socket_of(options))
    kubelet = KubeletFiles(options.root / "var/lib/kubelet")

    # Loops hear of a change in this order, as each subscribes when it is made: devices are judged by a new
    # policy before anybody offers them, and kubelet hears of the offer before anybody else spends time on it.
    devices, config = NodeDevices(context, board, backend), _node_config(options, context, board)
    ledger = HoldLedger(context, board, boot=boot_id(options.root))
    holders, specs = Holders(context, board, kubelet, ledger), CdiSpecs(context, board, spec_folder)
    plugin = DevicePlugin(context, board, sockets, ledger, holders, specs)
    cdi, mps = NodeCdi(context, board, specs), NodeMps(context, board, daemons)
    conditions, operands = NodeConditions(context, board), await operands_of(options, context, board, kubelet)
    features = NodeFeatures(context, board, MachineFiles(options.root), sinks_of(options, context))
    layout = await layout_of(_mig_permits(options, ports), context, board, backend, devices, ledger)
    claims = await node_claims(
        *(options, context, board, ledger), ClaimParts(opened.claims, spec_folder, backend, devices.rescan)
    )
    status = publisher_of(options, context, board, backend, kubelet)
    software = _software(options, context, board)
    loops = (context.events, devices, config, holders, plugin, cdi, mps, status, software)
    others = (conditions, features, layout, claims, operands)
    try:
        async with asyncio.TaskGroup() as group:
            for loop in (*loops, *(part for part in others if part is not None)):
                group.create_task(loop.run())
            group.create_task(end_without_devices(context.clock, board, options.overrides))
            group.create_task(_begin(context))
            group.create_task(_serve_dumps(options, context, board))
            probes = Probes(context.metrics, board, backend, plugin.unregistered, sockets.streams)
            group.create_task(_answer(opened.metrics, context, probes, claims))
            group.create_task(_export(options, context, board, backend, opened.device_metrics))
    finally:
        # The driver last: kubelet gets no answer out of a closed one.
        for closing in (sockets, kubelet, daemons, backend):
            await closing.close()


def _mig_permits(options: AgentOptions, ports: ActionPorts) -> MigPermits:
    from tonnage.adapters.boot import boot_id
    from tonnage.agent.context import MigPermits

    if ports.host is None:
        return MigPermits(options.mig)
    return MigPermits(options.mig, ports.host, boot_id(options.root) if options.mig_reboot else "")


async def _serve_dumps(options: AgentOptions, context: AgentContext, board: NodeBoard) -> None:
    """Let root ask for the board, once kubelet knows the devices."""
    await context.started.wait()
    from tonnage.adapters.agent_socket import SOCKET, AgentSocket

    async def dump() -> bytes:
        make = await asyncio.to_thread(_dump_maker)
        return make(board, context.clock, node=context.node, agent=__version__)

    await AgentSocket(options.root / STATE / SOCKET, dump).run()


def _dump_maker() -> Callable[..., bytes]:
    from tonnage.agent.dump import dump_of  # loads what only dumps need, so a thread does it

    return dump_of


async def _begin(context: AgentContext) -> None:
    await context.clock.sleep(_SERVE_S)
    context.started.set()


def _node_config(options: AgentOptions, context: AgentContext, board: NodeBoard) -> NodeConfig:
    from tonnage.adapters.config_file import MountedConfigFile
    from tonnage.adapters.container_runtime import RuntimeFiles
    from tonnage.adapters.host_paths import HostPaths
    from tonnage.adapters.own_program import digest_of
    from tonnage.agent.config.checkpoint import READERS
    from tonnage.agent.config.selection import NodeConfig
    from tonnage.agent.plugin.device_list import DeviceLists

    lists = DeviceLists(context, RuntimeFiles(options.root, options.driver_root))
    host = HostPaths(options.root, options.driver_root)
    file = MountedConfigFile(options.config) if options.config else None
    reading = replace(options.reading, program=digest_of(READERS))
    return NodeConfig(context, board, reading, lists, host=host, file=file)


def _spec_folder(options: AgentOptions) -> FolderCdi:
    from tonnage.adapters.cdi.files import FolderCdi
    from tonnage.agent.config.paths import own_hook

    return FolderCdi(options.root, options.driver_root, own_hook=own_hook(options.reading))


def _software(options: AgentOptions, context: AgentContext, board: NodeBoard) -> SoftwareWatch:
    from tonnage.adapters.container_runtime import RuntimeFiles
    from tonnage.agent.status.node_software import SoftwareWatch

    return SoftwareWatch(context, board, RuntimeFiles(options.root, options.driver_root))


async def _answer(
    listening: socket.socket | None, context: AgentContext, probes: Probes, claims: NodeClaims | None
) -> None:
    """Answer probes and show metrics, from the first registration on: nothing may make that one late."""
    if listening is None:
        return
    until = context.clock.monotonic() + _SERVE_S
    while not context.metrics.last_registration and context.clock.monotonic() < until:
        await context.clock.sleep(_LOOK_S)
    server = await asyncio.to_thread(_server, listening, context.metrics, probes, claims)
    host, port = listening.getsockname()[:2]
    _LOG.info("metrics served: node=%s address=%s", context.node, Address(host, port))
    await server.run()


async def _export(
    options: AgentOptions,
    context: AgentContext,
    board: NodeBoard,
    backend: DeviceBackend,
    listening: socket.socket | None,
) -> None:
    """Sample the devices and serve their page, once kubelet knows them."""
    if listening is None:
        return
    await context.started.wait()
    if options.exporter.on_demand:
        await somebody_connects(listening)
    run, node = await asyncio.to_thread(_exporter, options.root, board)
    await run(options.exporter, context, board, backend, listening, node)


def _exporter(root: Path, board: NodeBoard) -> tuple[Callable[..., Awaitable[None]], NodeSources]:
    """What serves the page; a thread loads it, since kubelet may ask meanwhile."""
    from tonnage.agent.exporter.main import NodeSources, export
    from tonnage.agent.exporter.pod_usage import offered_replicas

    return export, NodeSources(root, lambda: offered_replicas(board))


def _server(
    listening: socket.socket, metrics: AgentMetrics, probes: Probes, claims: NodeClaims | None
) -> HttpServer:
    import platform

    from tonnage.adapters.http.metrics_page import MetricsPage
    from tonnage.adapters.http.pages import probe_page
    from tonnage.adapters.http.server import HttpServer, Route
    from tonnage.agent.metrics.families import agent_families

    build = {"version": __version__, "python": platform.python_version()}

    def families() -> Iterator[MetricFamily]:
        yield from agent_families(metrics, probes.facts(), build)
        yield from claims.families() if claims is not None else ()

    page = MetricsPage(families)
    routes = {
        "/metrics": Route(page),
        "/healthz": probe_page(probes.hanging),
        "/readyz": probe_page(probes.missing),
    }
    return HttpServer(listening, routes)


def _check(options: AgentOptions) -> tuple[Address | None, Address | None]:
    """The addresses to serve the agent's own metrics and those of devices at, if any. Raises ConfigError."""
    flags = {"--metrics-address": options.metrics_address, "--exporter-address": options.exporter.address}
    addresses = [parse_address(text) if text else None for text in flags.values()]
    problems = [*wrong_options(options)]
    for address, flag in zip(addresses, flags, strict=True):
        if isinstance(address, Problem):
            problems.append(replace(address, where=flag))
    if problems:
        raise ConfigError(*problems, *wrong_overrides(options))
    own, exporter = (None if isinstance(address, Problem) else address for address in addresses)
    return own, exporter


def backend_of(devices: str, root: Path, driver_root: Path | None, clock: Clock) -> DeviceBackend:
    """The devices that `nvml` or `scenario:FILE` means; the paths are those of AgentOptions."""
    if devices == "nvml":
        from tonnage.adapters.cdi.device_nodes import NodesBeside
        from tonnage.adapters.vendors.nvml import NvmlBackend

        nvml = NvmlBackend(clock, root=root, driver_root=driver_root)
        return NodesBeside(nvml, clock, root=root, driver_root=driver_root)
    from tonnage.twin.devices.scenario import ScenarioBackend

    return ScenarioBackend(Path(devices.removeprefix("scenario:")), clock)
