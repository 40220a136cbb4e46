"""Which policy each node's driver comes from, and the groups of nodes that share a DaemonSet."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tonnage.decide.cluster.operate.drivers.images import driver_image, policy_refusal, system_tag
from tonnage.decide.kubernetes.matching import requirement_holds
from tonnage.model.drivers.node import DEPLOY_DRIVER, DriverNode
from tonnage.model.drivers.policy import DriverOwnerKind, DriverPolicy
from tonnage.model.name_lists import listed
from tonnage.model.reasons.cluster.drivers import (
    DriverDefaultsConflict,
    DriverReason,
    DriverSelectorsConflict,
)

_MOST_NAMED: Final = 5
_LONGEST_NAME: Final = 52
"""A name is a label's value as well, and DaemonSets add to it."""
_UNSAFE: Final = re.compile(r"[^a-z0-9.-]+")


@dataclass(frozen=True, slots=True)
class DriverGroup:
    """Nodes with one policy, one system and, where drivers are precompiled, one kernel."""

    name: str
    policy: DriverPolicy
    os_tag: str
    kernel: str = ""

    @property
    def image(self) -> str:
        """The driver's image."""
        return driver_image(self.policy, self.os_tag, self.kernel)


@dataclass(frozen=True, slots=True)
class DriverAssignment:
    """`groups` by node; nodes without one are in no policy, or `undecided`; `refused` policies by name.

    `nameless` has by node the policy that selects it, where no image can be named for it.
    """

    groups: Mapping[str, DriverGroup] = field(default_factory=dict)
    undecided: frozenset[str] = frozenset()
    nameless: Mapping[str, DriverPolicy] = field(default_factory=dict)
    refused: Mapping[str, DriverReason] = field(default_factory=dict)


def assignment(policies: Sequence[DriverPolicy], nodes: Iterable[DriverNode]) -> DriverAssignment:
    """Every node's group. Of a node whose policy has a problem nothing is said but that: its driver stays."""
    active = [policy for policy in policies if policy.enabled]
    special = [policy for policy in active if not policy.default]
    general = [policy for policy in active if policy.default]
    refused = {policy.owner.name: refusal for policy in active if (refusal := policy_refusal(policy))}
    conflicts: dict[str, DriverReason] = {}
    if len(general) > 1:
        conflicts |= {policy.owner.name: _defaults_conflict(policy, general) for policy in general}
    groups: dict[str, DriverGroup] = {}
    undecided: set[str] = set()
    nameless: dict[str, DriverPolicy] = {}
    contested: dict[tuple[str, ...], list[str]] = {}
    for node in nodes:
        if node.labels.get(DEPLOY_DRIVER) not in ("true", "paused-for-driver-upgrade"):
            continue
        selecting = [policy for policy in special if _selects(policy, node)]
        if len(selecting) > 1:
            owners = tuple(sorted(policy.owner.name for policy in selecting))
            contested.setdefault(owners, []).append(node.name)
            undecided.add(node.name)
        elif selecting or len(general) == 1:
            policy = (selecting or general)[0]
            group = _group(policy, node)
            if policy.owner.name in refused:
                undecided.add(node.name)
            elif group is None:
                undecided.add(node.name)
                nameless[node.name] = policy
            else:
                groups[node.name] = group
        elif general:
            undecided.add(node.name)
    for policy in special:
        for owners, nodes_of_all in contested.items():
            if policy.owner.name in owners:
                conflicts[policy.owner.name] = _selectors_conflict(policy, owners, sorted(nodes_of_all))
    return DriverAssignment(groups, frozenset(undecided), nameless, {**conflicts, **refused})


def _defaults_conflict(policy: DriverPolicy, general: Sequence[DriverPolicy]) -> DriverDefaultsConflict:
    names = tuple(sorted(other.owner.name for other in general))
    message = f"spec.default: {' and '.join(names)} are both default; set it in one of them"
    return DriverDefaultsConflict(subject=str(policy.owner), message=message, drivers=names)


def _selectors_conflict(
    policy: DriverPolicy, names: tuple[str, ...], nodes: Sequence[str]
) -> DriverSelectorsConflict:
    select = "all select" if len(names) > 2 else "both select"
    kind = "nodes" if len(nodes) > 1 else "node"
    message = (
        f"spec.nodeSelector: {' and '.join(names)} {select} {kind} {listed(nodes, _MOST_NAMED)};"
        " make their selectors exclude each other"
    )
    return DriverSelectorsConflict(subject=str(policy.owner), message=message, drivers=names, node=nodes[0])


def _selects(policy: DriverPolicy, node: DriverNode) -> bool:
    if any(node.labels.get(key) != value for key, value in policy.selector.items()):
        return False
    if policy.terms is None:
        return True
    fields = {"metadata.name": node.name}
    return any(
        (term.expressions or term.fields)
        and all(requirement_holds(requirement, node.labels) for requirement in term.expressions)
        and all(requirement_holds(requirement, fields) for requirement in term.fields)
        for term in policy.terms
    )


def _group(policy: DriverPolicy, node: DriverNode) -> DriverGroup | None:
    system = system_tag(node)
    if not system:
        return None
    kernel = node.kernel if policy.precompiled else ""
    return DriverGroup(group_name(policy, system, kernel), policy, system, kernel)


def group_name(policy: DriverPolicy, system: str, kernel: str) -> str:
    """The DaemonSet's name, which begins as NVIDIA's does; a long one ends in a hash of the whole."""
    if policy.owner.kind is DriverOwnerKind.CLUSTER_POLICY:
        parts = ("nvidia-driver-daemonset", kernel, system)
    else:
        parts = (f"nvidia-gpu-driver-{policy.owner.name}", kernel, system)
    whole = _UNSAFE.sub("-", "-".join(filter(None, parts)).lower())
    if len(whole) <= _LONGEST_NAME:
        return whole
    mark = hashlib.sha256(whole.encode()).hexdigest()[:8]
    return f"{whole[: _LONGEST_NAME - 9].rstrip('-.')}-{mark}"
