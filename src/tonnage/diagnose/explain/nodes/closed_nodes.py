"""Nodes that the cluster or somebody has closed: who, since when, and what the node's conditions say."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from tonnage.model.kubernetes.cluster import Node, NodeCondition
from tonnage.model.reasons.pod.kubelet import NodeNotReady
from tonnage.model.reasons.pod.scheduling import NodeUnschedulable, TaintNotTolerated
from tonnage.model.reasons.reason import Reason

_PREFIX: Final = "node.kubernetes.io/"
GPUS_HEALTHY: Final = "GPUsHealthy"
"""The condition in which a node's agent says whether all its devices are."""
CORDONED: Final = f"{_PREFIX}unschedulable"
"""The taint of a cordoned node."""
_NOT_READY: Final = frozenset(("not-ready", "unreachable"))
_CONDITIONS: Final = {
    "memory-pressure": "MemoryPressure",
    "disk-pressure": "DiskPressure",
    "pid-pressure": "PIDPressure",
    "network-unavailable": "NetworkUnavailable",
}
_OWNERS: Final = {
    "ToBeDeletedByClusterAutoscaler": "cluster-autoscaler is about to remove the node",
    "DeletionCandidateOfClusterAutoscaler": "cluster-autoscaler may remove the node soon",
    "karpenter.sh/disrupted": "Karpenter is about to replace the node",
    "karpenter.sh/unregistered": "Karpenter has not finished setting the node up",
    "node.cloudprovider.kubernetes.io/uninitialized": "the cloud's controller has not set the node up yet",
    "node.kubernetes.io/out-of-service": "an administrator declared the node out of service",
}
"""Taints that programs set while they are at work, and what that is."""
_WORK: Final = {
    "nvidia.com/gpu-driver-upgrade-state": (("", "upgrade-done"), "the GPU operator is upgrading its driver"),
    "nvidia.com/mig.config.state": (("", "success", "failed"), "the MIG manager is changing its layout"),
}
"""Labels of programs that close a node while they work: the values in which they do not, and what it is."""


def with_node_state(reason: Reason, node: Node) -> Reason:
    """The reason of a cordon or a taint, with what the node itself says about it."""
    if isinstance(reason, NodeUnschedulable):
        return _cordoned(reason, node)
    if not isinstance(reason, TaintNotTolerated):
        return reason
    key = reason.key
    name = key.removeprefix(_PREFIX)
    if key.startswith(_PREFIX) and name in _NOT_READY:
        return _not_ready(reason, node)
    ill = next(
        (condition for condition in node.problem_conditions if condition.type == _CONDITIONS.get(name)), None
    )
    if ill is not None:
        message = f"{reason.message}: {_condition_text(ill)}"
        return replace(
            reason, message=message, remedy=f"relieve {node.name}: kubectl describe node {node.name}"
        )
    if key == CORDONED:
        return replace(reason, remedy=f"remove it with the cordon: kubectl uncordon {node.name}")
    if owner := _OWNERS.get(key):
        remedy = "wait: it is removed with the node, or when that is done"
        return replace(reason, message=f"{reason.message} ({owner})", remedy=remedy, lasting=False)
    return reason


def at_work(node: Node) -> str:
    """Which program is at work on a node by its labels; empty when none is."""
    for key, (idle, work_text) in _WORK.items():
        state = node.labels.get(key, "")
        if state not in idle:
            return f"{work_text} ({key}={state})"
    return ""


def utc(at: datetime) -> str:
    """A moment for people.

    >>> utc(datetime.fromisoformat("2026-01-01T10:30:59+01:00"))
    '2026-01-01 09:30 UTC'
    """
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _cordoned(reason: NodeUnschedulable, node: Node) -> Reason:
    by, at = node.cordon.by, node.cordon.at
    message = f"{reason.message}{f' by {by}' if by else ''}{f' at {utc(at)}' if at else ''}"
    remedy = reason.remedy
    if work := at_work(node):
        message += f"; {work}"
        remedy = f"wait until that is done, which opens {node.name} again"
    elif problems := [condition for condition in node.problem_conditions if condition.type != "Ready"]:
        message += f"; the node says {'; '.join(_condition_text(condition) for condition in problems)}"
    return replace(reason, message=message, work=work, remedy=remedy)


def _not_ready(reason: TaintNotTolerated, node: Node) -> Reason:
    ready = next((condition for condition in node.problem_conditions if condition.type == "Ready"), None)
    if ready is None:
        message = f"the node is tainted {reason.key}, though its condition Ready does not say why"
    else:
        message = f"the node is not ready: {_condition_text(ready)}"
    remedy = f"check kubelet and the network on {node.name}: systemctl status kubelet, tonnage doctor"
    return NodeNotReady(
        subject=reason.subject,
        message=message,
        remedy=remedy,
        source=reason.source,
        hidden=reason.hidden,
        key=reason.key,
        value=reason.value,
        effect=reason.effect,
    )


def _condition_text(ill: NodeCondition) -> str:
    name = "" if ill.type == "Ready" else f"{ill.type}: "
    since = f" (since {utc(ill.since)})" if ill.since else ""
    return f"{name}{ill.reason}{f': {ill.message}' if ill.message else ''}{since}"
