"""`tonnage claims`: who has which device by which ResourceClaim, and what the others wait for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import click

from tonnage.cli.access.unseen import not_seen
from tonnage.cli.awaited import awaited
from tonnage.cli.cluster import snapshot_of, unread_of
from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.terminal.output import emit, lines, say
from tonnage.cli.terminal.tables import table
from tonnage.diagnose.missing_kinds import has_read, unread_remedy, unread_text
from tonnage.model.devices.claims import DRIVER
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.name_lists import listed

if TYPE_CHECKING:
    from tonnage.diagnose.claim_waits import ClaimWait
    from tonnage.diagnose.claims import ClaimRow

_HEAD: Final = ("CLAIM", "STATE", "DEVICES", "NODE", "PODS", "CLASS")


@click.command(
    help="Show which devices each ResourceClaim has, who uses it, and what those without wait for.",
    epilog=examples(
        "tonnage claims",
        "tonnage claims -n ml-team-a               # of one namespace",
        "tonnage claims train-gpu-x7k2p -o wide    # what excludes each device",
        "tonnage claims train-gpu-x7k2p -o json",
        "kubectl get resourceclaims,resourceslices,deviceclasses,pods,nodes -A -o json"
        " | tonnage claims --snapshot -",
    ),
)
@click.argument("names", nargs=-1, metavar="[CLAIM]...")
@common_options(output=("text", "wide", "json", "yaml", "name"), cluster=True, namespace=True, snapshot=True)
def command(common: Common, names: tuple[str, ...]) -> int:
    """Exit status 1 when a claim waits, or keeps devices that nobody uses."""
    from tonnage.diagnose.claims import claim_rows

    snapshot = awaited(snapshot_of(common, "claims"))
    rows = _chosen(claim_rows(snapshot, common.namespace), names, snapshot, common.namespace or "")
    unread = unread_of(snapshot, "claims", "ResourceClaim", "ResourceSlice", "Pod", "NodeGPUStatus")
    if "ResourceClaim" in snapshot.unserved:
        unread = ("ResourceClaim", *unread)
    _show(rows, common, unread, snapshot)
    return 0 if all(row.in_order for row in rows) and "ResourceClaim" not in unread else 1


def _chosen(
    rows: Sequence[ClaimRow], names: Sequence[str], snapshot: Snapshot, namespace: str
) -> list[ClaimRow]:
    """The rows of these names, with or without their namespace as the table has it, or all.

    Raises:
        ClusterError: claims were not read.
        ConfigError: no claim has one of the names.
    """
    if not names:
        return [*rows]
    chosen: list[ClaimRow] = []
    for name in names:
        same = [row for row in rows if name in (row.name, f"{row.namespace}/{row.name}")]
        chosen += [row for row in same if row not in chosen]
        if same:
            continue
        if not has_read("ResourceClaim", snapshot, namespace):
            raise not_seen("ResourceClaim", snapshot, f"resourceclaim {name}", "claims")
        near = get_close_matches(name, {row.name for row in rows}, n=1)
        elsewhere = [claim.namespace for claim in snapshot.claims if claim.name == name]
        remedy = f"use {near[0]} if you meant that" if near else "kubectl get resourceclaims -A"
        remedy = f"it is in {elsewhere[0]}: -n {elsewhere[0]}" if elsewhere else remedy
        where = f"namespace {namespace}" if namespace else ""
        raise ConfigError(Problem(f'no ResourceClaim is named "{name}"', where, remedy=remedy))
    return chosen


def _show(rows: Sequence[ClaimRow], common: Common, unread: Collection[str], snapshot: Snapshot) -> None:
    if common.output in ("json", "yaml"):
        body: JsonObject = {"items": [row.to_json() for row in rows]}
        emit({**body, "unread": [*unread]} if unread else body, common.output)
    elif common.output == "name":
        for row in rows:
            say(f"resourceclaim.resource.k8s.io/{row.name}")
    elif not rows and "ResourceClaim" in unread:
        if "ResourceClaim" in snapshot.unserved:
            say(f"UNKNOWN: {unread_text('ResourceClaim', snapshot)}.", err=True)
            say(f"  remedy: {unread_remedy('ResourceClaim', snapshot)}", err=True)
        else:
            say("UNKNOWN: the ResourceClaim objects were not read.", err=True)
    elif not rows:
        where = f" in namespace {common.namespace}" if common.namespace is not None else ""
        say(f"No ResourceClaim{where} was found.", err=True)
    else:
        cells = [_cells(row) for row in rows]
        say(table(_HEAD, cells))
        wide = common.output == "wide" or common.verbose
        alike: dict[ClaimWait, list[str]] = {}
        for row in rows:
            wait = row.wait if wide else replace(row.wait, details=())
            alike.setdefault(wait, []).append(f"{row.namespace}/{row.name}")
        amiss = [line for wait, claims in alike.items() for line in _amiss(claims, wait)]
        if amiss:
            say("")
            say(lines(amiss))


def _amiss(claims: Sequence[str], wait: ClaimWait) -> Iterator[str]:
    """What is amiss with claims, what excludes which device on each node, and what to do."""
    if wait.why:
        yield f"{listed(claims)}: {wait.why}"
        yield from (f"  {line}" for line in wait.details)
        if wait.remedy:
            yield f"  do: {wait.remedy}"


def _device(device: str, part: Mapping[str, str]) -> str:
    """Its name, with another vendor's driver, and with what the claim takes of it where it has a part."""
    amounts = ", ".join(f"{amount} {name}" for name, amount in part.items())
    driver, _, path = device.partition("/")
    name = path.rpartition("/")[2]
    name = name if driver == DRIVER else f"{driver}/{name}"
    return f"{name} ({amounts})" if amounts else name


def _cells(row: ClaimRow) -> tuple[str, ...]:
    devices = ", ".join(map(_device, row.devices, row.parts))
    return (
        f"{row.namespace}/{row.name}",
        row.state.value,
        devices or "-",
        row.node or "-",
        ", ".join(row.pods) or "-",
        ", ".join(row.classes) or "-",
    )
