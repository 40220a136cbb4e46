"""The status of a GPUCluster, NVIDIA's policy for claims: which nodes' agents serve them.

Source: NVIDIA/gpu-operator, controllers/gpucluster_controller.go (v26.7).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from tonnage.decide.cluster.operate.node_readiness import NodePart, readiness
from tonnage.decide.cluster.operate.policy_status import of_fields, stamped
from tonnage.model.gpu_policy import GpuClusterPolicy, OperatedNode
from tonnage.model.json import JsonObject

_MOST_NODES: Final = 5
_NO_CLAIMS: Final = (
    "its agent serves no claims; set claims.enabled in Tonnage's chart, and add the section claims to"
    " configurations of your own"
)


def gpu_cluster_status(
    cluster: GpuClusterPolicy,
    nodes: Sequence[OperatedNode],
    policy: str,
    namespace: str,
    now: datetime,
) -> JsonObject | None:
    """The status to write, as a merge patch; None where it stands. `policy`: the ClusterPolicy in force."""
    ready, reason, message = _judged(nodes, policy, now)
    conditions = [
        _condition("Ready", ready, reason, message),
        _condition("Error", not ready, reason if not ready else "Ready", "" if ready else message),
        of_fields(cluster.without_effect),
    ]
    status: JsonObject = {
        "state": "ready" if ready else "notReady",
        "namespace": namespace,
        "conditions": stamped(cluster.status, conditions, cluster.generation, now),
    }
    return None if all(cluster.status.get(key) == value for key, value in status.items()) else status


def _judged(nodes: Sequence[OperatedNode], policy: str, now: datetime) -> tuple[bool, str, str]:
    if policy:
        message = (
            f"ClusterPolicy {policy} is there, and a cluster has one of the two; agents follow the"
            f" ClusterPolicy. Delete it, or this GPUCluster"
        )
        return False, "ReconcileFailed", message
    if not nodes:
        return True, "NoGPUNodes", "no node has a GPU yet; the controller notices nodes that join"
    waiting = [f"{node.name}: {why}" for node in nodes if (why := _why_without(node, now))]
    if not waiting:
        return True, "Ready", f"the agents of all {len(nodes)} GPU nodes serve claims"
    more = len(waiting) - _MOST_NODES
    rest = [f"and {more} more"] if more > 0 else []
    head = f"{len(waiting)} of {len(nodes)} GPU nodes serve no claims"
    return False, "OperandNotReady", "\n".join([head, *waiting[:_MOST_NODES], *rest])


def _why_without(node: OperatedNode, now: datetime) -> str:
    """Why a node serves no claims; empty: it does."""
    waits = readiness(node, now, validated=False)
    if waits.waits_for in (NodePart.AGENT, NodePart.DRIVER, NodePart.CONFIGURATION):
        return waits.why
    claims = node.report.claims if node.report is not None else None
    return _NO_CLAIMS if claims is None else claims.why


def _condition(kind: str, holds: bool, reason: str, message: str) -> JsonObject:
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}
