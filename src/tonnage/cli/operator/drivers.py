"""Drivers in `tonnage operator`: what their conditions say, and the way back to a version before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import click

from tonnage.cli.cluster import connected
from tonnage.cli.operator.namespaces import (
    named_namespaces,
    operator_namespace_option,
    require_namespaces,
)
from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.terminal.output import line, say
from tonnage.model.errors import ApiError, ConfigError, Problem
from tonnage.model.json_access import mappings, text

if TYPE_CHECKING:
    from tonnage.adapters.kubernetes.http import HttpKubernetes
    from tonnage.decide.cluster.operate.drivers.rollback import DriverRollback
    from tonnage.diagnose.operated_drivers import DriverOutlook
    from tonnage.model.json import JsonObject

_WORDS: Final = {
    "tonnage.dev/DriverPreflight": "Before a driver is rolled out",
    "tonnage.dev/DriverUpgrade": "Drivers",
}
"""The conditions about drivers, and how each is headed."""


def installs_drivers(status: JsonObject) -> bool:
    """Whether the controller that has written a policy's status installs drivers."""
    return any(text(condition, "type") in _WORDS for condition in mappings(status, "conditions"))


def show_conditions(status: JsonObject) -> None:
    """What a policy's status says of drivers; nothing where the controller installs none."""
    for message in condition_lines(status):
        if not message.startswith(" "):
            say()
        say(line(message))


def condition_lines(status: JsonObject) -> Iterator[str]:
    """A line for each condition about drivers, and those of its message behind it."""
    by_type = {text(condition, "type"): condition for condition in mappings(status, "conditions")}
    for kind, words in _WORDS.items():
        condition = by_type.get(kind)
        if condition is not None:
            first, *more = text(condition, "message").split("\n")
            yield f"{words}: {first}"
            yield from (f"  {message}" for message in more)


def show_nvidia_drivers(statuses: Mapping[str, JsonObject]) -> None:
    """Where each NVIDIADriver stands, with what its own conditions say."""
    for name, status in sorted(statuses.items()):
        lines = [*condition_lines(status)]
        state = text(status, "state") or "no controller has looked at it"
        ready = (c for c in mappings(status, "conditions") if text(c, "type") == "Ready")
        why = next((text(condition, "message") for condition in ready), "")
        # Unless the policy itself is at fault, that is what the upgrade's condition says.
        repeated = not why or why in (
            text(c, "message") for c in mappings(status, "conditions") if text(c, "type") in _WORDS
        )
        say()
        say(line(f"NVIDIADriver {name}: {state}{'' if repeated else ', '}{'' if repeated else why}"))
        for message in lines:
            say(line(f"  {message}"))


def show_outlook(outlook: DriverOutlook | None) -> None:
    """DaemonSets with their images and nodes, and what stands against them."""
    if outlook is None:
        return
    say()
    say("Drivers:" if outlook.groups or outlook.unused else "Drivers: no node would get a driver container")
    for group in outlook.groups:
        change = f", {group.change}" if group.change else ""
        say(line(f"  DaemonSet {group.name} ({group.owner}{change}): {group.image}"))
        stays = [node for node in group.nodes if node not in (*group.installs, *group.upgrades)]
        for words, nodes in (
            ("install on", group.installs),
            ("upgrade on", group.upgrades),
            ("stays on", stays),
        ):
            if nodes:
                say(line(f"    {words} {', '.join(nodes)}"))
    for name in outlook.unused:
        say(line(f"  DaemonSet {name}: removed"))
    if outlook.problems or outlook.conflicts:
        say()
        say("Before a driver is rolled out:")
    for problem in (*(conflict.message for conflict in outlook.conflicts), *map(str, outlook.problems)):
        say(line(f"  {problem}"))


@click.command(
    help="Take a driver's version back: have the policy name the image that it named before the last change.",
    epilog=examples("tonnage operator rollback --dry-run", "tonnage operator rollback"),
)
@click.argument("name", required=False)
@click.option("--dry-run", is_flag=True, help="Show the change without making it.")
@operator_namespace_option("Where the drivers' DaemonSets are.")
@common_options(cluster=True)
def rollback(common: Common, name: str | None, operator_namespace: str, *, dry_run: bool) -> int:
    """NAME is a ClusterPolicy's or an NVIDIADriver's; it may be left out where one can be taken back."""
    asyncio.run(_rollback(common, name, operator_namespace, named_namespaces(), dry_run=dry_run))
    return 0


async def _rollback(
    common: Common, name: str | None, namespace: str, named: Mapping[str, str], *, dry_run: bool
) -> None:
    from tonnage.decide.cluster.operate.drivers.images import image_path
    from tonnage.model.drivers.policy import DriverOwnerKind
    from tonnage.wire.kinds import CLUSTER_POLICY, NVIDIA_DRIVER

    async with connected(common) as api:
        await require_namespaces(api, named)
        change = _chosen(await _changes(api, namespace), name)
        words = f"{image_path(change.current)} to {image_path(change.previous)}"
        if dry_run:
            say(line(f"would take {change.owner} back from {words}"))
            return
        cluster = change.owner.kind is DriverOwnerKind.CLUSTER_POLICY
        await api.patch(CLUSTER_POLICY if cluster else NVIDIA_DRIVER, change.owner.name, change.patch)
    say(line(f"{change.owner} is back from {words}; nodes follow: tonnage operator status"))


def _chosen(changes: list[DriverRollback], name: str | None) -> DriverRollback:
    """The one change that is meant. Raises ConfigError."""
    meant = [change for change in changes if name in (None, change.owner.name)]
    if len(meant) == 1:
        return meant[0]
    if not meant:
        where = f" of {name}" if name else ""
        problem = f"no driver{where} has had another image before"
        raise ConfigError(Problem(problem, remedy="write the version into the policy"))
    names = ", ".join(change.owner.name for change in meant)
    raise ConfigError(Problem("more than one driver can be taken back", remedy=f"name one of {names}"))


async def _changes(api: HttpKubernetes, namespace: str) -> list[DriverRollback]:
    from tonnage.decide.cluster.operate.drivers.rollback import rollbacks
    from tonnage.model.drivers.policy import DriverOwner, DriverOwnerKind
    from tonnage.reading.driver_policy import standing_daemon_set
    from tonnage.wire.kinds import CLUSTER_POLICY, DAEMON_SET, NVIDIA_DRIVER

    owners: list[DriverOwner] = []
    for owner_kind, kind in (
        (DriverOwnerKind.CLUSTER_POLICY, CLUSTER_POLICY),
        (DriverOwnerKind.NVIDIA_DRIVER, NVIDIA_DRIVER),
    ):
        try:
            listing = await api.list(kind)
        except ApiError as error:
            if error.code != 404:
                raise
            continue  # the kind is not served
        owners += [DriverOwner(owner_kind, obj.metadata.name, obj.metadata.uid) for obj in listing.items]
    sets = await api.list(DAEMON_SET, namespace=namespace)
    return rollbacks(owners, map(standing_daemon_set, sets.items))
