"""Columns of the built-in kinds.

Source: pkg/printers/internalversion/printers.go (v1.35).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, flag, items, mapping, mappings, number, text, texts
from tonnage.twin.apiserver.object_store import Resource
from tonnage.twin.apiserver.printers.columns import (
    NAME,
    NONE,
    Cells,
    Column,
    Printer,
    age,
    age_column,
    created,
    labels_text,
    name_of,
    named_columns,
    since,
    wide,
)
from tonnage.twin.apiserver.printers.network import NETWORK
from tonnage.twin.apiserver.printers.pods import NODES, PODS
from tonnage.twin.apiserver.printers.policies import POLICIES
from tonnage.twin.apiserver.printers.volumes import VOLUMES
from tonnage.twin.apiserver.printers.workloads import WORKLOADS
from tonnage.twin.apiserver.versions.events import RENAMED, stored_event


def _printer(columns: str, cells: Cells, *more: Column) -> Printer:
    """A printer with a name, the columns named, and further ones."""
    return Printer((NAME, *(Column(name) for name in columns.split("|") if name), *more), cells)


def _config_map(obj: JsonObject, now: datetime) -> list[JsonValue]:
    return [name_of(obj), len(mapping(obj, "data")) + len(mapping(obj, "binaryData")), age(obj, now)]


def _secret(obj: JsonObject, now: datetime) -> list[JsonValue]:
    return [name_of(obj), text(obj, "type"), len(mapping(obj, "data")), age(obj, now)]


def _namespace(obj: JsonObject, now: datetime) -> list[JsonValue]:
    return [name_of(obj), text(obj, "status", "phase"), age(obj, now)]


def _priority_class(obj: JsonObject, now: datetime) -> list[JsonValue]:
    return [
        name_of(obj),
        number(obj, "value"),
        flag(obj, "globalDefault"),
        age(obj, now),
        text(obj, "preemptionPolicy"),
    ]


def _lease(obj: JsonObject, now: datetime) -> list[JsonValue]:
    return [name_of(obj), text(obj, "spec", "holderIdentity"), age(obj, now)]


def _event(obj: JsonObject, now: datetime) -> list[JsonValue]:
    if text(obj, "apiVersion") == RENAMED:
        obj = stored_event(obj)
    involved, source = mapping(obj, "involvedObject"), mapping(obj, "source")
    first = text(obj, "firstTimestamp") or text(obj, "eventTime")
    last = text(obj, "series", "lastObservedTime") or text(obj, "lastTimestamp") or first
    count = number(obj, "series", "count") or number(obj, "count") or 1
    component = text(source, "component") or text(obj, "reportingComponent")
    host = text(source, "host") or text(obj, "reportingInstance")
    kind = text(involved, "kind").lower()
    subject = f"{kind}/{text(involved, 'name')}" if text(involved, "name") else kind
    return [
        since(last, now),
        text(obj, "type"),
        text(obj, "reason"),
        subject,
        text(involved, "fieldPath"),
        f"{component}, {host}" if host else component,
        text(obj, "message").strip(),
        since(first, now),
        count,
        name_of(obj),
    ]


_EVENT_COLUMNS: Final = (
    Column("Last Seen"),
    Column("Type"),
    Column("Reason"),
    Column("Object"),
    *wide("Subobject", "Source"),
    Column("Message"),
    *wide("First Seen"),
    Column("Count", priority=1),
    Column("Name", format="name", priority=1),
)


def _service(obj: JsonObject, now: datetime) -> list[JsonValue]:
    spec = mapping(obj, "spec")
    ports = []
    for port in mappings(spec, "ports"):
        node_port = number(port, "nodePort")
        shown = f"{number(port, 'port')}:{node_port}" if node_port else f"{number(port, 'port')}"
        ports.append(f"{shown}/{text(port, 'protocol')}")
    return [
        name_of(obj),
        text(spec, "type"),
        (texts(spec, "clusterIPs") or [text(spec, "clusterIP") or NONE])[0],
        _external_ip(obj, spec),
        ",".join(ports) or NONE,
        age(obj, now),
        labels_text(mapping(spec, "selector")),
    ]


def _external_ip(obj: JsonObject, spec: JsonObject) -> str:
    own = ",".join(texts(spec, "externalIPs"))
    match text(spec, "type"):
        case "ExternalName":
            return text(spec, "externalName")
        case "LoadBalancer":
            addresses = [
                text(ingress, "ip") or text(ingress, "hostname")
                for ingress in mappings(obj, "status", "loadBalancer", "ingress")
            ]
            return ",".join([*addresses, *([own] if own else [])]) or "<pending>"
        case _:
            return own or NONE


def _quota(obj: JsonObject, now: datetime) -> list[JsonValue]:
    requests: list[str] = []
    limits: list[str] = []
    used, hard = mapping(obj, "status", "used"), mapping(obj, "status", "hard")
    for resource in sorted(hard):
        shown = f"{resource}: {used.get(resource, '0')}/{hard[resource]}"
        (limits if resource.startswith("limits.") else requests).append(shown)
    return [name_of(obj), ", ".join(requests), ", ".join(limits), age(obj, now)]


def _disruption_budget(obj: JsonObject, now: datetime) -> list[JsonValue]:
    least, most = at(obj, "spec", "minAvailable"), at(obj, "spec", "maxUnavailable")
    return [
        name_of(obj),
        "N/A" if least is None else str(least),
        "N/A" if most is None else str(most),
        number(obj, "status", "disruptionsAllowed"),
        age(obj, now),
    ]


def _resource_slice(obj: JsonObject, now: datetime) -> list[JsonValue]:
    spec = mapping(obj, "spec")
    return [
        name_of(obj),
        text(spec, "nodeName"),
        text(spec, "driver"),
        text(spec, "pool", "name"),
        age(obj, now),
    ]


def _claim(obj: JsonObject, now: datetime) -> list[JsonValue]:
    states = []
    if text(obj, "metadata", "deletionTimestamp"):
        states.append("deleted")
    allocated, reserved = at(obj, "status", "allocation") is not None, items(obj, "status", "reservedFor")
    if not allocated:
        states.append("pending")
    else:
        states += ["allocated", *(["reserved"] if reserved else [])]
    return [name_of(obj), ",".join(states), age(obj, now)]


def _runtime_class(obj: JsonObject, now: datetime) -> list[JsonValue]:
    return [name_of(obj), text(obj, "handler"), age(obj, now)]


def _revision(obj: JsonObject, now: datetime) -> list[JsonValue]:
    owner = next(
        (
            reference
            for reference in mappings(obj, "metadata", "ownerReferences")
            if flag(reference, "controller")
        ),
        None,
    )
    group = text(owner, "apiVersion").partition("/")[0] if owner else ""
    kind = f"{text(owner, 'kind').lower()}.{group}/{text(owner, 'name')}" if owner else NONE
    return [name_of(obj), kind, number(obj, "revision"), age(obj, now)]


_INTEGER: Final = "integer"
PRINTERS: Final[Mapping[Resource, Printer]] = {
    **PODS,
    **NODES,
    **WORKLOADS,
    **VOLUMES,
    **NETWORK,
    **POLICIES,
    ("", "configmaps"): _printer("Data|Age", _config_map),
    ("", "secrets"): _printer("Type|Data|Age", _secret),
    ("", "namespaces"): _printer("Status|Age", _namespace),
    ("", "events"): Printer(_EVENT_COLUMNS, _event),
    ("", "services"): _printer("Type|Cluster-IP|External-IP|Port(s)|Age", _service, *wide("Selector")),
    ("", "resourcequotas"): _printer("Request|Limit|Age", _quota),
    ("apiextensions.k8s.io", "customresourcedefinitions"): Printer(named_columns("Created At:date"), created),
    ("apps", "controllerrevisions"): _printer("Controller|Revision|Age", _revision),
    ("coordination.k8s.io", "leases"): _printer("Holder|Age", _lease),
    ("node.k8s.io", "runtimeclasses"): _printer("Handler|Age", _runtime_class),
    ("policy", "poddisruptionbudgets"): Printer(
        named_columns("Min Available|Max Unavailable|Allowed Disruptions:integer|Age"), _disruption_budget
    ),
    ("resource.k8s.io", "resourceclaims"): _printer("State|Age", _claim),
    ("resource.k8s.io", "resourceslices"): _printer("Node|Driver|Pool|Age", _resource_slice),
    ("scheduling.k8s.io", "priorityclasses"): Printer(
        (
            NAME,
            Column("Value", _INTEGER),
            Column("Global-Default", "boolean"),
            age_column(),
            Column("PreemptionPolicy"),
        ),
        _priority_class,
    ),
}
