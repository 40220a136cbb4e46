"""The status of every ClusterPolicy: which one counts, its state and its conditions.

Source: NVIDIA/gpu-operator, controllers/clusterpolicy_controller.go and internal/conditions (v26.7).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

from tonnage.decide.cluster.operate.node_readiness import NodePart, NodeReadiness
from tonnage.model.gpu_policy import FieldWithoutEffect, GpuPolicy, PolicyState
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mappings, text
from tonnage.model.kubernetes.timestamps import timestamp

WITHOUT_EFFECT: Final = "tonnage.dev/FieldsWithoutEffect"
_READY: Final = "Ready"
_ERROR: Final = "Error"
_MOST_NODES: Final = 5
_LONGEST: Final = 32_768
_REASON_BY_PART: Final = {
    NodePart.AGENT: "OperandNotReady",
    NodePart.DRIVER: "DriverNotReady",
    NodePart.CONFIGURATION: "ReconcileFailed",
    NodePart.PLUGIN: "OperandNotReady",
    NodePart.WORKLOAD: "OperandNotReady",
}
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class PolicyJudgement:
    """State and the one sentence about it; `reason` is CamelCase, empty when all is well."""

    state: PolicyState
    reason: str = ""
    message: str = ""


def in_force(policies: Iterable[GpuPolicy]) -> GpuPolicy | None:
    """The policy that counts: the oldest, by name where two are equally old."""
    return min(policies, key=lambda policy: (policy.created or _NEVER, policy.name), default=None)


def judged(
    policy: GpuPolicy,
    winner: GpuPolicy,
    nodes: Sequence[NodeReadiness],
    config_problem: str = "",
    pods_problem: str = "",
) -> PolicyJudgement:
    """What is to be said of a policy.

    `config_problem` is why its ConfigMap cannot be used, `pods_problem` which pods of no node's
    part are not ready.
    """
    if policy.name != winner.name:
        message = f"ClusterPolicy {winner.name} is older and in force; delete one of the two"
        return PolicyJudgement(PolicyState.IGNORED, "ReconcileFailed", message)
    if config_problem:
        return PolicyJudgement(PolicyState.NOT_READY, "PrerequisiteNotMet", config_problem)
    waiting = [node for node in nodes if node.waits_for is not None]
    if waiting:
        first = min(waiting, key=lambda node: list(NodePart).index(node.waits_for or NodePart.PLUGIN))
        assert first.waits_for is not None
        return PolicyJudgement(
            PolicyState.NOT_READY, _REASON_BY_PART[first.waits_for], _of_nodes(waiting, len(nodes))
        )
    if pods_problem:
        return PolicyJudgement(PolicyState.NOT_READY, "OperandNotReady", pods_problem)
    if not nodes:
        message = "no node has a GPU yet; the controller notices nodes that join"
        return PolicyJudgement(PolicyState.READY, "NoGPUNodes", message)
    return PolicyJudgement(PolicyState.READY, "", f"all {len(nodes)} GPU nodes are ready")


def _of_nodes(waiting: Sequence[NodeReadiness], total: int) -> str:
    shown = [f"{node}; {node.remedy}" if node.remedy else str(node) for node in waiting[:_MOST_NODES]]
    more = len(waiting) - len(shown)
    rest = [f"and {more} more"] if more else []
    return f"{len(waiting)} of {total} GPU nodes are not ready\n" + "\n".join([*shown, *rest])


def status_of(
    policy: GpuPolicy,
    judgement: PolicyJudgement,
    namespace: str,
    now: datetime,
    more: Sequence[JsonObject] = (),
) -> JsonObject | None:
    """The status to write, as a merge patch, with `more` conditions; None where it stands already."""
    ready = judgement.state is PolicyState.READY
    message = judgement.message[:_LONGEST]
    reason = judgement.reason or "Reconciled"
    conditions = [
        _condition(_READY, ready, "Ready" if ready and not judgement.reason else reason, message),
        _condition(_ERROR, not ready, "Ready" if ready else reason, "" if ready else message),
        of_fields(policy.without_effect),
        *more,
    ]
    status: JsonObject = {
        "state": judgement.state.value,
        "namespace": namespace,
        "conditions": stamped(policy.status, conditions, policy.generation, now),
    }
    return None if all(policy.status.get(key) == value for key, value in status.items()) else status


def stamped(
    status: JsonObject, conditions: Sequence[JsonObject], generation: int, now: datetime
) -> list[JsonValue]:
    """Conditions beside those of others, each with the time at which its status last changed."""
    before = {text(old, "type"): old for old in mappings(status, "conditions")}
    for condition in conditions:
        old = before.get(text(condition, "type"), {})
        same = old.get("status") == condition["status"]
        changed = old.get("lastTransitionTime") if same else None
        condition["lastTransitionTime"] = changed or timestamp(now)
        condition["observedGeneration"] = generation
    ours = {text(condition, "type") for condition in conditions}
    others = [old for kind, old in before.items() if kind not in ours]
    return [*others, *conditions]


def _condition(kind: str, holds: bool, reason: str, message: str) -> JsonObject:
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}


def of_fields(fields: Sequence[FieldWithoutEffect]) -> JsonObject:
    """A line for each reason, with the fields that it is for."""
    by_why = sorted(fields, key=lambda field: (field.path.partition(".")[0], field.why, field.path))
    lines = [
        f"{', '.join(field.path for field in group)}: {why}"
        for why, group in groupby(by_why, key=lambda field: field.why)
    ]
    message = "\n".join(lines)
    if len(message) > _LONGEST:
        message = f"{message[: _LONGEST - 1]}…"
    return _condition(WITHOUT_EFFECT, bool(lines), "FieldsWithoutEffect" if lines else "None", message)
