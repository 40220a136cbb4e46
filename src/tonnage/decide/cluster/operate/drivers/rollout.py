"""What the drivers of a cluster come to: groups, DaemonSets, labels and the members of each upgrade."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tonnage.decide.cluster.operate.drift import has_kept
from tonnage.decide.cluster.operate.drivers.config_files import unplaced
from tonnage.decide.cluster.operate.drivers.daemon_set import daemon_set, group_digest, pull_secrets
from tonnage.decide.cluster.operate.drivers.groups import DriverAssignment, DriverGroup, assignment
from tonnage.decide.cluster.operate.drivers.module_containers import driver_images
from tonnage.decide.cluster.operate.drivers.node_upgrade import UpgradingNode
from tonnage.decide.cluster.operate.drivers.preflight import (
    problems_of,
    system_problem,
    unplaced_files,
    version_problems,
)
from tonnage.decide.cluster.operate.drivers.states import (
    AUTO_UPGRADE,
    STATE_LABEL,
    UNDER_WAY,
    UpgradeState,
    state_of,
)
from tonnage.model.actions.cluster import ApplyObject, DeleteObject
from tonnage.model.drivers.daemon_set import StandingDaemonSet
from tonnage.model.drivers.images import ImageAnswer, TagState
from tonnage.model.drivers.node import GROUP_LABEL, OWNER_LABEL, DriverNode, DriverPod
from tonnage.model.drivers.policy import DriverOwnerKind, DriverPolicy
from tonnage.model.json import JsonObject
from tonnage.model.json_access import mapping
from tonnage.model.reasons.cluster.drivers import PreflightReason


@dataclass(frozen=True, slots=True)
class DriverCluster:
    """What there is: policies, GPU nodes, driver pods by node, and the DaemonSets that stand, by name."""

    policies: Sequence[DriverPolicy]
    nodes: Sequence[DriverNode]
    pods: Mapping[str, DriverPod] = field(default_factory=dict)
    standing: Mapping[str, StandingDaemonSet] = field(default_factory=dict)
    images: Mapping[str, ImageAnswer] = field(default_factory=dict)
    namespace: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Why the API server does not take a group's DaemonSet as it should be, by its name."""


@dataclass(frozen=True, slots=True)
class LabelChange:
    """Labels and annotations of one node to set, or with None to remove."""

    node: str
    labels: Mapping[str, str | None]
    annotations: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class DriverRollout:
    """What follows from what there is; `problems` by node; those of policies are in `assigned`."""

    assigned: DriverAssignment
    problems: Mapping[str, tuple[PreflightReason, ...]]
    apply: tuple[ApplyObject, ...]
    delete: tuple[DeleteObject, ...]
    labels: tuple[LabelChange, ...]

    def blocked(self, node: str) -> PreflightReason | None:
        """What keeps a driver container off a node."""
        return next((problem for problem in self.problems.get(node, ()) if problem.blocks), None)


def needed_images(cluster: DriverCluster) -> dict[str, DriverGroup]:
    """The images that groups need, the driver's and those of modules beside it, for a registry to be asked.

    Each with a group that needs it; of several with the one that has the most pull secrets, since a registry
    tells nobody else of a private image.
    """
    assigned = assignment(cluster.policies, cluster.nodes)
    by_name = {group.name: group for group in assigned.groups.values()}
    groups = sorted(by_name.values(), key=lambda group: len(pull_secrets(group)))
    return {image: group for group in groups for image in driver_images(group)}


def rollout(cluster: DriverCluster) -> DriverRollout:
    """DaemonSets and labels. A group of which an image does not exist keeps the DaemonSet that it has."""
    assigned = assignment(cluster.policies, cluster.nodes)
    problems: dict[str, tuple[PreflightReason, ...]] = {}
    for node in cluster.nodes:
        group = assigned.groups.get(node.name)
        if group is not None:
            pod = cluster.pods.get(node.name)
            problems[node.name] = (
                *problems_of(node, group, pod, cluster.images),
                *(unplaced_files(node.name, group.os_tag, section) for section in unplaced(group)),
            )
    plan = DriverRollout(assigned, problems, (), (), ())
    labels = tuple(_label_changes(cluster, plan))
    needed = _needed_groups(cluster, plan)
    apply = []
    for name, group in sorted(needed.items()):
        answers = (cluster.images.get(image) for image in driver_images(group))
        if any(answer is not None and answer.state is TagState.MISSING for answer in answers):
            continue
        standing = cluster.standing.get(name)
        body = daemon_set(group, cluster.namespace, standing)
        if standing is None or _differs(standing, group, body):
            apply.append(ApplyObject.of(body))
    carried = {node.group for node in cluster.nodes}
    delete = tuple(
        DeleteObject("DaemonSet", name, standing.uid, cluster.namespace)
        for name, standing in sorted(cluster.standing.items())
        if name not in needed and name not in carried
    )
    return DriverRollout(assigned, problems, tuple(apply), delete, labels)


def _differs(standing: StandingDaemonSet, group: DriverGroup, body: JsonObject) -> bool:
    owner = group.policy.owner
    if standing.digest != group_digest(group) or standing.owner != f"{owner.kind} {owner.uid}":
        return True
    return bool(standing.template) and not has_kept(standing.template, mapping(body, "spec", "template"))


def _needed_groups(cluster: DriverCluster, plan: DriverRollout) -> dict[str, DriverGroup]:
    """Groups with a node that may have the driver, or that carries the group's label already."""
    needed: dict[str, DriverGroup] = {}
    for node in cluster.nodes:
        group = plan.assigned.groups.get(node.name)
        if group is not None and (plan.blocked(node.name) is None or node.group == group.name):
            needed[group.name] = group
    return needed


def _label_changes(cluster: DriverCluster, plan: DriverRollout) -> Iterator[LabelChange]:
    for node in cluster.nodes:
        changes: dict[str, str | None] = {}
        group = plan.assigned.groups.get(node.name)
        pod = cluster.pods.get(node.name)
        target = _target_label(node, group, pod, plan)
        if target != node.group and not _is_for_the_upgrade(node, group, pod):
            changes[GROUP_LABEL] = target or None
        owner = ""
        if group is not None and group.policy.owner.kind is DriverOwnerKind.NVIDIA_DRIVER:
            owner = group.policy.owner.name
        if owner != node.labels.get(OWNER_LABEL, "") and node.name not in plan.assigned.undecided:
            changes[OWNER_LABEL] = owner or None
        notes = _notes(node, group, changes.get(GROUP_LABEL, node.group))
        if changes or notes:
            yield LabelChange(node.name, changes, notes)


def _notes(node: DriverNode, group: DriverGroup | None, carried: str | None) -> dict[str, str | None]:
    """Whether NVIDIA's driver manager leaves cordon and eviction to the controller, where the driver is ours.

    Else it cordons the node and lifts the cordon at its end, whosever that is.
    """
    enabled = None
    if carried and group is not None:
        automatic = group.policy.upgrades.automatic and not group.policy.upgrades_disabled
        state = state_of(node.labels.get(STATE_LABEL, ""))
        enabled = "true" if automatic or state in (*UNDER_WAY, UpgradeState.FAILED) else None
    ours = carried or node.group
    return {AUTO_UPGRADE: enabled} if ours and enabled != node.annotations.get(AUTO_UPGRADE) else {}


def _target_label(
    node: DriverNode, group: DriverGroup | None, pod: DriverPod | None, plan: DriverRollout
) -> str:
    """The group that the node's label should name; a driver that runs is never taken off by a preflight."""
    if node.name in plan.assigned.undecided:
        return node.group
    if group is None:
        return ""
    if plan.blocked(node.name) is not None:
        return node.group if pod is not None else ""
    return group.name


def _is_for_the_upgrade(node: DriverNode, group: DriverGroup | None, pod: DriverPod | None) -> bool:
    """Whether the label may change only when the node is drained: there is a driver that runs."""
    if group is None:
        return False
    under_way = state_of(node.labels.get(STATE_LABEL, "")) in UNDER_WAY
    return under_way or (pod is not None and pod.ready and bool(node.group))


def problems_for(
    policy: DriverPolicy, nodes: Iterable[str], plan: DriverRollout
) -> tuple[PreflightReason, ...]:
    """What stands against a policy's drivers: on its nodes, and in the policy itself."""
    of_nodes = (problem for node in nodes for problem in plan.problems.get(node, ()))
    nameless = (
        system_problem(node) for node, owner in plan.assigned.nameless.items() if owner.owner == policy.owner
    )
    return (*of_nodes, *nameless, *version_problems(policy))


def members_by_owner(
    cluster: DriverCluster, plan: DriverRollout
) -> list[tuple[DriverPolicy | None, list[UpgradingNode]]]:
    """The nodes of each policy; last, under None, those of nobody whose upgrade has begun."""
    members: dict[str, list[UpgradingNode]] = {}
    policies = {str(policy.owner): policy for policy in cluster.policies}
    strays: list[UpgradingNode] = []
    written = {applied.name for applied in plan.apply}
    for node in cluster.nodes:
        group, pod = plan.assigned.groups.get(node.name), cluster.pods.get(node.name)
        if group is not None:
            standing = cluster.standing.get(group.name)
            member = UpgradingNode(
                node,
                digest=standing.digest if standing is not None else "",
                group=group.name,
                pod=pod,
                held=_held(plan.blocked(node.name), cluster.refused.get(group.name, "")),
                changing=group.name in written,
            )
            members.setdefault(str(group.policy.owner), []).append(member)
        elif node.name not in plan.assigned.undecided and _has_begun(node):
            strays.append(UpgradingNode(node, pod=pod, assigned=False))
    parts: list[tuple[DriverPolicy | None, list[UpgradingNode]]] = [
        (policies[owner], nodes) for owner, nodes in members.items()
    ]
    return [*parts, (None, strays)] if strays else parts


def _held(problem: PreflightReason | None, refusal: str) -> str:
    """For whom a node waits before anything is done to it; empty: for nobody."""
    if problem is not None:
        return f"for you: {problem.message}; {problem.remedy}"
    return f"for you: the API server refuses the driver's DaemonSet: {refusal}" if refusal else ""


def _has_begun(node: DriverNode) -> bool:
    return bool(node.labels.get(STATE_LABEL)) or any(
        key.startswith("tonnage.dev/driver-upgrade") for key in node.annotations
    )
