"""`tonnage node`: the node agent as a process of its own, the entry point of the DaemonSet."""

from __future__ import annotations

import asyncio
import gc
import importlib
import logging
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from tonnage.cli.ending import end_on_signals, ended_by_signals
from tonnage.cli.node.exporter_flags import exporter_options, exporter_settings
from tonnage.cli.node.plugin_flags import (
    EnvironmentOption,
    overrides_of,
    plugin_options,
    refuse_without_effect,
)
from tonnage.cli.options import Common, common_options, examples
from tonnage.model.names import CONFIG_LABEL
from tonnage.model.node.plugin_settings import FALLBACKS, LabelPlace

if TYPE_CHECKING:
    from tonnage.agent.exporter.settings import ExporterSettings
    from tonnage.agent.metrics.counters import AgentMetrics
    from tonnage.agent.options import AgentOptions
    from tonnage.model.node.plugin_settings import Override
    from tonnage.ports.kubernetes import KubernetesApi

_FILE = click.Path(dir_okay=False, path_type=Path)
_DRIVER_ROOT = Path("/driver-root")
_LOADED_S = 10.0
"""By then all is loaded that an agent needs to work."""


class NodeArguments(TypedDict):
    """What the command line says about the agent: every field of its `AgentOptions`."""

    node_name: str
    devices: str
    root: Path
    config: Path | None
    config_map: str
    driver_root: Path | None
    metrics_address: str
    kubelet_socket: str
    overrides: tuple[Override, ...]
    lenient: bool
    labels: str
    namespace: str
    pod_name: str
    pod_uid: str
    node_label: str
    default_config: str
    fallback_strategies: tuple[str, ...]
    mig_config_map: str
    mig_evict: bool
    mig_cordon: bool
    mig_pause: bool
    mig_host_root: Path | None
    mig_reboot: bool
    claims: bool
    kubelet_root_dir: str
    operands: bool
    wait_for_adoption: bool
    exporter: ExporterSettings


@click.command(
    help="Run the node agent, as the DaemonSet does.",
    epilog=examples(
        "tonnage node --node-name $(hostname)      # as the DaemonSet starts it",
        "tonnage node --node-name a --standalone --root /tmp/a --devices scenario:a.yaml",
        "tonnage node --root /tmp/a --dump         # the state of that agent",
    ),
)
@click.option(
    "--node-name",
    cls=EnvironmentOption,
    envvar="NODE_NAME",
    metavar="NAME",
    help="Name of the Node object; with --standalone, any name [env: NODE_NAME].",
)
@click.option(
    "--devices",
    default="nvml",
    show_default=True,
    metavar="nvml|scenario:FILE",
    help="Source of the devices.",
)
@click.option(
    "--root",
    type=click.Path(path_type=Path),
    default=Path("/"),
    show_default=True,
    help="Folder where the node's root file system is mounted.",
)
@click.option(
    "--config",
    "--config-file",
    "config",
    cls=EnvironmentOption,
    envvar=["CONFIG_FILE", "GFD_CONFIG_FILE"],
    type=_FILE,
    metavar="FILE",
    help="Device-plugin config v1, where neither label nor ConfigMap names one [env: CONFIG_FILE].",
)
@click.option(
    "--config-map",
    default="tonnage-system/device-plugin-config",
    show_default=True,
    metavar="NAMESPACE/NAME",
    help="Where configs are; the node's label nvidia.com/device-plugin.config is the key.",
)
@click.option(
    "--node-label",
    cls=EnvironmentOption,
    envvar="NODE_LABEL",
    default=CONFIG_LABEL,
    show_default=True,
    metavar="KEY",
    help="The node's label whose value is the key of its config [env: NODE_LABEL].",
)
@click.option(
    "--default-config",
    cls=EnvironmentOption,
    envvar="DEFAULT_CONFIG",
    default="",
    metavar="KEY",
    help="The key of a node without that label [env: DEFAULT_CONFIG].",
)
@click.option(
    "--fallback-strategies",
    cls=EnvironmentOption,
    envvar="FALLBACK_STRATEGIES",
    default=",".join(FALLBACKS),
    show_default=True,
    metavar="LIST",
    help="Without either, in this order: named (the key default), single (the only key), empty (--config,"
    " else built in) [env: FALLBACK_STRATEGIES].",
)
@click.option(
    "--config-compatibility",
    cls=EnvironmentOption,
    envvar="TONNAGE_CONFIG_COMPATIBILITY",
    type=click.Choice(["strict", "nvidia"]),
    default="strict",
    show_default=True,
    help="nvidia: ignore unknown keys of a config with a warning [env: TONNAGE_CONFIG_COMPATIBILITY].",
)
@plugin_options
@click.option(
    "--kubelet-socket",
    cls=EnvironmentOption,
    envvar="KUBELET_SOCKET",
    default="/var/lib/kubelet/device-plugins/kubelet.sock",
    show_default=True,
    metavar="FILE",
    help="kubelet's registration socket; empty: do not register [env: KUBELET_SOCKET].",
)
@click.option(
    "--labels",
    cls=EnvironmentOption,
    envvar="TONNAGE_LABELS",
    type=click.Choice(["none", "direct", "nfd-file", "nfd-object"]),
    help="Publish labels: on the Node, or by node feature discovery, out of a file or a NodeFeature"
    " [env: TONNAGE_LABELS; default: none].",
)
@click.option(
    "--mig-config-map",
    cls=EnvironmentOption,
    envvar="TONNAGE_MIG_CONFIG_MAP",
    default="",
    metavar="NAMESPACE/NAME",
    help="Divide GPUs as the node's label nvidia.com/mig.config says; the mig-parted configuration is there,"
    " if any [env: TONNAGE_MIG_CONFIG_MAP; default: MIG is left alone].",
)
@click.option(
    "--mig-evict",
    is_flag=True,
    help="Evict pods that use what a MIG layout must destroy, as their disruption budgets allow.",
)
@click.option(
    "--mig-cordon", is_flag=True, help="Cordon the node while pods are evicted and its GPUs changed."
)
@click.option(
    "--mig-pause-operands",
    is_flag=True,
    help="Take NVIDIA's operands (DCGM and others, by nvidia.com/gpu.deploy.*) off the node while its GPUs"
    " are changed.",
)
@click.option(
    "--mig-host-root",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where the host's root folder is visible: hooks.yaml and clients.yaml of the ConfigMap count, and"
    " run there [default: they are rejected].",
)
@click.option(
    "--mig-reboot",
    is_flag=True,
    help="Restart the node if a GPU cannot change its MIG mode otherwise and no pod uses its GPUs.",
)
@click.option(
    "--claims",
    is_flag=True,
    help="Be the driver gpu.nvidia.com of the GPUs that the config's section claims names: publish them in"
    " ResourceSlices and prepare ResourceClaims.",
)
@click.option(
    "--kubelet-root-dir",
    default="/var/lib/kubelet",
    show_default=True,
    metavar="DIR",
    help="kubelet's folder on the host, whose plugins and plugins_registry hold the sockets for claims.",
)
@click.option(
    "--operands",
    is_flag=True,
    help="Keep the status files of NVIDIA's operator in /run/nvidia/validations, and the log of each part in"
    " /run/tonnage/operands, for pods that follow it.",
)
@click.option(
    "--wait-for-adoption",
    is_flag=True,
    help="Offer no devices, MIG layouts, labels or metrics until the Node has the label"
    " tonnage.dev/adopted=true.",
)
@click.option(
    "--namespace",
    cls=EnvironmentOption,
    envvar="NAMESPACE",
    default="",
    metavar="NAME",
    help="Where the NodeFeature is, and the agent's pod [env: NAMESPACE; default: where the ConfigMap is].",
)
@click.option(
    "--pod-name",
    cls=EnvironmentOption,
    envvar="POD_NAME",
    default="",
    metavar="NAME",
    help="The agent's pod: the NodeFeature goes with its DaemonSet [env: POD_NAME].",
)
@click.option(
    "--pod-uid",
    cls=EnvironmentOption,
    envvar="POD_UID",
    default="",
    metavar="UID",
    help="The agent's pod: with --claims it answers kubelet while the one before still has the node"
    " [env: POD_UID].",
)
@click.option(
    "--metrics-address",
    default="",
    metavar="IP:PORT",
    help="Serve /metrics, /healthz and /readyz at this address; :9400 for all [default: do not serve].",
)
@exporter_options
@click.option("--standalone", is_flag=True, help="Use no API server: read --config, publish nothing.")
@click.option(
    "--dump",
    is_flag=True,
    help="Print the state of the agent that runs below --root as JSON; needs root or the agent's user.",
)
@common_options(cluster=True)
def command(common: Common, standalone: bool, dump: bool, root: Path, **_: object) -> int:
    """Until SIGTERM or Ctrl-C; sockets are removed then, allocations stay on disk for the next start."""
    if dump:
        from tonnage.cli.node.dump import show_dump

        return show_dump(root)
    with ended_by_signals():
        arguments = node_arguments(click.get_current_context())
        if arguments["driver_root"] is None and _DRIVER_ROOT.is_dir():
            arguments["driver_root"] = _DRIVER_ROOT
        from tonnage.adapters.logging import set_up_logging
        from tonnage.agent.options import AgentOptions

        set_up_logging(sys.stderr, verbose=common.verbose, level=logging.INFO)
        return asyncio.run(_run(AgentOptions(**arguments), common, standalone=standalone))


async def _run(options: AgentOptions, common: Common, *, standalone: bool) -> int:
    from tonnage.adapters.clock import SystemClock
    from tonnage.agent.main import run_agent
    from tonnage.agent.metrics.counters import AgentMetrics

    task = asyncio.current_task()
    assert task is not None
    end_on_signals(asyncio.get_running_loop(), task, "SIGHUP ignored: the agent follows changes by itself")
    clock = SystemClock()
    metrics = AgentMetrics(clock)
    # What is loaded stays to the end, and kubelet would wait while the collector goes through it.
    asyncio.get_running_loop().call_later(_LOADED_S, gc.freeze)
    try:
        if standalone:
            await run_agent(options, api=None, clock=clock, metrics=metrics)
        else:
            from tonnage.adapters.kubernetes.deferred_client import late

            started = asyncio.Event()
            async with late(started, lambda: _client(common, metrics)) as api:
                await run_agent(options, api=api, clock=clock, metrics=metrics, started=started)
    except asyncio.CancelledError:
        return 0
    return 0


@asynccontextmanager
async def _client(common: Common, metrics: AgentMetrics) -> AsyncIterator[KubernetesApi]:
    """Loaded by a thread: kubelet asks its first questions meanwhile."""
    await asyncio.to_thread(importlib.import_module, "tonnage.adapters.kubernetes.transport")
    from tonnage.cli.cluster import connected

    async with connected(common, program="tonnage-agent", on_answer=metrics.api_answered) as api:
        yield api


def node_arguments(context: click.Context) -> NodeArguments:
    """What a command line says about the agent, apart from how it is run.

    Raises click.UsageError: it does not say which node this is, or says something that would have no effect.
    """
    values = context.params
    name = values["node_name"] or (socket.gethostname().lower() if values["standalone"] else "")
    if not name:
        raise click.UsageError("Missing option '--node-name', or NODE_NAME in the environment.", context)
    refuse_without_effect(context)
    labels = values["labels"] or _label_place(values["use_node_feature_api"])
    if values["standalone"] and labels in (LabelPlace.DIRECT, LabelPlace.OBJECT):
        problem = f"Labels cannot be published as {labels} with --standalone: that takes an API server."
        raise click.UsageError(f"{problem} Write --labels nfd-file.", context)
    visible = values["driver_root_ctr_path"]
    return NodeArguments(
        node_name=name,
        devices=values["devices"],
        root=values["root"],
        config=values["config"],
        config_map=values["config_map"],
        driver_root=None if visible is None else Path(visible),
        metrics_address=values["metrics_address"],
        kubelet_socket=values["kubelet_socket"],
        overrides=overrides_of(context),
        lenient=values["config_compatibility"] == "nvidia",
        labels=labels,
        namespace=values["namespace"],
        pod_name=values["pod_name"],
        pod_uid=values["pod_uid"],
        node_label=values["node_label"],
        default_config=values["default_config"],
        fallback_strategies=tuple(filter(None, map(str.strip, values["fallback_strategies"].split(",")))),
        mig_config_map=values["mig_config_map"],
        mig_evict=values["mig_evict"],
        mig_cordon=values["mig_cordon"],
        mig_pause=values["mig_pause_operands"],
        mig_host_root=values["mig_host_root"],
        mig_reboot=values["mig_reboot"],
        claims=values["claims"],
        kubelet_root_dir=values["kubelet_root_dir"],
        operands=values["operands"],
        wait_for_adoption=values["wait_for_adoption"],
        exporter=exporter_settings(values),
    )


def _label_place(use_api: bool | None) -> str:
    """Where labels go if --labels does not say it: as feature discovery would, once asked to."""
    if use_api is None:
        return LabelPlace.NONE
    return LabelPlace.OBJECT if use_api else LabelPlace.FILE
