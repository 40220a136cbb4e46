"""What a bug report about the operator needs of the cluster, kind by kind: an allow-list as of a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tonnage.adapters.snapshots.field_rules import FieldMark, ObjectName, Rule
from tonnage.adapters.snapshots.fields import CONDITION, NAMESPACE
from tonnage.adapters.snapshots.kinds import CAPTURED, CapturedKind
from tonnage.model.catalog.nvidia_kinds import nvidia_definition

_OF_CLUSTER: Final = ("Node", "NodeGPUStatus", "RuntimeClass", "PriorityClass")
_OF_NAMESPACE: Final = (
    *("Deployment", "ReplicaSet", "DaemonSet", "Job", "Pod", "Service", "ServiceAccount"),
    *("ResourceQuota", "LimitRange", "PodDisruptionBudget"),
)
_BY_FIELD: Final[Mapping[str, Rule]] = {
    "env": {"name": FieldMark.VARIABLE},
    "labels": FieldMark.LABELS,
    "nodeSelector": FieldMark.LABELS,
    "tolerations": FieldMark.KEYED,
    "limits": FieldMark.AMOUNTS,
    "requests": FieldMark.AMOUNTS,
    "repository": FieldMark.IMAGE,
    "image": FieldMark.IMAGE,
    "version": FieldMark.SCALAR,
    "maxUnavailable": FieldMark.SCALAR,
    "name": ObjectName("configmap"),
    "config": ObjectName("configmap"),
    "configMapName": ObjectName("configmap"),
    "secretName": ObjectName("secret"),
    "secretEnv": ObjectName("secret"),
    "imagePullSecrets": ObjectName("secret"),
    "priorityClassName": ObjectName("priorityclass"),
    "runtimeClass": ObjectName("runtimeclass"),
}
"""Fields of a policy by their names, wherever they stand."""
_LEFT_OUT: Final = frozenset({"args", "annotations"})
_EVENT: Final = CapturedKind(
    "v1",
    "Event",
    "events",
    {
        **dict.fromkeys(("type", "reason", "count", "eventTime"), FieldMark.SCALAR),
        **dict.fromkeys(("firstTimestamp", "lastTimestamp", "reportingComponent"), FieldMark.SCALAR),
        "message": FieldMark.TEXT,
        "involvedObject": FieldMark.OWNER,
    },
)


def _rule(schema: Mapping[str, Any], name: str) -> Rule | None:
    """What is kept of a field of a policy; None: nothing."""
    fields = schema.get("properties")
    if name in _LEFT_OUT:
        return None
    if name in _BY_FIELD and not (fields and isinstance(_BY_FIELD[name], ObjectName)):
        return _BY_FIELD[name]
    if fields:
        rules = {key: _rule(inner, key) for key, inner in fields.items()}
        return {key: rule for key, rule in rules.items() if rule is not None}
    if "enum" in schema or schema.get("type") in ("boolean", "integer"):
        return FieldMark.SCALAR
    return FieldMark.TEXT if schema.get("type") == "string" else None


def _policy_kind(plural: str) -> CapturedKind:
    spec: Any = nvidia_definition(plural)["spec"]
    [version] = spec["versions"]
    rules = _rule(version["schema"]["openAPIV3Schema"]["properties"]["spec"], "")
    assert rules is not None
    return CapturedKind(
        f"{spec['group']}/{version['name']}",
        spec["names"]["kind"],
        plural,
        {
            "spec": rules,
            "status": {"state": FieldMark.SCALAR, "namespace": NAMESPACE, "conditions": CONDITION},
        },
        namespaced=False,
    )


def cluster_kinds() -> tuple[CapturedKind, ...]:
    """Policies, and what there is one of in a cluster."""
    own = tuple(kind for kind in CAPTURED if kind.kind in _OF_CLUSTER)
    return (*map(_policy_kind, ("clusterpolicies", "nvidiadrivers", "gpuclusters")), *own)


def namespace_kinds() -> tuple[CapturedKind, ...]:
    """What is read of a namespace."""
    return (*(kind for kind in CAPTURED if kind.kind in _OF_NAMESPACE), _EVENT)
