"""Columns of scaling, bounds, roles and webhooks.

Source: pkg/printers/internalversion/printers.go (v1.35).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from tonnage.decide.kubernetes.api.selectors import selector_shown
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, items, mapping, mappings, number, text
from tonnage.twin.apiserver.object_store import Resource
from tonnage.twin.apiserver.printers.columns import (
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Column,
    Printer,
    age,
    age_column,
    created,
    duration,
    name_of,
    named_columns,
    wide,
)

_TARGETS: Final = 2


def _autoscaler(obj: JsonObject, now: datetime) -> list[JsonValue]:
    target, least = mapping(obj, "spec", "scaleTargetRef"), at(obj, "spec", "minReplicas")
    return [
        name_of(obj),
        f"{text(target, 'kind')}/{text(target, 'name')}",
        _targets(mappings(obj, "spec", "metrics"), mappings(obj, "status", "currentMetrics")),
        UNSET if least is None else str(least),
        number(obj, "spec", "maxReplicas"),
        number(obj, "status", "currentReplicas"),
        age(obj, now),
    ]


def _targets(metrics: list[JsonObject], current: list[JsonObject]) -> str:
    """`cpu: <unknown>/80%`, two of them at most."""
    shown = []
    for index, metric in enumerate(metrics):
        key = {"ContainerResource": "containerResource"}.get(
            text(metric, "type"), text(metric, "type").lower()
        )
        measured = mapping(current[index], key, "current") if index < len(current) else {}
        shown.append(_target(metric, key, measured))
    more = len(shown) - _TARGETS
    listed = ", ".join(shown[:_TARGETS])
    return (f"{listed} + {more} more..." if more > 0 else listed) or NONE


def _target(metric: JsonObject, key: str, measured: JsonObject) -> str:
    source = mapping(metric, key)
    target = mapping(source, "target")
    name = f"{text(source, 'name')}: " if key in ("resource", "containerResource") else ""
    if text(target, "type") == "Utilization":
        now = f"{measured['averageUtilization']}%" if "averageUtilization" in measured else UNKNOWN
        return f"{name}{now}/{target.get('averageUtilization')}%"
    average = "averageValue" in target
    value = "averageValue" if average else "value"
    # An average of one object's or of an outer metric is marked; a resource and pods' metrics have no other.
    mark = " (avg)" if average and key in ("object", "external") else ""
    return f"{name}{measured.get(value) or UNKNOWN}/{target.get(value) or UNKNOWN}{mark}"


def _binding(obj: JsonObject, now: datetime) -> list[JsonValue]:
    role, subjects = mapping(obj, "roleRef"), mappings(obj, "subjects")

    def subjects_of(kind: str) -> str:
        return ", ".join(
            f"{text(subject, 'namespace')}/{text(subject, 'name')}"
            if kind == "ServiceAccount"
            else text(subject, "name")
            for subject in subjects
            if text(subject, "kind") == kind
        )

    whose: list[JsonValue] = [subjects_of(kind) for kind in ("User", "Group", "ServiceAccount")]
    return [name_of(obj), f"{text(role, 'kind')}/{text(role, 'name')}", age(obj, now), *whose]


def _counted(key: str) -> Callable[[JsonObject, datetime], list[JsonValue]]:
    return lambda obj, now: [name_of(obj), len(items(obj, key)), age(obj, now)]


def _admission_policy(obj: JsonObject, now: datetime) -> list[JsonValue]:
    kind = mapping(obj, "spec", "paramKind")
    shown = f"{text(kind, 'apiVersion')}/{text(kind, 'kind')}" if kind else UNSET
    return [name_of(obj), len(items(obj, "spec", "validations")), shown, age(obj, now)]


def _policy_binding(obj: JsonObject, now: datetime) -> list[JsonValue]:
    parameter = mapping(obj, "spec", "paramRef")
    shown = UNSET
    if parameter:
        name = text(parameter, "name")
        shown = f"{text(parameter, 'namespace') or '*'}/{name}" if name else shown
        if not name and isinstance(selector := at(parameter, "selector"), dict):
            shown = selector_shown(selector)
    return [name_of(obj), text(obj, "spec", "policyName"), shown, age(obj, now)]


def _signing_request(obj: JsonObject, now: datetime) -> list[JsonValue]:
    spec, seconds = mapping(obj, "spec"), at(obj, "spec", "expirationSeconds")
    types = {text(condition, "type") for condition in mappings(obj, "status", "conditions")}
    state = next((name for name in ("Denied", "Approved") if name in types), "Pending")
    state += ",Failed" if "Failed" in types else ""
    state += ",Issued" if text(obj, "status", "certificate") else ""
    lifetime = duration(seconds) if isinstance(seconds, int) else NONE
    return [
        name_of(obj),
        age(obj, now),
        text(spec, "signerName") or NONE,
        text(spec, "username"),
        lifetime,
        state,
    ]


def _component(obj: JsonObject, _now: datetime) -> list[JsonValue]:
    healthy = next(
        (condition for condition in mappings(obj, "conditions") if text(condition, "type") == "Healthy"), {}
    )
    state = {"True": "Healthy", "False": "Unhealthy"}.get(text(healthy, "status"), "Unknown")
    return [name_of(obj), state, text(healthy, "message"), text(healthy, "error")]


def _scale(obj: JsonObject, now: datetime) -> list[JsonValue]:
    return [name_of(obj), number(obj, "spec", "replicas"), number(obj, "status", "replicas"), age(obj, now)]


_REPLICAS: Final = named_columns("Desired:integer|Available:integer")[1:]
SCALE: Final = Printer((Column("Name"), *_REPLICAS, age_column()), _scale)
"""The subresource `scale` of built-in kinds."""
CUSTOM_SCALE: Final = Printer((NAME, *_REPLICAS, age_column("date")), _scale)
_ROLE_BINDING: Final = Printer(
    (*named_columns("Role|Age"), *wide("Users", "Groups", "ServiceAccounts")), _binding
)
_RBAC: Final = "rbac.authorization.k8s.io"
_ADMISSION: Final = "admissionregistration.k8s.io"
POLICIES: Final[dict[Resource, Printer]] = {
    ("", "limitranges"): Printer(named_columns("Created At:date"), created),
    (_RBAC, "roles"): Printer(named_columns("Created At:date"), created),
    (_RBAC, "clusterroles"): Printer(named_columns("Created At:date"), created),
    (_RBAC, "rolebindings"): _ROLE_BINDING,
    (_RBAC, "clusterrolebindings"): _ROLE_BINDING,
    ("autoscaling", "horizontalpodautoscalers"): Printer(
        named_columns("Reference|Targets|MinPods|MaxPods|Replicas|Age"), _autoscaler
    ),
    (_ADMISSION, "mutatingwebhookconfigurations"): Printer(
        named_columns("Webhooks:integer|Age"), _counted("webhooks")
    ),
    (_ADMISSION, "validatingwebhookconfigurations"): Printer(
        named_columns("Webhooks:integer|Age"), _counted("webhooks")
    ),
    (_ADMISSION, "validatingadmissionpolicies"): Printer(
        named_columns("Validations:integer|ParamKind|Age"), _admission_policy
    ),
    (_ADMISSION, "validatingadmissionpolicybindings"): Printer(
        named_columns("PolicyName|ParamRef|Age"), _policy_binding
    ),
    ("certificates.k8s.io", "certificatesigningrequests"): Printer(
        named_columns("Age|SignerName|Requestor|RequestedDuration|Condition"), _signing_request
    ),
    ("", "componentstatuses"): Printer(named_columns("Status|Message|Error"), _component),
}
