"""Who owns the fields of what the server itself brings, from a cluster's first moment.

Source: the managers in k8s.io/kubernetes (pkg/controlplane, pkg/registry/rbac, pkg/registry/flowcontrol) and
pkg/controller/clusterroleaggregation (v1.35).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, mapping, text
from tonnage.twin.apiserver.ownership.field_manager import FieldOwnership, put_entries
from tonnage.twin.apiserver.requests import ApiRequest, Options
from tonnage.twin.apiserver.resources import Registry

Bring = Callable[[JsonObject], JsonObject]
"""From an object to the same with its entries."""

_SERVER: Final = "kube-apiserver"
_FAIRNESS: Final = "api-priority-and-fairness-config"
_MANAGERS: Final = {"flowcontrol.apiserver.k8s.io": f"{_FAIRNESS}-producer-v1"}
"""Parts of the server that have names of their own, by group."""
_CONDITION: Final[JsonObject] = {
    key: {} for key in (".", "f:lastTransitionTime", "f:message", "f:reason", "f:status", "f:type")
}


def bringing(ownership: FieldOwnership, registry: Registry) -> Bring:
    """What gives objects of the server their entries."""

    def brought(obj: JsonObject) -> JsonObject:
        group, _, version = text(obj, "apiVersion").rpartition("/")
        served = registry.find_kind(group, version, text(obj, "kind"))
        if served is None:
            return obj
        options = Options(field_manager=_MANAGERS.get(group, _SERVER))
        applied = _applied(obj, ownership.now())
        # Rules that are collected are their collector's; namespaces get their finalizer later.
        others = "rules" if "aggregationRule" in obj else "spec" if obj["kind"] == "Namespace" else ""
        own = {key: value for key, value in obj.items() if key != others}
        entries = ownership.created(ApiRequest("create", served, "", "", options=options), own, None)
        put_entries(obj, [*applied, *entries])
        return obj

    return brought


def _applied(obj: JsonObject, now: str) -> list[JsonValue]:
    """Entries of parts that apply theirs: the rules collected into a role, conditions of flow schemas."""
    entry: JsonObject = {
        "operation": "Apply",
        "apiVersion": text(obj, "apiVersion"),
        "time": now,
        "fieldsType": "FieldsV1",
    }
    if "aggregationRule" in obj:
        fields: JsonObject = {"f:rules": {}}
        return [{"manager": "clusterrole-aggregation-controller", **entry, "fieldsV1": fields}]
    if text(obj, "kind") == "FlowSchema" and at(mapping(obj, "status"), "conditions"):
        fields = {"f:status": {"f:conditions": {'k:{"type":"Dangling"}': _CONDITION}}}
        manager = f"{_FAIRNESS}-consumer-v1"
        return [{"manager": manager, **entry, "fieldsV1": fields, "subresource": "status"}]
    return []
