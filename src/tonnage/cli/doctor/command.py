"""`tonnage doctor`: what is wrong with a node, the first failing layer first."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

import click

from tonnage.cli.access.unseen import say_forbidden
from tonnage.cli.awaited import awaited
from tonnage.cli.locations.folders import state_folder
from tonnage.cli.locations.twin_nodes import HARDWARE, node_folder
from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.terminal.output import emit, say
from tonnage.model.errors import ClusterError, ConfigError, Problem
from tonnage.model.json import JsonValue

if TYPE_CHECKING:
    from tonnage.adapters.node_facts.gather import Looking
    from tonnage.diagnose.doctor.finding import DoctorReport
    from tonnage.model.node.facts import ClusterFacts, DriverAnswer, NodeFacts

LAYERS: Final = (
    *("hardware", "driver", "device-nodes", "libraries", "runtime"),
    *("cdi", "kubelet", "plugin", "labels", "workload"),
)
_SLOW_S: Final = 1.0


class DoctorOptions(TypedDict):
    """Which machine, and whom to ask about it."""

    root: Path
    node: str | None
    node_name: str | None
    devices: str
    agent_address: str


@click.command(
    help="Find what is wrong with a node, beginning with the first layer that fails.",
    epilog=examples(
        "tonnage doctor                            # on the node, as root",
        "tonnage doctor --root /host               # in a pod with the host's / mounted there",
        "tonnage doctor --node a100-0              # a node of the embedded cluster",
        "tonnage doctor --workload ml/train        # the GPUs of one pod",
    ),
)
@click.option(
    "--root",
    type=click.Path(path_type=Path),
    default=Path("/"),
    show_default=True,
    help="Folder where the node's root file system is mounted; the driver is loaded from there.",
)
@click.option(
    "--node",
    "node",
    metavar="NAME",
    help="Check this node of the embedded cluster.",
)
@click.option(
    "--node-name",
    envvar="NODE_NAME",
    metavar="NAME",
    help="The Node object of this machine [default: its host name; env: NODE_NAME].",
)
@click.option(
    "--layer",
    "layers",
    multiple=True,
    type=click.Choice(LAYERS),
    metavar="NAME",
    help=f"Check only this layer. Repeatable. One of {', '.join(LAYERS)}.",
)
@click.option(
    "--workload",
    metavar="POD|CONTAINER",
    default="",
    help="Check only this pod (NAME, NAMESPACE/NAME or uid) or container (id).",
)
@click.option(
    "--devices",
    default="nvml",
    show_default=True,
    metavar="nvml|none|scenario:FILE",
    help="Source of the devices; none asks no driver.",
)
@click.option(
    "--agent-address",
    default="",
    metavar="IP:PORT",
    help="Address of the agent's metrics [default: read from its command line].",
)
@common_options(output=("text", "json", "yaml"), cluster=True, snapshot=True)
def command(
    common: Common, layers: tuple[str, ...], workload: str, **arguments: Unpack[DoctorOptions]
) -> int:
    """Exit status 0: nothing wrong was found; 1: something was; 2: it cannot be looked at."""
    from tonnage.diagnose.doctor.examine import examine
    from tonnage.model.layer import NodeLayer

    if arguments["node"] is not None and common.kubeconfig is None:
        common = replace(common, kubeconfig=state_folder(os.environ) / "kubeconfig")
    facts = awaited(_gathered(_looking(arguments), common))
    report = examine(facts, [NodeLayer(name) for name in layers] or tuple(NodeLayer), workload)
    _show(report, common)
    return 0 if report.healthy else 1


def _looking(arguments: DoctorOptions) -> Looking:
    """Where to look. Raises ConfigError."""
    from tonnage.adapters.node_facts.gather import Looking

    root, devices, name = arguments["root"], arguments["devices"], arguments["node_name"] or ""
    if arguments["node"] is not None:
        root, name = (
            node_folder(state_folder(os.environ), arguments["node"], where="--node"),
            arguments["node"],
        )
        devices = f"scenario:{root / HARDWARE}"
    if not root.is_dir():
        raise ConfigError(Problem(f"folder not found: {root}", "--root", remedy="mount the host's / there"))
    _check(devices, arguments["agent_address"])
    return Looking(
        root, name or _host_name(root), devices, arguments["agent_address"], pretended=_pretended(devices)
    )


def _pretended(devices: str) -> Callable[[], Awaitable[DriverAnswer]] | None:
    if not devices.startswith("scenario:"):
        return None
    from tonnage.adapters.clock import SystemClock
    from tonnage.twin.devices.driver_answer import pretended_answer

    return partial(pretended_answer, Path(devices.removeprefix("scenario:")), SystemClock())


def _show(report: DoctorReport, common: Common) -> None:
    if common.output != "text":
        emit(_encodable(report.to_json()), common.output)
        return
    from tonnage.cli.doctor.report import rendered

    say(rendered(report, verbose=common.verbose, colour=True))


def _encodable(value: JsonValue) -> JsonValue:
    """The same with names of files that are no UTF-8 written so that they can be printed."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list):
        return [_encodable(element) for element in value]
    return {key: _encodable(element) for key, element in value.items()} if isinstance(value, dict) else value


def _check(devices: str, address: str) -> None:
    """Raises ConfigError."""
    from tonnage.adapters.http.address import parse_address

    file = devices.removeprefix("scenario:")
    if devices not in ("nvml", "none") and (file == devices or not Path(file).is_file()):
        problem = f"file not found: {file[:200]}" if file != devices else f"unknown devices {devices[:100]!r}"
        raise ConfigError(Problem(problem, "--devices", remedy="write nvml, none or scenario:FILE"))
    parsed = parse_address(address) if address else None
    if isinstance(parsed, Problem):
        raise ConfigError(Problem(parsed.what, "--agent-address", parsed.why, parsed.remedy))


def _host_name(root: Path) -> str:
    """As kubelet names the node where nobody says otherwise."""
    if root == Path("/"):
        return socket.gethostname().lower()
    from tonnage.adapters.node_facts.files import NodeFiles

    return NodeFiles(root).text("/etc/hostname", 4096).partition("\n")[0].strip().lower()


async def _gathered(looking: Looking, common: Common) -> NodeFacts:
    from tonnage.adapters.node_facts.gather import NodeLook
    from tonnage.diagnose.doctor.finding import unseen_kind

    progress: list[str] = []
    forbidden: set[str] = set()

    async def cluster() -> ClusterFacts | None:
        try:
            facts, unseen = await _cluster(looking.node, common)
        except (ClusterError, ConfigError) as error:
            gathering.cluster_silent(error.problems[0].what)
            return None
        forbidden.update(unseen)
        if "Node" in unseen:
            gathering.cluster_silent(unseen_kind("Node"))
        return facts

    gathering = NodeLook(looking, cluster, progress.append)
    async with _telling(progress):
        facts = await gathering.facts()
    say_forbidden(forbidden, {}, "doctor")
    return facts


@asynccontextmanager
async def _telling(progress: list[str]) -> AsyncIterator[None]:
    """Say on a terminal what is waited for, if it takes long."""

    async def tell() -> None:
        await asyncio.sleep(_SLOW_S)
        say(f"{progress[-1] if progress else 'reading'} …", err=True)

    task = asyncio.create_task(tell()) if sys.stderr.isatty() else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()


async def _cluster(node: str, common: Common) -> tuple[ClusterFacts | None, frozenset[str]]:
    """The node's objects, out of a file or from the API server, and the kinds that may not be read.

    Raises ClusterError, ConfigError.
    """
    from tonnage.adapters.node_facts.cluster import asked_cluster, captured_cluster

    if common.snapshot is not None:
        from tonnage.adapters.snapshots.cluster_file import read_objects

        return captured_cluster(read_objects(common.snapshot, common.limit), node)
    if not _somebody_to_ask(common):
        raise ClusterError(
            Problem("no kubeconfig: name one with --kubeconfig, or run the command where kubectl works")
        )
    from tonnage.cli.cluster import connected

    async with connected(common) as api:
        return await asked_cluster(api, node)


def _somebody_to_ask(common: Common) -> bool:
    """Whether there is a cluster that kubectl would ask; on a node there mostly is none."""
    if common.kubeconfig is not None or common.context is not None:
        return True
    if os.environ.get("KUBECONFIG") or "KUBERNETES_SERVICE_HOST" in os.environ:
        return True
    return (Path(os.environ.get("HOME") or "/nonexistent") / ".kube/config").is_file()
