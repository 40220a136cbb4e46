"""The strategic merge patch that makes one pod's manifest another's, in the fields that edits change."""

from __future__ import annotations

from tonnage.decide.kubernetes.requests import CPU
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.cluster import Container, Pod, SpreadConstraint
from tonnage.model.kubernetes.selectors import NodeSelectorTerm, Requirement, Toleration
from tonnage.model.kubernetes.well_known import REQUIRED


def patch_of(before: Pod, after: Pod) -> JsonObject:
    """A patch of a Pod (or of a pod template): lists that Kubernetes does not merge stand in it whole."""
    spec: JsonObject = {}
    if before.tolerations != after.tolerations:
        spec["tolerations"] = [_toleration(t) for t in after.tolerations]
    spread = [_constraint(a, b) for a, b in zip(before.spread, after.spread, strict=True) if a != b]
    if spread:
        spec["topologySpreadConstraints"] = [*spread]
    gone = [key for key in before.node_selector if key not in after.node_selector]
    added = {k: v for k, v in after.node_selector.items() if before.node_selector.get(k) != v}
    if gone or added:
        spec["nodeSelector"] = {**dict.fromkeys(gone), **added}
    if before.affinity.node != after.affinity.node:
        spec["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": _terms(after)}}}
    for name, old, new in (
        ("containers", before.containers, after.containers),
        ("initContainers", before.init_containers, after.init_containers),
    ):
        changed = [_container(a, b) for a, b in zip(old, new, strict=True) if a != b]
        if changed:
            spec[name] = [*changed]
    return {"spec": spec} if spec else {}


def _constraint(before: SpreadConstraint, after: SpreadConstraint) -> JsonObject:
    """What changes of a constraint; Kubernetes finds it by its topologyKey."""
    body: JsonObject = {"topologyKey": after.topology_key}
    if before.max_skew != after.max_skew:
        body["maxSkew"] = after.max_skew
    if before.hard and not after.hard:
        body["whenUnsatisfiable"] = "ScheduleAnyway"
    if before.min_domains != after.min_domains:
        body["minDomains"] = None
    return body


def _toleration(toleration: Toleration) -> JsonObject:
    body: JsonObject = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    if toleration.seconds is not None:
        body["tolerationSeconds"] = toleration.seconds
    return {key: value for key, value in body.items() if value != ""}


def _terms(pod: Pod) -> list[JsonValue]:
    return [_term(term) for term in pod.affinity.node or ()]


def _term(term: NodeSelectorTerm) -> JsonObject:
    body: JsonObject = {}
    if term.expressions:
        body["matchExpressions"] = [_requirement(r) for r in term.expressions]
    if term.fields:
        body["matchFields"] = [_requirement(r) for r in term.fields]
    return body


def _requirement(requirement: Requirement) -> JsonObject:
    body: JsonObject = {"key": requirement.key, "operator": requirement.operator}
    if requirement.values:
        body["values"] = [*requirement.values]
    return body


def _container(before: Container, after: Container) -> JsonObject:
    limits = _changes(before, after, "limits")
    requests = _changes(before, after, "requests")
    resources: JsonObject = {}
    if limits:
        resources["limits"] = limits
    if requests:
        resources["requests"] = requests
    return {"name": after.name, "resources": resources}


def _written(name: str, amount: int) -> str:
    """Exactly, in the API's units."""
    return f"{amount}m" if name == CPU and amount % 1000 else str(amount // 1000 if name == CPU else amount)


def _changes(before: Container, after: Container, section: str) -> JsonObject:
    """Requests that follow from limits stay out."""
    old, new = (c.limits if section == "limits" else c.requests for c in (before, after))
    if section == "requests":
        old = {name: n for name, n in old.items() if name in before.requested}
        new = {name: n for name, n in new.items() if name not in after.limits or name in after.requested}
    changes: JsonObject = {name: _written(name, n) for name, n in new.items() if old.get(name) != n}
    changes |= {name: None for name in old if name not in new}
    return changes
