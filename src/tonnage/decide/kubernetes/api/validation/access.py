"""Roles, their bindings, and requests for tokens.

Source: pkg/apis/rbac/validation and pkg/apis/authentication/validation (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.problems import complaints, invalid, required, unsupported
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors, label_selector
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import items, mapping, mappings, number, text

_GROUP: Final = "rbac.authorization.k8s.io"
_SUBJECTS: Final = ("ServiceAccount", "User", "Group")
_SHORTEST_S: Final = 600
_LONGEST_S: Final = 1 << 32


def role(obj: JsonObject) -> FieldErrors:
    """A Role: rules for the resources of its namespace."""
    for index, rule in enumerate(mappings(obj, "rules")):
        yield from _rule(rule, f"rules[{index}]", namespaced=True)


def cluster_role(obj: JsonObject) -> FieldErrors:
    """A ClusterRole; one that gathers others says which."""
    for index, rule in enumerate(mappings(obj, "rules")):
        yield from _rule(rule, f"rules[{index}]", namespaced=False)
    if obj.get("aggregationRule") is None:
        return
    path = "aggregationRule.clusterRoleSelectors"
    if not items(obj, "aggregationRule", "clusterRoleSelectors"):
        yield required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    for index, selector in enumerate(mappings(obj, "aggregationRule", "clusterRoleSelectors")):
        problems = list(label_selector(selector, f"{path}[{index}]"))
        yield from problems
        if problems:
            yield invalid(f"{path}[{index}]", None, "invalid label selector.")


def _rule(rule: JsonObject, path: str, *, namespaced: bool) -> FieldErrors:
    if not items(rule, "verbs"):
        yield required(f"{path}.verbs", "verbs must contain at least one value")
    urls: JsonValue = rule.get("nonResourceURLs")
    if urls:
        field = f"{path}.nonResourceURLs"
        if namespaced:
            yield invalid(field, urls, "namespaced rules cannot apply to non-resource URLs")
        if any(items(rule, key) for key in ("apiGroups", "resources", "resourceNames")):
            yield invalid(field, urls, "rules cannot apply to both regular resources and non-resource URLs")
        return
    if not items(rule, "apiGroups"):
        yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not items(rule, "resources"):
        yield required(f"{path}.resources", "resource rules must supply at least one resource")


def role_binding(obj: JsonObject) -> FieldErrors:
    """A RoleBinding of a Role beside it or of a ClusterRole."""
    yield from _binding(obj, ("Role", "ClusterRole"))


def cluster_role_binding(obj: JsonObject) -> FieldErrors:
    """A ClusterRoleBinding."""
    yield from _binding(obj, ("ClusterRole",))


def role_binding_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """The role of a RoleBinding stays."""
    yield from role_binding(new)
    yield from _same_role(new, old)


def cluster_role_binding_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """The role of a ClusterRoleBinding stays."""
    yield from cluster_role_binding(new)
    yield from _same_role(new, old)


def _same_role(new: JsonObject, old: JsonObject) -> FieldErrors:
    keys = (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))
    shown: JsonObject = {go: text(new, "roleRef", key) for go, key in keys}
    if shown != {go: text(old, "roleRef", key) for go, key in keys}:
        yield invalid("roleRef", shown, "cannot change roleRef")


def _binding(obj: JsonObject, kinds: tuple[str, ...]) -> FieldErrors:
    reference = mapping(obj, "roleRef")
    group, kind, name = (text(reference, key) for key in ("apiGroup", "kind", "name"))
    if group != _GROUP:
        yield unsupported("roleRef.apiGroup", group, (_GROUP,))
    if kind not in kinds:
        yield unsupported("roleRef.kind", kind, kinds)
    if not name:
        yield required("roleRef.name")
    yield from complaints("roleRef.name", name, names.path_segment(name))
    for index, subject in enumerate(mappings(obj, "subjects")):
        yield from _subject(subject, f"subjects[{index}]", namespaced="Role" in kinds)


def _subject(subject: JsonObject, path: str, *, namespaced: bool) -> FieldErrors:
    group, kind, name = (text(subject, key) for key in ("apiGroup", "kind", "name"))
    if not name:
        yield required(f"{path}.name")
    match kind:
        case "ServiceAccount":
            if name:
                yield from complaints(f"{path}.name", name, names.dns_subdomain(name))
            if group:
                yield unsupported(f"{path}.apiGroup", group, ("",))
            if not namespaced and not text(subject, "namespace"):
                yield required(f"{path}.namespace")
        case "User" | "Group":
            if group != _GROUP:
                yield unsupported(f"{path}.apiGroup", group, (_GROUP,))
        case _:
            yield unsupported(f"{path}.kind", kind, _SUBJECTS)


def token_request(obj: JsonObject) -> FieldErrors:
    """How long a token may live."""
    field, seconds = "spec.expirationSeconds", number(obj, "spec", "expirationSeconds")
    if seconds < _SHORTEST_S:
        yield invalid(field, seconds, "may not specify a duration less than 10 minutes")
    if seconds > _LONGEST_S:
        yield invalid(field, seconds, "may not specify a duration larger than 2^32 seconds")
