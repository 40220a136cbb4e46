"""HorizontalPodAutoscalers: bounds, what is scaled, by which metrics and how fast.

Source: k8s.io/kubernetes pkg/apis/autoscaling/validation and pkg/registry/autoscaling (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.model.json import JsonObject
from tonnage.model.quantity import parse_quantity
from tonnage.twin.apiserver.access import mapping, mappings, number, text
from tonnage.twin.apiserver.objects import names
from tonnage.twin.apiserver.objects.problems import complaints, forbidden, invalid, required, unsupported
from tonnage.twin.apiserver.objects.validation.fields import Found, nonnegative, one_of_if_set
from tonnage.twin.apiserver.objects.validation.resources import container_resource_name

_SOURCES: Final = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
"""Fields of a metric by its type, in the order in which the server looks for them."""
_TYPES: Final = tuple(sorted(_SOURCES))
_TARGETS: Final = ("Utilization", "Value", "AverageValue")
_LONGEST_PERIOD_S: Final = 1800
_LONGEST_WINDOW_S: Final = 3600
_EITHER: Final = {
    "object": "must set either a target value or averageValue",
    "external": "must set either a target value for metric or a per-pod target",
}
_RAW_OR_SHARE: Final = "must set either a target raw value or a target utilization"
_NOT_BOTH: Final = "may not set both a target raw value and a target utilization"


def autoscaler(obj: JsonObject) -> Found:
    """A new HorizontalPodAutoscaler."""
    yield from _autoscaler(obj, None)


def autoscaler_update(new: JsonObject, old: JsonObject) -> Found:
    """A changed one; what it scales may be of an odd version if it was before."""
    yield from _autoscaler(new, old)


def autoscaler_status(new: JsonObject, _old: JsonObject) -> Found:
    """Its status."""
    for key in ("currentReplicas", "desiredReplicas"):
        yield from nonnegative(mapping(new, "status"), key, "status")


def _autoscaler(obj: JsonObject, old: JsonObject | None) -> Found:
    spec, before = mapping(obj, "spec"), mapping(old, "spec")
    least, most = number(spec, "minReplicas", default=1), number(spec, "maxReplicas")
    lowest = 0 if before.get("minReplicas") == 0 else 1
    if least < lowest:
        yield invalid("spec.minReplicas", least, f"must be greater than or equal to {lowest}")
    if most < 1:
        yield invalid("spec.maxReplicas", most, "must be greater than 0")
    if most < least:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    target, was = mapping(spec, "scaleTargetRef"), mapping(before, "scaleTargetRef")
    yield from _named(target, "spec.scaleTargetRef")
    if old is None or [target.get(key) for key in _VERSIONED] != [was.get(key) for key in _VERSIONED]:
        # The core group has one kind that can be scaled.
        core = text(target, "kind") == "ReplicationController"
        yield from _api_version(target, "spec.scaleTargetRef", core=core)
    described = not any(_is_odd(metric) for metric in mappings(before, "metrics"))
    metrics = mappings(spec, "metrics")
    for index, metric in enumerate(metrics):
        yield from _metric(metric, f"spec.metrics[{index}]", versions=described)
    if least == 0 and not any(text(metric, "type") in ("Object", "External") for metric in metrics):
        words = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield forbidden("spec.metrics", words)
    for key in ("scaleUp", "scaleDown"):
        if isinstance(rules := mapping(spec, "behavior").get(key), dict):
            yield from _rules(rules, f"spec.behavior.{key}")


_VERSIONED: Final = ("apiVersion", "kind")


def _named(ref: JsonObject, path: str) -> Found:
    for key in ("kind", "name"):
        if not (value := text(ref, key)):
            yield required(f"{path}.{key}")
        else:
            yield from complaints(f"{path}.{key}", value, names.path_segment(value))


def _api_version(ref: JsonObject, path: str, *, core: bool) -> Found:
    """A version that can be read; of the core group only where that is allowed."""
    version = text(ref, "apiVersion")
    if version.count("/") > 1:
        yield invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    elif not core and not version.rpartition("/")[0]:
        yield invalid(f"{path}.apiVersion", version, "apiVersion must specify API group")


def _is_odd(metric: JsonObject) -> bool:
    """Whether a metric describes an object by a version that would be refused today."""
    found = mapping(metric, "object", "describedObject")
    return text(metric, "type") == "Object" and any(_api_version(found, "", core=True))


def _metric(metric: JsonObject, path: str, *, versions: bool) -> Found:
    kind = text(metric, "type")
    if not kind:
        yield required(f"{path}.type", "must specify a metric source type")
    if kind not in _SOURCES:
        yield unsupported(f"{path}.type", kind, _TYPES)
    given = [key for key in _SOURCES.values() if isinstance(metric.get(key), dict)]
    if given:
        yield from _source(given[0], mapping(metric, given[0]), f"{path}.{given[0]}", versions=versions)
    wanted = _SOURCES.get(kind, "")
    if not wanted:
        yield unsupported(f"{path}.type", kind, _TYPES)
    elif wanted not in given:
        yield required(f"{path}.{wanted}", "must populate information for the given metric source")
    if len(given) != 1:
        for key in given:
            if key != wanted:
                yield forbidden(f"{path}.{key}", "must populate the given metric source only")


def _source(kind: str, source: JsonObject, path: str, *, versions: bool) -> Found:
    target = mapping(source, "target")
    has = {key for key in ("value", "averageValue", "averageUtilization") if target.get(key) is not None}
    if kind == "object":
        described = mapping(source, "describedObject")
        yield from _named(described, f"{path}.describedObject")
        if versions:
            yield from _api_version(described, f"{path}.describedObject", core=True)
    if kind in ("object", "external", "pods"):
        yield from _identified(text(source, "metric", "name"), f"{path}.metric.name")
    else:
        yield from _resource(kind, source, path)
    yield from _target(target, f"{path}.target")
    yield from _wanted(kind, has, f"{path}.target")


def _wanted(kind: str, has: set[str], path: str) -> Found:
    """What of a target a source of this kind must have, and what not together."""
    average = f"{path}.averageValue"
    match kind:
        case "pods":
            if "averageValue" not in has:
                yield required(average, "must specify a positive target averageValue")
        case "object" | "external":
            if not has & {"value", "averageValue"}:
                yield required(average, _EITHER[kind])
            elif kind == "external" and has >= {"value", "averageValue"}:
                words = "may not set both a target value for metric and a per-pod target"
                yield forbidden(f"{path}.value", words)
        case _ if not has & {"averageUtilization", "averageValue"}:
            yield required(f"{path}.averageUtilization", _RAW_OR_SHARE)
        case _ if has >= {"averageUtilization", "averageValue"}:
            yield forbidden(average, _NOT_BOTH)


def _identified(name: str, path: str) -> Found:
    if not name:
        yield required(path, "must specify a metric name")
    yield from complaints(path, name, names.path_segment(name))


def _resource(kind: str, source: JsonObject, path: str) -> Found:
    """The resource of a pod, or of one of its containers, that is measured."""
    name, container = text(source, "name"), text(source, "container")
    if not name:
        yield required(f"{path}.name", "must specify a resource name")
    elif kind == "containerResource":
        yield from container_resource_name(name, f"{path}.name")
    if kind != "containerResource":
        return
    if not container:
        yield required(f"{path}.container", "must specify a container")
    else:
        yield from complaints(f"{path}.container", container, names.dns_label(container))


def _target(target: JsonObject, path: str) -> Found:
    kind = text(target, "type")
    if not kind:
        yield required(f"{path}.type", "must specify a metric target type")
    if kind not in _TARGETS:
        yield invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue")
    for key in ("value", "averageValue"):
        if target.get(key) is not None and parse_quantity(str(target[key])) <= 0:
            yield invalid(f"{path}.{key}", target[key], "must be positive")
    if number(target, "averageUtilization", default=1) < 1:
        words = "must be greater than 0"
        yield invalid(f"{path}.averageUtilization", target["averageUtilization"], words)


def _rules(rules: JsonObject, path: str) -> Found:
    """How fast it goes in one direction."""
    window = number(rules, "stabilizationWindowSeconds")
    where = f"{path}.stabilizationWindowSeconds"
    if window < 0:
        yield invalid(where, window, "must be greater than or equal to zero")
    if window > _LONGEST_WINDOW_S:
        yield invalid(where, window, f"must be less than or equal to {_LONGEST_WINDOW_S}")
    yield from one_of_if_set(rules, "selectPolicy", ("Disabled", "Max", "Min"), path)
    policies = mappings(rules, "policies")
    if not policies:
        yield required(f"{path}.policies", "must specify at least one Policy")
    for index, policy in enumerate(policies):
        yield from _policy(policy, f"{path}.policies[{index}]")
    tolerance = rules.get("tolerance")
    if tolerance is not None and parse_quantity(str(tolerance)) < 0:
        yield invalid(f"{path}.tolerance", tolerance, "must be greater than or equal to 0")


def _policy(policy: JsonObject, path: str) -> Found:
    if (kind := text(policy, "type")) not in ("Percent", "Pods"):
        yield unsupported(f"{path}.type", kind, ("Percent", "Pods"))
    for key in ("value", "periodSeconds"):
        if (value := number(policy, key)) <= 0:
            yield invalid(f"{path}.{key}", value, "must be greater than zero")
    if (period := number(policy, "periodSeconds")) > _LONGEST_PERIOD_S:
        yield invalid(f"{path}.periodSeconds", period, f"must be less than or equal to {_LONGEST_PERIOD_S}")
