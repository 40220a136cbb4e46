"""`tonnage status`: the fleet as a table."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import click

from tonnage.cli.awaited import awaited
from tonnage.cli.cluster import snapshot_of, unread_of
from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.terminal.output import SafeText, emit, lines, redraw, say, terminal_width
from tonnage.cli.terminal.tables import fitted_table
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.json import JsonObject

if TYPE_CHECKING:
    from tonnage.diagnose.status import FleetRow
    from tonnage.model.kubernetes.cluster import Snapshot

_HEAD: Final = (
    "NODE", "PRODUCT", "RESOURCE", "MODE", "ADVERTISED", "ALLOCATABLE", "ALLOCATED", "MEMORY", "HEALTH",
)  # fmt: skip
_WATCH_S: Final = 5.0


@click.command(
    help="Show the fleet or some of its nodes: a row for each GPU resource of a node, and totals.",
    epilog=examples(
        "tonnage status",
        "tonnage status a100-0 -o wide             # every device, the pod that holds it, and why",
        "tonnage status -n ml-team-a               # what the pods of a namespace hold",
        "tonnage status -l nvidia.com/gpu.product=Tesla-T4 --watch",
        "kubectl get nodes,pods -A -o json | tonnage status --snapshot -",
    ),
)
@click.argument("nodes", nargs=-1, metavar="[NODE]...")
@click.option("-l", "--selector", metavar="LABELS", default="", help="Show only nodes with these labels.")
@click.option("-w", "--watch", "watched", is_flag=True, help="Show the fleet again after every change.")
@common_options(output=("text", "wide", "json", "yaml", "name"), cluster=True, namespace=True, snapshot=True)
def command(common: Common, nodes: tuple[str, ...], selector: str, watched: bool) -> int:
    """Exit status 1 when something that is there is not offered or not healthy."""
    if watched and (common.snapshot is not None or common.output in ("json", "yaml", "name")):
        raise click.UsageError("--watch shows a live cluster as text: remove --snapshot and -o")
    if watched:
        asyncio.run(
            watch(
                lambda: snapshot_of(common, "status"),
                lambda snapshot: _text_of(snapshot, _rows(snapshot, common, nodes, selector), common),
                lambda: asyncio.sleep(_WATCH_S),
            )
        )
    snapshot = awaited(snapshot_of(common, "status"))
    rows = _rows(snapshot, common, nodes, selector)
    listed = not (snapshot.complete or snapshot.forbidden or snapshot.scopes)  # by hand: the answer says it
    unread = () if listed else unread_of(snapshot, "status", "Node", "Pod", "NodeGPUStatus")
    _show(snapshot, rows, common, unread)
    return 0 if all(row.in_order for row in rows) and "Node" not in unread else 1


async def watch(
    read: Callable[[], Awaitable[Snapshot]],
    text_of: Callable[[Snapshot], str],
    wait: Callable[[], Awaitable[object]],
) -> None:
    """Print the text of what is read whenever it differs from the last one; never returns."""
    last = ""
    while True:
        text = text_of(await read())
        if text != last:
            redraw(text)
            last = text
        await wait()


def _rows(snapshot: Snapshot, common: Common, nodes: Sequence[str], selector: str) -> list[FleetRow]:
    """The rows that are asked for. Raises ConfigError for a node that has none, UsageError for a selector."""
    from tonnage.diagnose.status import fleet

    rows = [*fleet(_own_pods(snapshot, common.namespace))]
    names = {row.node for row in rows}
    for name in nodes:
        if name not in names:
            near = get_close_matches(name, names, n=1)
            there = ", ".join(sorted(names)[:10]) or "none"
            remedy = f"use {near[0]} if you meant that" if near else f"nodes with GPUs: {there}"
            raise ConfigError(Problem(f'no node with GPUs is named "{name}"', remedy=remedy))
    chosen = _selected(snapshot, selector) if selector else names
    rows = [row for row in rows if row.node in chosen and (not nodes or row.node in nodes)]
    if common.namespace is None:
        return rows
    own = [row.held_in(common.namespace) for row in rows]
    return [row for row in own if row.holders is None or row.holders]


def _own_pods(snapshot: Snapshot, namespace: str | None) -> Snapshot:
    """The snapshot of somebody who asks about the one namespace whose pods were read: none are missing."""
    if namespace is None or snapshot.scopes.get("Pod") != namespace:
        return snapshot
    own = {kind for kind in ("Pod", "ResourceClaim") if snapshot.scopes.get(kind) == namespace}
    scopes = {kind: scope for kind, scope in snapshot.scopes.items() if kind not in own}
    return replace(snapshot, scopes=scopes, missing=snapshot.missing - own)


def _selected(snapshot: Snapshot, selector: str) -> set[str]:
    from tonnage.decide.kubernetes.api.selectors import SelectorError, matches_labels, parse_labels

    try:
        requirements = parse_labels(selector)
    except SelectorError as error:
        raise click.UsageError(f"--selector: {error.message}") from None
    return {node.name for node in snapshot.nodes if matches_labels(requirements, node.labels)}


def _show(snapshot: Snapshot, rows: Sequence[FleetRow], common: Common, unread: Collection[str]) -> None:
    from tonnage.diagnose.fleet.totals import totals_of
    from tonnage.diagnose.unseen_kinds import unseen_kinds

    unseen = dict.fromkeys((*unseen_kinds(snapshot), *unread))
    if common.output in ("json", "yaml"):
        body: JsonObject = {
            "items": [row.to_json() for row in rows],
            "totals": [total.to_json() for total in totals_of(rows)],
        }
        emit({**body, "unread": [*unseen]} if unseen else body, common.output)
    elif common.output == "name":
        for name in dict.fromkeys(row.node for row in rows):
            say(f"node/{name}")
    elif not rows and "Node" in unread:
        say("UNKNOWN: the Node objects were not read.", err=True)
    elif not rows:
        where = f" in namespace {common.namespace}" if common.namespace is not None else ""
        say(f"No pod{where} holds a GPU." if where else "No node has or offers a GPU.", err=True)
    else:
        say(_text_of(snapshot, rows, common))


def _text_of(snapshot: Snapshot, rows: Sequence[FleetRow], common: Common) -> SafeText:
    """The table, the totals, and what is not known for want of objects."""
    from tonnage.diagnose.fleet.totals import totals_of
    from tonnage.diagnose.unseen_kinds import unseen_kinds, unseen_words

    parts: list[str] = [
        fleet_table(rows, wide=common.verbose or common.output == "wide", width=terminal_width())
    ]
    if common.namespace is None and len(rows) > 1:
        parts += ["", *(total.words for total in totals_of(rows))]
    if unseen := unseen_kinds(snapshot):
        parts += ["", *(unseen_words(kind, snapshot.scopes.get(kind, "")) for kind in unseen)]
    return lines(parts)


def fleet_table(rows: Sequence[FleetRow], *, wide: bool, width: int | None = None) -> SafeText:
    """A row for each node and resource; wide also one for each device, reasons, and who holds what."""
    cells: list[tuple[str, ...]] = []
    for row in rows:
        cells.append((*_cells(row, row.health), _holders(row)) if wide else _cells(row, row.state))
        if wide:
            cells += [_device_cells(row, number) for number in range(len(row.devices))]
    return fitted_table([*_HEAD, "HOLDERS"] if wide else _HEAD, cells, width)


def _holders(row: FleetRow) -> str:
    return ", ".join(f"{pod} ({amount})" for pod, amount in row.holders or ()) or "-"


def _cells(row: FleetRow, health: str) -> tuple[str, ...]:
    has_amounts = row.allocatable is not None and row.capacity is not None
    return (
        row.node,
        row.product or "-",
        row.resource or "-",
        row.mode if row.replicas in (None, 1) else f"{row.mode} ×{row.replicas}",
        _amount(row.advertised),
        f"{row.allocatable}/{row.capacity}" if has_amounts else "-",
        _amount(row.allocated),
        _memory(row.used_mib, row.memory_mib),
        health,
    )


def _amount(amount: int | None) -> str:
    return "-" if amount is None else str(amount)


def _device_cells(row: FleetRow, number: int) -> tuple[str, ...]:
    device = row.devices[number]
    name = "└ " + (f"GPU {device.index}" if device.index is not None else "GPU")
    name += f" ({device.claim_name})" if device.claim_name else ""
    reason = f": {device.reason}" if device.reason and not device.healthy else ""
    memory = _memory(device.used_mib, device.memory_mib)
    held = ", ".join(device.holders) or "-"
    return (name, device.product or "-", device.uuid, "", "", "", "", memory, f"{device.state}{reason}", held)


def _memory(used_mib: int | None, total_mib: int) -> str:
    if not total_mib:
        return "-"
    return f"{used_mib}/{total_mib} MiB" if used_mib is not None else f"{total_mib} MiB"
