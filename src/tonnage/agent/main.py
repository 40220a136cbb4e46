"""The node agent: what it is told, and how its loops are wired to the world."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.adapters.node_lock import alone_on
from tonnage.adapters.ports import Clock, DeviceBackend, KubernetesApi
from tonnage.model.errors import ConfigError, Problem, TonnageError
from tonnage.model.names import is_subdomain


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """What the agent is told at start.

    `devices` is `nvml` or `scenario:FILE`. `root` stands before every path of the node: `/var/lib/kubelet`,
    `/var/lib/tonnage`. `config_map` is `NAMESPACE/NAME`; `config` is a file that stands in when neither
    label nor ConfigMap names a configuration.
    """

    node_name: str
    devices: str = "nvml"
    root: Path = Path("/")
    config: Path | None = None
    config_map: str = "tonnage-system/device-plugin-config"


async def run_agent(options: AgentOptions, *, api: KubernetesApi | None, clock: Clock) -> None:
    """Run until cancelled; without `api` the configuration is `options.config` and nothing is published.

    Cancelled, it removes its sockets; allocations and configuration stay on disk for the next start.

    Raises:
        ConfigError: an option cannot be used.
        HardwareError: another agent runs on this node, or the state folder cannot be used.
    """
    _check(options)
    backend = _backend(options, clock)
    async with alone_on(options.root / "var/lib/tonnage/agent.lock", clock):
        try:
            await _run(options, backend, api, clock)
        except BaseExceptionGroup as group:
            raise _first(group) from None


async def _run(
    options: AgentOptions, backend: DeviceBackend, api: KubernetesApi | None, clock: Clock
) -> None:
    """Wire and run the loops; whatever ends them, let go of sockets, driver and connections."""
    from tonnage.adapters.kubelet.holds import KubeletFiles
    from tonnage.adapters.kubelet.plugin_folder import PluginFolder
    from tonnage.agent.config import NodeConfig
    from tonnage.agent.device_plugin import DevicePlugin
    from tonnage.agent.devices import NodeDevices
    from tonnage.agent.events import NodeEvents
    from tonnage.agent.holders import Holders
    from tonnage.agent.status import StatusPublisher
    from tonnage.agent.world import World

    kubelet = options.root / "var/lib/kubelet"
    sockets = PluginFolder(kubelet / "device-plugins")
    kubelet_holds = KubeletFiles(kubelet)
    events = NodeEvents(options.node_name, api, clock)
    checkpoints = FolderCheckpoints(options.root / "var/lib/tonnage")
    world = World(options.node_name, api, clock, checkpoints, events)

    def refresh() -> None:  # the plugin is made of the loops that call this
        plugin.refresh()

    devices = NodeDevices(world, backend, on_change=refresh)
    config = NodeConfig(world, config_map=options.config_map, file=options.config, on_change=refresh)
    holders = Holders(world, kubelet_holds, on_change=refresh)
    status = StatusPublisher(world, backend)
    plugin = DevicePlugin(world, sockets, devices, config, holders, on_offer=status.show)
    try:
        async with asyncio.TaskGroup() as group:
            for loop in (events, devices, config, holders, plugin, status):
                group.create_task(loop.run())
    finally:
        await sockets.close()
        await kubelet_holds.close()
        await backend.close()


def _check(options: AgentOptions) -> None:
    problems: list[Problem] = []
    if not is_subdomain(options.node_name):
        why = "it is the name of a Node object: lower-case letters, digits, '-' and '.'"
        problems.append(Problem(f"no node name: {options.node_name[:100]!r}", "--node-name", why))
    namespace, slash, name = options.config_map.partition("/")
    if not (slash and is_subdomain(namespace) and is_subdomain(name)):
        what = f"no ConfigMap: {options.config_map[:100]!r}"
        problems.append(Problem(what, "--config-map", remedy="write NAMESPACE/NAME"))
    if options.devices != "nvml" and not options.devices.removeprefix("scenario:").strip():
        problems.append(Problem("no file after scenario:", "--devices", remedy="write scenario:FILE"))
    elif options.devices != "nvml" and not options.devices.startswith("scenario:"):
        what = f"unknown devices {options.devices[:100]!r}"
        problems.append(Problem(what, "--devices", remedy="write nvml or scenario:FILE"))
    if problems:
        raise ConfigError(*problems)


def _backend(options: AgentOptions, clock: Clock) -> DeviceBackend:
    if options.devices == "nvml":
        from tonnage.adapters.vendors.nvml import NvmlBackend

        return NvmlBackend(clock, root=options.root)
    from tonnage.adapters.vendors.scenario import ScenarioBackend

    return ScenarioBackend(Path(options.devices.removeprefix("scenario:")), clock)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What ended the loops: our own error if there is one, else the first of what was raised."""
    ours = group.subgroup(TonnageError)
    inner: BaseException = (ours or group).exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
