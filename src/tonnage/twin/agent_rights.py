"""What the agents may: the account, roles and bindings that the Helm chart makes where agents divide GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.wire.kinds import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    ROLE,
    ROLE_BINDING,
    SERVICE_ACCOUNT,
    Kind,
)
from tonnage.wire.objects import Object

_GROUP: Final = "rbac.authorization.k8s.io"
_EVENTS: Final = "default"
"""Events about a Node, which has no namespace, are written there."""

Made = tuple[Kind[Object], str | None, JsonObject]
"""Kind, namespace and body."""


def agent_rights(account: str, namespace: str, config_maps: tuple[str, ...]) -> Iterator[Made]:
    """Everything that an agent's account needs, in the order in which it can be created."""
    yield SERVICE_ACCOUNT, namespace, {"metadata": {"name": account}}
    owner: JsonObject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    yield CLUSTER_ROLE, None, _role(account, _cluster_rules())
    yield CLUSTER_ROLE_BINDING, None, _binding(account, "ClusterRole", owner)
    read = _rule("", ["configmaps"], ["list", "watch"]) | {"resourceNames": list(config_maps)}
    yield ROLE, namespace, _role(account, [read])
    yield ROLE_BINDING, namespace, _binding(account, "Role", owner)
    events = f"{account}-events"
    yield ROLE, _EVENTS, _role(events, [_rule("", ["events"], ["create", "patch"])])
    yield ROLE_BINDING, _EVENTS, _binding(events, "Role", owner)


def _cluster_rules() -> list[JsonValue]:
    return [
        _rule("", ["nodes", "pods"], ["list", "watch"]),
        _rule("", ["nodes/status"], ["patch"]),
        _rule("", ["nodes"], ["patch"]),
        _rule("", ["pods/eviction"], ["create"]),
        _rule("tonnage.dev", ["nodegpustatuses"], ["create"]),
        _rule("tonnage.dev", ["nodegpustatuses/status"], ["patch"]),
    ]


def _rule(group: str, resources: list[str], verbs: list[str]) -> JsonObject:
    return {"apiGroups": [group], "resources": [*resources], "verbs": [*verbs]}


def _role(name: str, rules: list[JsonValue]) -> JsonObject:
    return {"metadata": {"name": name}, "rules": rules}


def _binding(name: str, kind: str, subject: JsonObject) -> JsonObject:
    role: JsonObject = {"apiGroup": _GROUP, "kind": kind, "name": name}
    return {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
