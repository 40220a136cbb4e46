"""Workloads: the kinds of apps, and disruption budgets."""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api.patches.json_patches import same_json
from tonnage.decide.kubernetes.api.problems import forbidden, invalid, required, unsupported
from tonnage.decide.kubernetes.api.validation.fields import (
    IMMUTABLE,
    MISMATCH,
    NEGATIVE,
    FieldErrors,
    amount_of,
    at_most_100_percent,
    int_or_percent,
    is_empty_selector,
    is_readable,
    label_selector,
    nonnegative,
    selects,
    unchanged,
)
from tonnage.decide.kubernetes.api.validation.pods.pod import pod_template
from tonnage.model.json import JsonObject
from tonnage.model.json_access import mapping, number, text

_EVICTIONS: Final = ("AlwaysAllow", "IfHealthyBudget")


def deployment(obj: JsonObject) -> FieldErrors:
    """A Deployment's spec."""
    spec = mapping(obj, "spec")
    yield from nonnegative(spec, "replicas", "spec")
    yield from _selected_template(spec, "deployment")
    strategy = mapping(spec, "strategy")
    rolling = strategy.get("rollingUpdate")
    match text(strategy, "type"):
        case "Recreate":
            if rolling is not None:
                words = "may not be specified when strategy `type` is 'Recreate'"
                yield forbidden("spec.strategy.rollingUpdate", words)
        case "RollingUpdate":
            yield from _rolling_deployment(mapping(strategy, "rollingUpdate"))
        case _:
            shown: JsonObject = {"Type": text(strategy, "type"), "RollingUpdate": _rolling_shown(strategy)}
            yield unsupported("spec.strategy", shown, ("Recreate", "RollingUpdate"))
    yield from nonnegative(spec, "minReadySeconds", "spec")
    yield from nonnegative(spec, "revisionHistoryLimit", "spec")
    yield from nonnegative(spec, "progressDeadlineSeconds", "spec")
    deadline = number(spec, "progressDeadlineSeconds", default=600)
    if deadline <= number(spec, "minReadySeconds"):
        yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _rolling_shown(strategy: JsonObject) -> JsonObject | None:
    """A rolling update as the server prints it: its internal fields have capital names."""
    if strategy.get("rollingUpdate") is None:
        return None
    rolling = mapping(strategy, "rollingUpdate")
    shown: JsonObject = {
        "MaxUnavailable": rolling.get("maxUnavailable"),
        "MaxSurge": rolling.get("maxSurge"),
    }
    return shown


def _rolling_deployment(rolling: JsonObject) -> FieldErrors:
    path = "spec.strategy.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    yield from int_or_percent(unavailable, f"{path}.maxUnavailable")
    yield from int_or_percent(surge, f"{path}.maxSurge")
    if amount_of(unavailable) == 0 and amount_of(surge) == 0:
        yield invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    yield from at_most_100_percent(unavailable, f"{path}.maxUnavailable")


def replica_set(obj: JsonObject) -> FieldErrors:
    """A ReplicaSet's spec."""
    spec = mapping(obj, "spec")
    yield from nonnegative(spec, "replicas", "spec")
    yield from nonnegative(spec, "minReadySeconds", "spec")
    # The server says deployment here, too.
    yield from _selected_template(spec, "deployment")


def _selected_template(spec: JsonObject, kind: str) -> FieldErrors:
    """A selector that is there and not empty, and a template that it matches."""
    selector, template = mapping(spec, "selector"), mapping(spec, "template")
    yield from strict_selector(spec, kind)
    if not is_readable(selector):
        yield invalid("spec.selector", selector, "invalid label selector")
        return
    yield from matched(spec)
    yield from pod_template(template, "spec.template")
    yield from always_restarts(template, "ReplicaSet")


def strict_selector(spec: JsonObject, kind: str) -> FieldErrors:
    """A selector that is there, good and not empty."""
    selector = mapping(spec, "selector")
    if spec.get("selector") is None:
        yield required("spec.selector")
        return
    yield from label_selector(selector, "spec.selector")
    if is_empty_selector(selector):
        yield invalid("spec.selector", selector, f"empty selector is invalid for {kind}")


def matched(spec: JsonObject) -> FieldErrors:
    """A selector that matches the template; one that is missing matches nothing, an empty one everything."""
    selector, template = mapping(spec, "selector"), mapping(spec, "template")
    if spec.get("selector") is None or not selects(selector, template):
        yield invalid("spec.template.metadata.labels", mapping(template, "metadata").get("labels"), MISMATCH)


def always_restarts(template: JsonObject, kind: str) -> FieldErrors:
    """Pods that run until their workload takes them away."""
    policy = text(template, "spec", "restartPolicy")
    if policy != "Always":
        yield unsupported("spec.template.spec.restartPolicy", policy, ("Always",))
    if mapping(template, "spec").get("activeDeadlineSeconds") is not None:
        words = f"activeDeadlineSeconds in {kind} is not Supported"
        yield forbidden("spec.template.spec.activeDeadlineSeconds", words)


def replication_controller(obj: JsonObject) -> FieldErrors:
    """A ReplicationController's spec; its selector is a map of labels whose form nobody looks at."""
    spec = mapping(obj, "spec")
    yield from nonnegative(spec, "minReadySeconds", "spec")
    selector = mapping(spec, "selector")
    if not selector:
        yield required("spec.selector")
    yield from nonnegative(spec, "replicas", "spec")
    if not isinstance(spec.get("template"), dict):
        yield required("spec.template")
        return
    template = mapping(spec, "template")
    labels = mapping(template, "metadata").get("labels")
    if not selector.items() <= mapping(template, "metadata", "labels").items():
        yield invalid("spec.template.metadata.labels", labels, MISMATCH)
    yield from pod_template(template, "spec.template")
    yield from always_restarts(template, "ReplicationController")


def daemon_set(obj: JsonObject) -> FieldErrors:
    """A DaemonSet's spec."""
    spec = mapping(obj, "spec")
    selector, template = mapping(spec, "selector"), mapping(spec, "template")
    yield from label_selector(selector, "spec.selector")
    if is_readable(selector):
        yield from matched(spec)
    if spec.get("selector") is not None and is_empty_selector(selector):
        yield invalid("spec.selector", selector, "empty selector is invalid for daemonset")
    yield from pod_template(template, "spec.template")
    yield from always_restarts(template, "DaemonSet")
    yield from nonnegative(spec, "minReadySeconds", "spec")
    strategy = mapping(spec, "updateStrategy")
    match text(strategy, "type"):
        case "OnDelete":
            pass
        case "RollingUpdate":
            yield from _rolling_daemon_set(mapping(strategy, "rollingUpdate"))
        case other:
            shown: JsonObject = {"Type": other, "RollingUpdate": _rolling_shown(strategy)}
            yield unsupported("spec.updateStrategy", shown, ("RollingUpdate", "OnDelete"))
    yield from nonnegative(spec, "revisionHistoryLimit", "spec")


def _rolling_daemon_set(rolling: JsonObject) -> FieldErrors:
    path = "spec.updateStrategy.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    for check in (int_or_percent, at_most_100_percent):
        yield from check(unavailable, f"{path}.maxUnavailable")
        yield from check(surge, f"{path}.maxSurge")
    if amount_of(unavailable) and amount_of(surge):
        yield invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
    if not amount_of(unavailable) and not amount_of(surge):
        yield required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def daemon_set_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A changed DaemonSet, whose selector is looked at first."""
    yield from selector_kept(new, old)
    yield from daemon_set(new)


def selector_kept(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A workload's selector, which never changes."""
    yield from unchanged(
        mapping(new, "spec").get("selector"), mapping(old, "spec").get("selector"), "spec.selector"
    )


def controller_revision(obj: JsonObject) -> FieldErrors:
    """A new ControllerRevision: a number and an object."""
    yield from _revision(obj)
    if obj.get("data") is None:
        yield required("data", "data is mandatory")
    elif not isinstance(obj["data"], dict):
        yield required("data", "data must be a valid JSON object")


def controller_revision_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A changed one, whose data stay."""
    yield from _revision(new)
    if not same_json(new.get("data"), old.get("data")):
        yield invalid("data", new.get("data"), IMMUTABLE)


def _revision(obj: JsonObject) -> FieldErrors:
    if (value := number(obj, "revision")) < 0:
        yield invalid("revision", value, NEGATIVE)


def template_of_pods(obj: JsonObject) -> FieldErrors:
    """A PodTemplate."""
    yield from pod_template(mapping(obj, "template"), "template")


def disruption_budget(obj: JsonObject) -> FieldErrors:
    """A PodDisruptionBudget's spec."""
    spec = mapping(obj, "spec")
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        keys = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
        shown: JsonObject = {key[0].upper() + key[1:]: spec.get(key) for key in keys}
        yield invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set")
    for key in ("minAvailable", "maxUnavailable"):
        yield from int_or_percent(spec.get(key), f"spec.{key}")
        yield from at_most_100_percent(spec.get(key), f"spec.{key}")
    yield from label_selector(mapping(spec, "selector"), "spec.selector")
    policy = text(spec, "unhealthyPodEvictionPolicy")
    if policy and policy not in _EVICTIONS:
        yield unsupported("spec.unhealthyPodEvictionPolicy", policy, _EVICTIONS)
