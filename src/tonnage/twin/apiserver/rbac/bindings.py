"""Roles and bindings of the store as decisions: whoever a binding names may what its role allows.

What the objects say is worked out once per state of the four resources and user, when first asked for.

Source: plugin/pkg/auth/authorizer/rbac, pkg/registry/rbac/validation/rule.go (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tonnage.decide.kubernetes.api.problems import quoted
from tonnage.model.json import JsonObject
from tonnage.model.json_access import mappings, text
from tonnage.twin.apiserver.authentication.users import ACCOUNT
from tonnage.twin.apiserver.object_store import ObjectStore, ObjectWatch, Resource, TooOldError
from tonnage.twin.apiserver.rbac.decisions import AccessDecision
from tonnage.twin.apiserver.rbac.rules import Attributes, RoleRule, rule_of
from tonnage.twin.apiserver.requests import User

GROUP: Final = "rbac.authorization.k8s.io"
CLUSTER_ROLE: Final[Resource] = (GROUP, "clusterroles")
CLUSTER_ROLE_BINDING: Final[Resource] = (GROUP, "clusterrolebindings")
ROLE: Final[Resource] = (GROUP, "roles")
ROLE_BINDING: Final[Resource] = (GROUP, "rolebindings")
_READ: Final = (CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING)
_MOST_USERS: Final = 4096


@dataclass(frozen=True, slots=True)
class BindingGrant:
    """What one binding gives a user: rules, or the reason why its role gives none."""

    source: str
    rules: tuple[RoleRule, ...] = ()
    fault: str = ""


class MissingRoleError(Exception):
    """A binding names a role that is not there."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f'{kind.lower()}.{GROUP} "{name}" not found' if kind else "")


class Bindings:
    """Decides by the roles and bindings in a store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._watches: list[ObjectWatch] = []
        self._grants: dict[tuple[str, tuple[str, ...], str], tuple[BindingGrant, ...]] = {}
        self._rules: dict[tuple[str, str, str], tuple[RoleRule, ...]] = {}

    def decide(self, attributes: Attributes) -> AccessDecision:
        """Whether a binding allows it."""
        faults = []
        for grant in self.grants(attributes.user, attributes.namespace):
            if any(rule.allows(attributes) for rule in grant.rules):
                return AccessDecision(True, f"RBAC: allowed by {grant.source}")
            faults += [grant.fault] if grant.fault else []
        return AccessDecision(False, f"RBAC: {aggregate(faults)}" if faults else "")

    def grants(self, user: User, namespace: str) -> tuple[BindingGrant, ...]:
        """What bindings give the user in a namespace, those of the cluster first; only these without one."""
        self._refresh()
        key = (user.name, user.groups, namespace)
        grants = self._grants.get(key)
        if grants is None:
            if len(self._grants) >= _MOST_USERS:
                self._grants.clear()
            grants = self._grants[key] = tuple(self._all_grants(user, namespace))
        return grants

    def rules_of(self, reference: JsonObject, namespace: str) -> tuple[RoleRule, ...]:
        """The rules of the role that a binding's roleRef names. Raises MissingRoleError."""
        self._refresh()
        kind, name = text(reference, "kind"), text(reference, "name")
        key = (kind, namespace if kind == "Role" else "", name)
        if key not in self._rules:
            resource = ROLE if kind == "Role" else CLUSTER_ROLE
            stored = self._store.get(resource, key[1:])
            if stored is None or kind not in ("Role", "ClusterRole"):
                raise MissingRoleError(kind, name)
            self._rules[key] = tuple(rule_of(rule) for rule in mappings(stored.object, "rules"))
        return self._rules[key]

    def _all_grants(self, user: User, namespace: str) -> Iterator[BindingGrant]:
        for stored in self._store.list(CLUSTER_ROLE_BINDING):
            yield from self._granted(stored.object, user, "")
        if namespace:
            for stored in self._store.list(ROLE_BINDING, namespace=namespace):
                yield from self._granted(stored.object, user, namespace)

    def _granted(self, binding: JsonObject, user: User, namespace: str) -> Iterator[BindingGrant]:
        subject = next(
            (entry for entry in mappings(binding, "subjects") if names(entry, user, namespace)), None
        )
        if subject is None:
            return
        reference = binding.get("roleRef")
        reference = reference if isinstance(reference, dict) else {}
        try:
            rules = self.rules_of(reference, namespace)
        except MissingRoleError as missing:
            yield BindingGrant("", fault=str(missing))
            return
        yield BindingGrant(_source(binding, reference, subject, namespace), rules)

    def _refresh(self) -> None:
        """Forget what was worked out if a role or binding has changed since."""
        try:
            changed = any(watch.ready() for watch in self._watches) or not self._watches
        except TooOldError:
            self._watches, changed = [], True
        if changed:
            self._grants.clear()
            self._rules.clear()
        if not self._watches:
            self._watches = [self._store.watch(resource, self._store.revision) for resource in _READ]


def names(subject: JsonObject, user: User, namespace: str) -> bool:
    """Whether a binding's subject is the user; `namespace` is the binding's."""
    name = text(subject, "name")
    match text(subject, "kind"):
        case "User":
            return user.name == name
        case "Group":
            return name in user.groups
        case "ServiceAccount":
            home = text(subject, "namespace") or namespace
            return bool(home) and user.name == f"{ACCOUNT}{home}:{name}"
    return False


def aggregate(faults: list[str]) -> str:
    """Several faults as one text, each once."""
    once = list(dict.fromkeys(faults))
    return once[0] if len(once) == 1 else f"[{', '.join(once)}]"


def _source(binding: JsonObject, reference: JsonObject, subject: JsonObject, namespace: str) -> str:
    name, kind = text(binding, "metadata", "name"), "RoleBinding" if namespace else "ClusterRoleBinding"
    subject_name = text(subject, "name")
    if text(subject, "kind") == "ServiceAccount":
        subject_name = f"{subject_name}/{text(subject, 'namespace') or namespace}"
    role = f"{text(reference, 'kind')} {quoted(text(reference, 'name'))}"
    where = f"{name}/{namespace}" if namespace else name
    return f"{kind} {quoted(where)} of {role} to {text(subject, 'kind')} {quoted(subject_name)}"
