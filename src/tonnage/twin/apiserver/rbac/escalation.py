"""Nobody gives more than he has: the check of new and changed roles and bindings.

Source: pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased, escalation_check.go
(v1.35).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tonnage.decide.kubernetes.api.problems import quoted
from tonnage.model.json import JsonObject
from tonnage.model.json_access import items, mapping, mappings, text
from tonnage.twin.apiserver.rbac.bindings import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    GROUP,
    ROLE,
    ROLE_BINDING,
    Bindings,
    MissingRoleError,
    aggregate,
)
from tonnage.twin.apiserver.rbac.decisions import Authorizers, privileged
from tonnage.twin.apiserver.rbac.rules import ALL, Attributes, RoleRule, listed, rule_of, uncovered
from tonnage.twin.apiserver.requests import ApiRequest
from tonnage.twin.apiserver.statuses import forbidden, not_found

_EVERYTHING: Final = (RoleRule((ALL,), (ALL,), (ALL,)), RoleRule((ALL,), urls=(ALL,)))
_OF_OTHERS: Final = ("ownerReferences", "finalizers", "managedFields", "selfLink", "resourceVersion")
"""Metadata that is changed to let an object go; changing it gives nobody anything."""


class Escalation:
    """Refuses roles with rights that their writer has not, and bindings of such roles."""

    def __init__(self, bindings: Bindings, authority: Authorizers) -> None:
        self._bindings = bindings
        self._authority = authority

    async def admit(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Check a new or changed role or binding. Raises ApiError 403, 404."""
        if obj is None or request.resource[0] != GROUP or privileged(request.user):
            return
        if request.resource in (ROLE, CLUSTER_ROLE):
            self._check_role(request, obj, old)
        elif request.resource in (ROLE_BINDING, CLUSTER_ROLE_BINDING):
            self._check_binding(request, obj, old)

    def _check_role(self, request: ApiRequest, role: JsonObject, old: JsonObject | None) -> None:
        name = "" if old is None else request.name
        plural = request.resource[1]
        attributes = Attributes(request.user, "escalate", GROUP, plural, "", request.namespace, name)
        if self._authority.decide(attributes).allowed or _lets_go(role, old):
            return
        self._confirm(request, role, [rule_of(rule) for rule in mappings(role, "rules")])
        gathers = _gathers(role) or (old is not None and _gathers(old))
        if gathers and self._missing(request, _EVERYTHING):
            why = "must have cluster-admin privileges to use the aggregationRule"
            raise forbidden(request.resource, text(role, "metadata", "name"), why)

    def _check_binding(self, request: ApiRequest, binding: JsonObject, old: JsonObject | None) -> None:
        if _lets_go(binding, old):
            return
        reference = mapping(binding, "roleRef")
        kind, name = text(reference, "kind"), text(reference, "name")
        if kind in ("Role", "ClusterRole"):
            plural = f"{kind.lower()}s"
            attributes = Attributes(
                request.user, "bind", text(reference, "apiGroup"), plural, "", request.namespace, name
            )
            if self._authority.decide(attributes).allowed:
                return
        try:
            rules = self._bindings.rules_of(reference, request.namespace)
        except MissingRoleError:
            raise not_found(request.resource, name) from None
        self._confirm(request, binding, rules)

    def _confirm(self, request: ApiRequest, obj: JsonObject, rules: Sequence[RoleRule]) -> None:
        missing = self._missing(request, rules)
        if not missing:
            return
        user = request.user
        lines = "\n".join(sorted({str(rule) for rule in missing}))
        why = (
            f"user {quoted(user.name)} (groups={listed(user.groups)}) is attempting to grant "
            f"RBAC permissions not currently held:\n{lines}"
        )
        faults = [grant.fault for grant in self._bindings.grants(user, request.namespace) if grant.fault]
        if faults:
            why = f"{why}; resolution errors: [{aggregate(faults)}]"
        raise forbidden(request.resource, text(obj, "metadata", "name"), why)

    def _missing(self, request: ApiRequest, rules: Sequence[RoleRule]) -> list[RoleRule]:
        grants = self._bindings.grants(request.user, request.namespace)
        return uncovered([rule for grant in grants for rule in grant.rules], rules)


def _gathers(role: JsonObject) -> bool:
    return bool(items(role, "aggregationRule", "clusterRoleSelectors"))


def _lets_go(obj: JsonObject, old: JsonObject | None) -> bool:
    """Whether nothing changes but who holds the object."""
    return old is not None and _own_fields(obj) == _own_fields(old)


def _own_fields(obj: JsonObject) -> JsonObject:
    metadata = {key: value for key, value in mapping(obj, "metadata").items() if key not in _OF_OTHERS}
    return {**obj, "metadata": metadata}
