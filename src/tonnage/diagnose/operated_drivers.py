"""What the drivers of a policy come to on a cluster, now or once it is applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tonnage.decide.cluster.operate.drivers.daemon_set import group_digest
from tonnage.decide.cluster.operate.drivers.groups import DriverGroup
from tonnage.decide.cluster.operate.drivers.images import policy_refusal
from tonnage.decide.cluster.operate.drivers.rollout import (
    DriverCluster,
    DriverRollout,
    problems_for,
    rollout,
)
from tonnage.decide.cluster.operate.policy_status import PolicyJudgement
from tonnage.diagnose.operated import OperatedView
from tonnage.model.drivers.node import DriverNode
from tonnage.model.drivers.policy import DriverOwnerKind, DriverPolicy
from tonnage.model.gpu_policy import PolicyState
from tonnage.model.json import JsonObject
from tonnage.model.reasons.cluster.drivers import DriverPolicyRefused, DriverReason, PreflightReason

_POLICY: Final = DriverOwnerKind.CLUSTER_POLICY


@dataclass(frozen=True, slots=True)
class DriverGroupView:
    """A DaemonSet: `change` is what becomes of it, empty where it stays.

    `installs` are nodes without a driver container so far, `upgrades` those with another one.
    """

    name: str
    owner: str
    image: str
    change: str
    nodes: tuple[str, ...]
    installs: tuple[str, ...]
    upgrades: tuple[str, ...]

    def to_json(self) -> JsonObject:
        """As `-o json` prints it."""
        return {
            "daemon_set": self.name,
            "owner": self.owner,
            "image": self.image,
            "change": self.change,
            "nodes": list(self.nodes),
            "installs": list(self.installs),
            "upgrades": list(self.upgrades),
        }


@dataclass(frozen=True, slots=True)
class DriverOutlook:
    """`problems` are what stands against drivers; `conflicts` by what no policy is followed at all.

    `unused` are DaemonSets that go.
    """

    groups: tuple[DriverGroupView, ...] = ()
    problems: tuple[PreflightReason, ...] = ()
    conflicts: tuple[DriverReason, ...] = ()
    unused: tuple[str, ...] = ()
    refusal: DriverPolicyRefused | None = None
    """Why the ClusterPolicy's own drivers stay as they are whatever it says. None: they follow it."""

    def to_json(self) -> JsonObject:
        """As `-o json` prints it."""
        return {
            "groups": [group.to_json() for group in self.groups],
            "preflight": [
                {
                    "node": problem.node,
                    "check": problem.condition,
                    "message": problem.message,
                    "remedy": problem.remedy,
                    "blocks": problem.blocks,
                }
                for problem in self.problems
            ],
            "conflicts": [refusal.message for refusal in self.conflicts],
            "removed": list(self.unused),
        }


@dataclass(frozen=True, slots=True)
class OperatedDrivers:
    """`outlook` is None where no controller installs drivers; `statuses` are those of NVIDIADrivers."""

    outlook: DriverOutlook | None
    statuses: Mapping[str, JsonObject]

    def to_json(self) -> JsonObject:
        """As `-o json` prints it."""
        statuses: JsonObject = {name: dict(status) for name, status in sorted(self.statuses.items())}
        plan = self.outlook.to_json() if self.outlook is not None else None
        return {"plan": plan, "nvidia_drivers": statuses}


def with_driver_problem(view: OperatedView, outlook: DriverOutlook | None) -> OperatedView:
    """The view of a policy that is not ready where its own drivers cannot be as it says."""
    if outlook is None or outlook.refusal is None or view.judgement.state is not PolicyState.READY:
        return view
    message = f"{outlook.refusal.message}; drivers stay as they are"
    judgement = PolicyJudgement(PolicyState.NOT_READY, "PrerequisiteNotMet", message)
    return replace(view, judgement=judgement)


def driver_outlook(cluster: DriverCluster) -> DriverOutlook:
    """Groups, nodes and preflights. Whether images exist is asked by the controller alone."""
    plan = rollout(cluster)
    members: dict[str, list[DriverNode]] = {}
    groups: dict[str, DriverGroup] = {}
    for node in cluster.nodes:
        group = plan.assigned.groups.get(node.name)
        if group is not None:
            groups[group.name] = group
            members.setdefault(group.name, []).append(node)
    views = [_group_view(groups[name], members[name], cluster, plan) for name in sorted(groups)]
    problems = [
        problem
        for policy in cluster.policies
        if policy.enabled
        for problem in problems_for(policy, _nodes_of(policy.owner, plan), plan)
    ]
    return DriverOutlook(
        tuple(view for view in views if view.nodes),
        tuple(sorted(problems, key=lambda problem: (not problem.blocks, not problem.node, problem.node))),
        tuple({refusal.message: refusal for refusal in plan.assigned.refused.values()}.values()),
        tuple(deleted.name for deleted in plan.delete),
        _own_refusal(cluster.policies),
    )


def _own_refusal(policies: Sequence[DriverPolicy]) -> DriverPolicyRefused | None:
    own = (policy for policy in policies if policy.enabled and policy.owner.kind is _POLICY)
    return next((refusal for policy in own if (refusal := policy_refusal(policy))), None)


def _nodes_of(owner: object, plan: DriverRollout) -> Sequence[str]:
    return [node for node, group in plan.assigned.groups.items() if group.policy.owner == owner]


def _group_view(
    group: DriverGroup, nodes: Sequence[DriverNode], cluster: DriverCluster, plan: DriverRollout
) -> DriverGroupView:
    applied = group.name in {action.name for action in plan.apply}
    standing = group.name in cluster.standing
    digest = group_digest(group)
    names = sorted(node.name for node in nodes if plan.blocked(node.name) is None)
    pods = {name: cluster.pods.get(name) for name in names}
    return DriverGroupView(
        group.name,
        str(group.policy.owner),
        group.image,
        "" if not applied else "changed" if standing else "new",
        tuple(names),
        tuple(name for name, pod in pods.items() if pod is None),
        tuple(name for name, pod in pods.items() if pod is not None and pod.digest != digest),
    )
