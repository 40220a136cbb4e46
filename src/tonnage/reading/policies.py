"""Policies and selectors as model values: quotas, limit ranges, classes, webhooks. Nothing here raises."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tonnage.model.kubernetes.cluster import DisruptionBudget, Pod, PriorityClass, WorkloadSelector
from tonnage.model.kubernetes.policies import (
    LimitItem,
    LimitRange,
    Quota,
    QuotaScope,
    RuntimeClass,
    Webhook,
    WebhookRule,
)
from tonnage.model.kubernetes.quantity import canonical_quantity
from tonnage.model.kubernetes.selectors import LabelSelector, Requirement, Toleration
from tonnage.reading.object_parts import ReadingProblems, amounts, label_selector, selector_of
from tonnage.wire import objects as w
from tonnage.wire import policies as p

_CONTAINER = "Container"


def priority_class_from(cls: w.PriorityClass) -> PriorityClass:
    """A priority class."""
    return PriorityClass(cls.metadata.name, cls.value, cls.global_default, cls.preemption_policy != "Never")


def with_priority(pod: Pod, classes: Iterable[PriorityClass]) -> Pod:
    """The pod with the priority of its class, or of the default class, where admission has set none."""
    if pod.priority:
        return pod
    for cls in classes:
        if cls.name == pod.priority_class or (cls.default and not pod.priority_class):
            return replace(pod, priority=cls.value, may_preempt=pod.may_preempt and cls.may_preempt)
    return pod


def budget_from(budget: w.PodDisruptionBudget) -> DisruptionBudget:
    """A disruption budget with what it allows at the moment."""
    allowed, disrupted = budget.status.get("disruptionsAllowed"), budget.status.get("disruptedPods")
    return DisruptionBudget(
        budget.metadata.namespace or "default",
        budget.metadata.name,
        selector_of(budget.spec.get("selector")),
        allowed if isinstance(allowed, int) else 0,
        frozenset(disrupted if isinstance(disrupted, dict) else ()),
    )


def workload_from(workload: w.Workload | p.PodMaker, kind: str) -> WorkloadSelector:
    """Which pods a workload selects."""
    spec = workload.spec
    selector = selector_of(spec.get("selector")) if isinstance(spec, dict) else label_selector(spec.selector)
    selector = selector or LabelSelector()
    return WorkloadSelector(kind, workload.metadata.namespace or "default", workload.metadata.name, selector)


def by_labels(obj: w.Service | w.ReplicationController, kind: str) -> WorkloadSelector:
    """Which pods an object selects by a plain map; an empty one selects none."""
    labels = _texts(obj.spec.get("selector"))
    selector = tuple(Requirement(key, "In", (value,)) for key, value in sorted(labels.items()))
    return WorkloadSelector(
        kind,
        obj.metadata.namespace or "default",
        obj.metadata.name,
        LabelSelector(selector or (Requirement("", "Exists"),)),
    )


def quota_from(quota: w.ResourceQuota) -> Quota:
    """A quota's hard limits and use, as written, and its scopes."""
    counted = quota.status.get("hard")
    return Quota(
        quota.metadata.namespace or "default",
        quota.metadata.name,
        _texts(counted or quota.spec.get("hard")),
        _texts(quota.status.get("used")),
        tuple(_scopes(quota.spec)),
        bool(counted),
        _texts(quota.spec.get("hard")),
    )


def _scopes(spec: Mapping[str, Any]) -> Iterator[QuotaScope]:
    for name in _list(spec.get("scopes")):
        yield QuotaScope(str(name))
    for expression in _maps(_map(spec.get("scopeSelector")).get("matchExpressions")):
        values = tuple(str(value) for value in _list(expression.get("values")))
        yield QuotaScope(str(expression.get("scopeName", "")), str(expression.get("operator", "")), values)


def limit_range_from(obj: p.LimitRange) -> LimitRange:
    """A limit range, completed as the API server completes it."""
    items = tuple(_limit_item(limit) for limit in _maps(obj.spec.get("limits")))
    return LimitRange(obj.metadata.namespace or "default", obj.metadata.name, items)


def _limit_item(limit: Mapping[str, Any]) -> LimitItem:
    least, most = _quantities(limit.get("min")), _quantities(limit.get("max"))
    default, request = _quantities(limit.get("default")), _quantities(limit.get("defaultRequest"))
    kind = str(limit.get("type", ""))
    if kind == _CONTAINER:
        default = most | default
        request = least | default | request
    return LimitItem(kind, least, most, default, request, _quantities(limit.get("maxLimitRequestRatio")))


def runtime_class_from(obj: p.RuntimeClass) -> RuntimeClass:
    """A runtime class; an overhead that cannot be read is none."""
    return RuntimeClass(
        obj.metadata.name,
        obj.handler,
        amounts(obj.overhead.pod_fixed, "overhead.podFixed", ReadingProblems()),
        obj.scheduling.node_selector,
        tuple(
            Toleration(t.key, t.operator, t.value, t.effect, t.toleration_seconds)
            for t in obj.scheduling.tolerations
        ),
    )


def webhooks_from(obj: p.WebhookConfiguration) -> Iterator[Webhook]:
    """The webhooks of a configuration, in its order."""
    for hook in obj.webhooks:
        service = _map(_map(hook.get("clientConfig")).get("service"))
        at = (str(service.get("namespace", "")), str(service.get("name", ""))) if service else None
        yield Webhook(
            obj.metadata.name,
            str(hook.get("name", "")),
            isinstance(obj, p.MutatingWebhooks),
            at,
            hook.get("failurePolicy", "Fail") != "Ignore",
            bool(hook.get("matchConditions")),
            selector_of(hook.get("namespaceSelector")) or LabelSelector(),
            selector_of(hook.get("objectSelector")) or LabelSelector(),
            tuple(_rule(rule) for rule in _maps(hook.get("rules"))),
            f":{service.get('port', 443)}{service.get('path', '')}?timeout={hook.get('timeoutSeconds', 10)}s",
        )


def policy_from(obj: p.AdmissionPolicy) -> Webhook:
    """A validating admission policy as something that is asked; its expressions stay unread."""
    chosen = _map(obj.spec.get("matchConstraints"))
    return Webhook(
        obj.metadata.name,
        obj.metadata.name,
        mutating=False,
        must_answer=False,
        conditional=bool(obj.spec.get("matchConditions")),
        namespaces=selector_of(chosen.get("namespaceSelector")) or LabelSelector(),
        objects=selector_of(chosen.get("objectSelector")) or LabelSelector(),
        rules=tuple(_rule(rule) for rule in _maps(chosen.get("resourceRules"))),
        policy=True,
    )


def bound_by(obj: p.AdmissionPolicyBinding) -> str:
    """The policy that a binding makes refuse; empty when it only warns or notes."""
    denies = "Deny" in _list(obj.spec.get("validationActions"))
    return str(obj.spec.get("policyName", "")) if denies else ""


def _rule(rule: Mapping[str, Any]) -> WebhookRule:
    operations, groups, resources = (
        tuple(str(value) for value in _list(rule.get(name)))
        for name in ("operations", "apiGroups", "resources")
    )
    return WebhookRule(operations, groups, resources)


def _quantities(value: object) -> dict[str, str]:
    """Quantities in canonical spelling; what is none is left out."""
    canonical: dict[str, str] = {}
    for name, text in _texts(value).items():
        try:
            canonical[name] = canonical_quantity(text)
        except ValueError:
            continue
    return canonical


def _texts(value: object) -> dict[str, str]:
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _map(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _maps(value: object) -> list[dict[str, Any]]:
    return [element for element in _list(value) if isinstance(element, dict)]
