"""`tonnage status`: the fleet as a table."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from tonnage.cli.cluster import snapshot_of, unread_of
from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.terminal.output import SafeText, emit, say, table
from tonnage.model.json import JsonObject

if TYPE_CHECKING:
    from tonnage.diagnose.status import FleetRow

_HEAD: Final = (
    "NODE", "PRODUCT", "RESOURCE", "MODE", "ADVERTISED", "ALLOCATABLE", "ALLOCATED", "MEMORY", "HEALTH",
)  # fmt: skip


@click.command(
    help="Show the fleet: a row for each node and device.",
    epilog=examples(
        "tonnage status",
        "tonnage status -o wide                    # every device, and who holds it",
        "kubectl get nodes,pods -A -o json | tonnage status --snapshot -",
    ),
)
@common_options(output=("text", "wide", "json", "yaml"), cluster=True, snapshot=True)
def command(common: Common) -> int:
    """Exit status 1 when something that is there is not offered or not healthy."""
    from tonnage.diagnose.status import fleet

    snapshot = asyncio.run(snapshot_of(common, "status"))
    rows = fleet(snapshot)
    unread = unread_of(snapshot, "status", "Node", "Pod", "NodeGPUStatus")
    if common.output in ("json", "yaml"):
        items: JsonObject = {"items": [row.to_json() for row in rows]}
        emit({**items, "unread": [*unread]} if unread else items, common.output)
    elif not rows and "Node" in unread:
        say("UNKNOWN: the fleet is made of Node objects, which were not read.", err=True)
    elif not rows:
        say("No node has or offers a GPU.", err=True)
    else:
        say(fleet_table(rows, wide=common.output == "wide"))
    return 0 if all(row.in_order for row in rows) and "Node" not in unread else 1


def fleet_table(rows: Sequence[FleetRow], *, wide: bool) -> SafeText:
    """A row for each node and resource; wide also one for each device, and who holds what."""
    lines: list[tuple[str, ...]] = []
    for row in rows:
        held = ", ".join(f"{pod} ({amount})" for pod, amount in row.holders)
        lines.append((*_cells(row), held or "-") if wide else _cells(row))
        if wide:
            lines += [_device_cells(row, number) for number in range(len(row.devices))]
    return table([*_HEAD, "HOLDERS"] if wide else _HEAD, lines)


def _cells(row: FleetRow) -> tuple[str, ...]:
    return (
        row.node,
        row.product or "-",
        row.resource or "-",
        row.mode if row.replicas in (None, 1) else f"{row.mode} ×{row.replicas}",
        "-" if row.advertised is None else str(row.advertised),
        f"{row.allocatable}/{row.capacity}",
        str(row.allocated),
        _memory(row.used_mib, row.memory_mib),
        row.health,
    )


def _device_cells(row: FleetRow, number: int) -> tuple[str, ...]:
    device = row.devices[number]
    name = "└ " + (f"GPU {device.index}" if device.index is not None else "GPU")
    health = "healthy" if device.healthy else f"unhealthy: {device.reason}".rstrip(": ")
    memory = _memory(device.used_mib, device.memory_mib)
    return (
        name,
        device.product or "-",
        device.uuid,
        "",
        "",
        "",
        "",
        memory,
        health,
        ", ".join(device.holders) or "-",
    )


def _memory(used_mib: int | None, total_mib: int) -> str:
    if not total_mib:
        return "-"
    return f"{used_mib}/{total_mib} MiB" if used_mib is not None else f"{total_mib} MiB"
