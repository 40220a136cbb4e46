"""The rights of `tonnage operator`: few of the whole cluster, and the rest in two namespaces.

Its commands write, too, so no role of other commands grants any of this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.diagnose.access import VERBS, ResourceRight, Subjects, role_lines, role_objects
from tonnage.model.json import JsonObject
from tonnage.model.names import NVIDIA

_LIST: Final = ("list",)
_WRITE: Final = ("list", "patch")
_APPS: Final = "apps"
_TONNAGE: Final = "tonnage.dev"
_POLICIES: Final = ("clusterpolicies", "nvidiadrivers")
_WHERE: Final = "# Of the namespaces of NVIDIA's operator and of the agents: bind it there by RoleBindings."
_WHERE_OPERATOR: Final = "# Of the namespace of NVIDIA's operator: bind it there by a RoleBinding."


@dataclass(frozen=True, slots=True)
class OperatorAccess:
    """What a command asks of the whole cluster, and of namespaces. `agents`: of that of the agents, too."""

    role: str
    cluster: tuple[ResourceRight, ...]
    namespaced: tuple[ResourceRight, ...]
    agents: bool = True


def _of_cluster(group: str, names: Sequence[str], verbs: tuple[str, ...] = _LIST) -> list[ResourceRight]:
    return [ResourceRight(group, name, namespaced=False, verbs=verbs) for name in names]


def _within(group: str, names: Sequence[str], verbs: tuple[str, ...] = _LIST) -> list[ResourceRight]:
    return [ResourceRight(group, name, namespaced=True, verbs=verbs) for name in names]


_HANDOVER: Final = OperatorAccess(
    "tonnage-adopt",
    (
        *_of_cluster("", ["nodes"], _WRITE),
        *_of_cluster("", ["namespaces"]),
        *_of_cluster(_TONNAGE, ["nodegpustatuses"]),
    ),
    (*_within("", ["pods"]), *_within(_APPS, ["daemonsets"]), *_within(_APPS, ["deployments"], _WRITE)),
)
_VIEW: Final = OperatorAccess(
    "tonnage-operator-view",
    (
        *_of_cluster("", ["namespaces", "nodes"]),
        *_of_cluster("node.k8s.io", ["runtimeclasses"]),
        *_of_cluster(NVIDIA, _POLICIES),
        *_of_cluster(_TONNAGE, ["nodegpustatuses"]),
    ),
    (*_within("", ["configmaps", "pods"]), *_within(_APPS, ["daemonsets", "deployments"])),
)
_ROLLBACK: Final = OperatorAccess(
    "tonnage-operator-rollback",
    (*_of_cluster(NVIDIA, _POLICIES, _WRITE), *_of_cluster("", ["namespaces"])),
    *(tuple(_within(_APPS, ["daemonsets"])), False),
)
_BUNDLE: Final = OperatorAccess(
    "tonnage-operator-bundle",
    (
        *_of_cluster("", ["namespaces", "nodes"]),
        *_of_cluster("node.k8s.io", ["runtimeclasses"]),
        *_of_cluster(NVIDIA, [*_POLICIES, "gpuclusters"]),
        *_of_cluster("scheduling.k8s.io", ["priorityclasses"]),
        *_of_cluster(_TONNAGE, ["nodegpustatuses"]),
    ),
    (
        *_within("", ["events", "limitranges", "pods", "resourcequotas", "serviceaccounts", "services"]),
        *_within("", ["pods/log"], VERBS[:1]),
        *_within(_APPS, ["daemonsets", "deployments", "replicasets"]),
        *_within("batch", ["jobs"]),
        *_within("policy", ["poddisruptionbudgets"]),
    ),
)
OPERATOR_ACCESS: Final[Mapping[str, OperatorAccess]] = {
    "operator adopt": _HANDOVER,
    "operator release": _HANDOVER,
    "operator status": _VIEW,
    "operator plan": _VIEW,
    "operator rollback": _ROLLBACK,
    "operator bundle": _BUNDLE,
}
"""By command."""


def operator_roles(access: OperatorAccess, subjects: Subjects, namespaces: Sequence[str]) -> list[JsonObject]:
    """Two ClusterRoles; with subjects the first bound in the cluster, and the second in the namespaces."""
    whole = role_objects(access.role, access.cluster, subjects)
    name = f"{access.role}-namespaces"
    within, *binding = role_objects(name, access.namespaced, subjects)
    bindings: list[JsonObject] = [
        {**bound, "kind": "RoleBinding", "metadata": {"name": name, "namespace": namespace}}
        for bound in binding
        for namespace in namespaces
    ]
    return [*whole, within, *bindings]


def operator_role_lines(access: OperatorAccess, role: JsonObject) -> list[str]:
    """A ClusterRole as YAML that a person can paste; a comment says where to bind that for namespaces."""
    lines = role_lines(role)
    if role["metadata"] != {"name": f"{access.role}-namespaces"}:
        return lines
    return [_WHERE if access.agents else _WHERE_OPERATOR, *lines]
