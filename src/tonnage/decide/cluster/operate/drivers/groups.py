"""Which policy each node's driver comes from, and the groups of nodes that share a DaemonSet."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tonnage.decide.cluster.operate.drivers.images import driver_image, problem_of, system_tag
from tonnage.decide.kubernetes.matching import requirement_holds
from tonnage.model.drivers.node import DEPLOY_DRIVER, DriverNode
from tonnage.model.drivers.policy import DriverOwnerKind, DriverPolicy

NAMELESS: Final = "its system is not known, so that no driver image can be named"
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
    """`groups` by node; nodes without one are in no policy, or `unknown` has why; `problems` by owner.

    `nameless` has by node the policy that selects it, where no image can be named for it.
    """

    groups: Mapping[str, DriverGroup] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)
    nameless: Mapping[str, DriverPolicy] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)


def assignment(policies: Sequence[DriverPolicy], nodes: Iterable[DriverNode]) -> DriverAssignment:
    """Every node's group. Of a node whose policy has a problem nothing is said but that: its driver stays."""
    active = [policy for policy in policies if policy.enabled]
    special = [policy for policy in active if not policy.default]
    general = [policy for policy in active if policy.default]
    problems = {policy.owner.name: problem for policy in active if (problem := problem_of(policy))}
    if len(general) > 1:
        names = " and ".join(sorted(policy.owner.name for policy in general))
        for policy in general:
            problems[policy.owner.name] = f"spec.default: {names} are both default; set it in one of them"
    groups: dict[str, DriverGroup] = {}
    unknown: dict[str, str] = {}
    nameless: dict[str, DriverPolicy] = {}
    for node in nodes:
        if node.labels.get(DEPLOY_DRIVER) not in ("true", "paused-for-driver-upgrade"):
            continue
        selecting = [policy for policy in special if _selects(policy, node)]
        if len(selecting) > 1:
            names = " and ".join(sorted(policy.owner.name for policy in selecting))
            why = f"{names} both select node {node.name}; make their selectors exclude each other"
            problems |= {policy.owner.name: f"spec.nodeSelector: {why}" for policy in selecting}
            unknown[node.name] = why
        elif selecting or len(general) == 1:
            policy = (selecting or general)[0]
            group = _group(policy, node)
            if problem := problem_of(policy):
                unknown[node.name] = problem
            elif group is None:
                unknown[node.name] = NAMELESS
                nameless[node.name] = policy
            else:
                groups[node.name] = group
        elif general:
            unknown[node.name] = "more than one NVIDIADriver is default"
    return DriverAssignment(groups, unknown, nameless, problems)


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
