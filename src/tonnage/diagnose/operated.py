"""What a ClusterPolicy comes to on a cluster, now or once it is applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from tonnage.decide.cluster.operate.node_readiness import NodeReadiness, gpu_nodes, readiness
from tonnage.decide.cluster.operate.operand_labels import label_changes, parts_off
from tonnage.decide.cluster.operate.operand_sets import (
    ObjectChanges,
    class_changes,
    set_changes,
)
from tonnage.decide.cluster.operate.plugin_configs import (
    ConfigCopy,
    config_copy,
    counters_copy,
    layouts_copy,
)
from tonnage.decide.cluster.operate.policy_status import PolicyJudgement, in_force, judged
from tonnage.model.gpu_policy import GpuPolicy, OperatedNode, SeenConfigMap
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.operands import SeenObject


@dataclass(frozen=True, slots=True)
class OperatedCluster:
    """What is seen of a cluster; `configs` are those of the operator's namespace, `agents` is the agents'."""

    policies: Sequence[GpuPolicy]
    nodes: Sequence[OperatedNode]
    configs: Sequence[SeenConfigMap]
    agents: SeenConfigMap
    operator_namespace: str
    layouts: SeenConfigMap | None = None
    """The agents' MIG layouts."""
    sets: Sequence[SeenObject] | None = None
    """DaemonSets of the operator's namespace; None: they may not be read, or none are made."""
    classes: Sequence[SeenObject] | None = None
    """RuntimeClasses; None: they may not be read."""
    counters: SeenConfigMap | None = None
    """The counters of the agents' device metrics."""


@dataclass(frozen=True, slots=True)
class OperatedNodeView:
    """A GPU node: what it waits for, and labels that would be set or, with None, removed.

    `off` are parts of its agent that the policy or a label switches off, with commas.
    """

    readiness: NodeReadiness
    labels: Mapping[str, str | None]
    off: str = ""


@dataclass(frozen=True, slots=True)
class OperatedView:
    """The policy that counts and what it comes to; `ignored` are the names of the others."""

    policy: GpuPolicy
    judgement: PolicyJudgement
    ignored: tuple[str, ...]
    nodes: tuple[OperatedNodeView, ...]
    configs: ConfigCopy
    layouts: ConfigCopy = field(default_factory=ConfigCopy)
    counters: ConfigCopy = field(default_factory=ConfigCopy)
    objects: Mapping[str, ObjectChanges] = field(default_factory=dict)
    """What becomes of objects, by kind."""

    def to_json(self) -> JsonObject:
        """As `-o json` prints it."""
        without: list[JsonObject] = [
            {"path": field.path, "why": field.why} for field in self.policy.without_effect
        ]
        return {
            "policy": self.policy.name,
            "state": self.judgement.state.value,
            "reason": self.judgement.reason,
            "message": self.judgement.message,
            "ignored": list(self.ignored),
            "nodes": [_node_json(node) for node in self.nodes],
            "configuration": _copy_json(self.configs),
            "configuration_problem": self.configs.problem,
            "layouts": _copy_json(self.layouts),
            "layouts_problem": self.layouts.problem,
            "counters": _copy_json(self.counters),
            "counters_problem": self.counters.problem,
            "objects": {kind: _changes_json(changes) for kind, changes in self.objects.items()},
            "fields_without_effect": list(without),
        }


def _copy_json(configs: ConfigCopy) -> JsonObject | None:
    action = configs.action
    if action is None:
        return None
    keys: list[JsonValue] = [*sorted(action.contents)]
    return {"from": action.source, "to": f"{action.namespace}/{action.name}", "keys": keys}


def _changes_json(changes: ObjectChanges) -> JsonObject:
    create: list[JsonValue] = [*changes.create]
    delete: list[JsonValue] = [*changes.delete]
    others: list[JsonValue] = [*changes.others]
    return {"create": create, "delete": delete, "of_others": others}


def _objects(cluster: OperatedCluster, policy: GpuPolicy) -> dict[str, ObjectChanges]:
    """Kinds of which something changes, or is another's."""
    objects: dict[str, ObjectChanges] = {}
    if cluster.sets is not None:
        objects["DaemonSet"] = set_changes(policy, cluster.sets)
    if cluster.classes is not None:
        objects["RuntimeClass"] = class_changes(policy, cluster.classes)
    return {kind: changes for kind, changes in objects.items() if changes != ObjectChanges()}


def _layouts(cluster: OperatedCluster, policy: GpuPolicy) -> ConfigCopy:
    if cluster.layouts is None:
        return ConfigCopy()
    source = _config_of(cluster, policy.mig_config.name)
    return layouts_copy(policy, source, cluster.layouts, cluster.operator_namespace)


def _counters(cluster: OperatedCluster, policy: GpuPolicy) -> ConfigCopy:
    if cluster.counters is None:
        return ConfigCopy()
    source = _config_of(cluster, policy.counters.name)
    return counters_copy(policy, source, cluster.counters, cluster.operator_namespace)


def _config_of(cluster: OperatedCluster, name: str) -> SeenConfigMap | None:
    return next((config for config in cluster.configs if config.name == name), None)


def _node_json(view: OperatedNodeView) -> JsonObject:
    node = view.readiness
    return {
        "node": node.node,
        "ready": node.waits_for is None,
        "waits_for": node.waits_for.value if node.waits_for else None,
        "why": node.why,
        "remedy": node.remedy,
        "labels": dict(view.labels),
        "parts_off": [part for part in view.off.split(",") if part],
    }


def _node_view(node: OperatedNode, policy: GpuPolicy, now: datetime) -> OperatedNodeView:
    report = node.report
    divided = report is None or any(device.parts for device in report.devices)
    labels = label_changes(node.labels, node.annotations, policy, devices=node.devices, divided=divided)
    return OperatedNodeView(readiness(node, now), labels, parts_off(node.labels, policy))


def operated(cluster: OperatedCluster, now: datetime) -> OperatedView | None:
    """What the policy in force comes to; None where there is none."""
    policy = in_force(cluster.policies)
    if policy is None:
        return None
    nodes = [_node_view(node, policy, now) for node in gpu_nodes(cluster.nodes)]
    configs = config_copy(
        policy, _config_of(cluster, policy.plugin_config.name), cluster.agents, cluster.operator_namespace
    )
    policy = replace(policy, without_effect=(*policy.without_effect, *configs.without_effect))
    layouts, counters = _layouts(cluster, policy), _counters(cluster, policy)
    problem = configs.problem or layouts.problem or counters.problem
    judgement = judged(policy, policy, [node.readiness for node in nodes], problem)
    others = sorted(other.name for other in cluster.policies if other.name != policy.name)
    return OperatedView(
        *(policy, judgement, tuple(others), tuple(nodes), configs, layouts, counters),
        objects=_objects(cluster, policy),
    )
