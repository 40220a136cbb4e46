"""`tonnage topo`: how the GPUs of a node are linked, and what a set of them is worth."""

from __future__ import annotations

import asyncio
import socket
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.awaited import awaited
from tonnage.cli.cluster import snapshot_of, unread_of
from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.terminal.output import emit, lines, say, terminal_width
from tonnage.cli.terminal.tables import table
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.json import JsonObject
from tonnage.model.name_lists import listed

if TYPE_CHECKING:
    from tonnage.diagnose.topo.topology import Comparison, FleetTopology, NodeTopology

_MOST_GPUS = 256
_MOST_NAMED = 8


@click.command(
    help="Show how the GPUs of a node are linked, and how a set of GPUs compares with the best one.",
    epilog=examples(
        "tonnage topo                              # one line for each node",
        "tonnage topo a100-0",
        "tonnage topo a100-0 --gpus 0,1,4,5        # is it the best set of four?",
        "tonnage topo --devices nvml               # this machine, no cluster",
    ),
)
@click.argument("node", required=False)
@click.option(
    "--gpus", metavar="I,J,…", help="Compare these GPUs (by index) with the best set of the same size."
)
@click.option(
    "--devices",
    metavar="nvml|scenario:FILE",
    help="Read this machine's driver, or a file of simulated devices, instead of a cluster.",
)
@click.option(
    "--driver-root",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder where the driver is installed.",
)
@common_options(output=("text", "json", "yaml"), cluster=True, snapshot=True)
def command(
    common: Common, node: str | None, gpus: str | None, devices: str | None, driver_root: Path | None
) -> int:
    """Exit status 1 when the GPUs asked about are not the best set of their size."""
    from tonnage.diagnose.topo.topology import comparison, fleet_topology

    indices = _indices(gpus) if gpus is not None else None
    if devices is not None:
        topology = asyncio.run(_this_machine(devices, driver_root))
        return _show_node(common, topology, comparison(topology, _on(topology, indices)) if indices else None)
    snapshot = awaited(snapshot_of(common, "topo"))
    unread = unread_of(snapshot, "topo", "NodeGPUStatus", "Node")
    fleet = fleet_topology(snapshot)
    if node is None and indices is None:
        return max(_show_fleet(common, fleet, unread), int(bool(unread)))
    nameless = "Node" in unread and not fleet.nodes
    if ("NodeGPUStatus" in unread or nameless) and node not in {topology.node for topology in fleet.nodes}:
        return _show_unknown(common, node or "a node", unread)
    topology = _node(fleet, node)
    return _show_node(common, topology, comparison(topology, _on(topology, indices)) if indices else None)


def _show_unknown(common: Common, node: str, unread: tuple[str, ...]) -> int:
    """That a node's report was not read: exit status 1, as for whatever is UNKNOWN."""
    if common.output != "text":
        emit({"node": node, "unread": [*unread]}, common.output)
    say(
        f"UNKNOWN: the links between the GPUs of {node[:253]} are in NodeGPUStatus objects, "
        "which were not read.",
        err=True,
    )
    return 1


def _indices(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) < _MOST_GPUS for part in parts):
        raise click.UsageError(f"--gpus {text[:60]}: give indices, such as 0,1,4,5")
    return tuple(map(int, parts))


def _on(topology: NodeTopology, indices: tuple[int, ...]) -> tuple[int, ...]:
    missing = sorted(set(indices) - set(topology.board.indices))
    if missing:
        there = ", ".join(map(str, topology.board.indices)) or "none"
        names = ", ".join(map(str, missing))
        raise ConfigError(
            Problem(
                f"GPU {names} does not exist",
                f"node {topology.node}",
                remedy=f"name some of the GPUs {there}",
            )
        )
    return indices


def _node(fleet: FleetTopology, name: str | None) -> NodeTopology:
    names = [*(topology.node for topology in fleet.nodes), *fleet.silent]
    if name is None:
        raise click.UsageError("--gpus needs a node: give its name")
    match = next((topology for topology in fleet.nodes if topology.node == name), None)
    if match is not None:
        return match
    if name in fleet.silent:
        why = "no agent of Tonnage reports how its GPUs are linked (NodeGPUStatus)"
        remedy = "install the agent there, or run tonnage topo --devices nvml on the node"
        raise ConfigError(Problem("topology unknown", f"node {name}", why, remedy))
    if name in fleet.others:
        why = f"it offers devices of drivers that report no links: {_device_names(fleet.others[name])}"
        raise ConfigError(Problem("topology unknown", f"node {name}", why))
    near = get_close_matches(name, names, n=1)
    remedy = (
        f"use {near[0]} if you meant that" if near else f"nodes with GPUs: {', '.join(names[:10]) or 'none'}"
    )
    raise ConfigError(Problem(f'no node with GPUs is named "{name}"', remedy=remedy))


def _device_names(devices: tuple[str, ...]) -> str:
    return listed(devices, _MOST_NAMED)


async def _this_machine(devices: str, driver_root: Path | None) -> NodeTopology:
    from tonnage.adapters.clock import SystemClock
    from tonnage.agent.main import backend_of
    from tonnage.decide.node.preference.device_sets import board_of
    from tonnage.diagnose.topo.topology import topology_of_board

    if devices != "nvml" and not devices.removeprefix("scenario:").strip():
        raise click.UsageError("--devices scenario: lacks a file name; write scenario:FILE")
    if devices != "nvml" and not devices.startswith("scenario:"):
        raise click.UsageError(f"--devices {devices[:60]}: write nvml or scenario:FILE")
    backend = backend_of(devices, Path("/"), driver_root, SystemClock())
    try:
        inventory = await backend.scan()
    finally:
        await backend.close()
    return topology_of_board(socket.gethostname(), board_of(inventory.devices, inventory.links))


def _show_fleet(common: Common, fleet: FleetTopology, unread: tuple[str, ...]) -> int:
    from tonnage.diagnose.topo.topology import node_json

    if common.output != "text":
        nodes = [node_json(topology) for topology in fleet.nodes]
        answer: JsonObject = {
            "items": [*nodes],
            "notes": [*fleet.notes],
            "unknown": [*fleet.silent],
            **({"unread": [*unread]} if unread else {}),
        }
        emit(answer, common.output)
        return 0
    rows = [
        (
            topology.node,
            "/".join(map(str, sorted({len(topology.usable), len(topology.rows)}))),
            ", ".join(topology.family.products) or "-",
            topology.family.summary,
            ", ".join(sorted({str(r.numa_node) for r in topology.rows if r.numa_node is not None})) or "-",
            topology.fastest_pair or "-",
        )
        for topology in fleet.nodes
    ]
    if rows:
        say(table(("NODE", "GPUS", "PRODUCT", "JOINED BY", "NUMA", "FASTEST PAIR"), rows))
        for topology in fleet.nodes if common.verbose else ():
            say()
            _show_node(common, topology, None)
    elif unread:
        say("UNKNOWN: the NodeGPUStatus objects, which report GPU links, were not read.", err=True)
    else:
        say("No agent reports GPU links.", err=True)
    for note in fleet.notes:
        say()
        say(note)
    if fleet.silent:
        say()
        why = "not read" if "NodeGPUStatus" in unread else "no agent reports"
        say(f"unknown, {why}: {', '.join(fleet.silent[:20])}")
    return 0


def _show_node(common: Common, topology: NodeTopology, compared: Comparison | None) -> int:
    from tonnage.diagnose.topo.text import best_lines, comparison_lines, matrix_lines
    from tonnage.diagnose.topo.topology import node_json

    if common.output != "text":
        emit(node_json(topology, compared), common.output)
    else:
        products = ", ".join(topology.family.products)
        rows = [f"{topology.node}: {len(topology.rows)} × {products}, {topology.family.summary}"]
        if topology.agent.silent:
            rows.append(f"{topology.agent.words}: what follows is as old")
        rows.append("")
        rows += [*matrix_lines(topology, terminal_width()), "", *best_lines(topology)]
        rows += ["", *comparison_lines(compared)] if compared is not None else []
        if topology.others:
            rows += [
                "",
                f"also offered as claims, by drivers that report no links: {_device_names(topology.others)}",
            ]
        while rows and not rows[-1]:
            rows.pop()
        say(lines(rows))
    return 0 if compared is None or compared.is_best else 1
