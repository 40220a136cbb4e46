"""Rules of roles: what one allows, and whether some cover another.

Source: pkg/apis/rbac/v1/evaluation_helpers.go, pkg/registry/rbac/validation and component-helpers'
auth/rbac/validation (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tonnage.decide.kubernetes.api.problems import quoted
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import texts
from tonnage.twin.apiserver.requests import User

ALL = "*"


@dataclass(frozen=True, slots=True)
class Attributes:
    """What is asked of whom. A request for no resource has only `verb` and `path`.

    `fields` is the field selector as it was written.
    """

    user: User
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    fields: str = ""
    path: str = ""
    of_resource: bool = True

    @property
    def whole(self) -> str:
        """`pods`, or `pods/log`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True, slots=True)
class RoleRule:
    """One rule of a role, its lists in their order."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def allows(self, attributes: Attributes) -> bool:
        """Whether it allows what is asked.

        >>> bob = User("bob")
        >>> RoleRule(("get",), ("",), ("*/log",)).allows(Attributes(bob, "get", "", "pods", "log"))
        True
        """
        if ALL not in self.verbs and attributes.verb not in self.verbs:
            return False
        if not attributes.of_resource:
            return any(url in (ALL, attributes.path) or _below(url, attributes.path) for url in self.urls)
        return (
            (ALL in self.groups or attributes.group in self.groups)
            and self._has(attributes)
            and (not self.names or attributes.name in self.names)
        )

    def _has(self, attributes: Attributes) -> bool:
        if ALL in self.resources or attributes.whole in self.resources:
            return True
        return bool(attributes.subresource) and f"*/{attributes.subresource}" in self.resources

    def atoms(self) -> Iterator[RoleRule]:
        """The rule as rules of one verb, group, resource and name each, or of one verb and URL."""
        for group in self.groups:
            for resource in self.resources:
                for verb in self.verbs:
                    for name in self.names or ("",):
                        yield RoleRule((verb,), (group,), (resource,), (name,) if name else ())
        for url in self.urls:
            for verb in self.verbs:
                yield RoleRule((verb,), urls=(url,))

    def covers(self, atom: RoleRule) -> bool:
        """Whether whoever has this rule has the atom too."""
        return (
            _has_all(self.verbs, atom.verbs)
            and _has_all(self.groups, atom.groups)
            and all(self._covers_resource(resource) for resource in atom.resources)
            and all(any(own == url or _below(own, url) for own in self.urls) for url in atom.urls)
            and (not self.names or (bool(atom.names) and set(atom.names) <= set(self.names)))
        )

    def _covers_resource(self, resource: str) -> bool:
        if ALL in self.resources or resource in self.resources:
            return True
        _, slash, subresource = resource.partition("/")
        return bool(slash) and f"*/{subresource}" in self.resources

    def __str__(self) -> str:
        """As messages show a rule: `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`."""
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{name}:{listed(values)}" for name, values in parts if values) + "}"

    def as_json(self) -> JsonObject:
        """As reviews show it."""
        parts: dict[str, tuple[str, ...]] = {
            "verbs": self.verbs,
            "apiGroups": self.groups,
            "resources": self.resources,
            "resourceNames": self.names,
            "nonResourceURLs": self.urls,
        }
        return {name: list(values) for name, values in parts.items() if values}


def rule_of(value: JsonValue) -> RoleRule:
    """A PolicyRule."""
    keys = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
    return RoleRule(*(tuple(texts(value, key)) for key in keys))


def uncovered(owned: Iterable[RoleRule], required: Iterable[RoleRule]) -> list[RoleRule]:
    """What of `required` nobody has who has `owned`, the verbs of one object together again."""
    owned_rules = list(owned)
    atoms = [atom for rule in required for atom in rule.atoms()]
    missing = [atom for atom in atoms if not any(rule.covers(atom) for rule in owned_rules)]
    together: dict[tuple[object, ...], RoleRule] = {}
    for number, atom in enumerate(missing):
        key = (number,) if atom.urls else (atom.groups, atom.resources, atom.names)
        verbs = (*together[key].verbs, *atom.verbs) if key in together else atom.verbs
        together[key] = RoleRule(verbs, atom.groups, atom.resources, atom.names, atom.urls)
    return list(together.values())


def listed(values: Iterable[str]) -> str:
    """Strings as Go's %q prints a slice.

    >>> listed(["a", "b"])
    '["a" "b"]'
    """
    return f"[{' '.join(quoted(value) for value in values)}]"


def _has_all(own: tuple[str, ...], required: tuple[str, ...]) -> bool:
    return ALL in own or set(required) <= set(own)


def _below(pattern: str, path: str) -> bool:
    """Whether a pattern that ends in an asterisk stands for a path."""
    return pattern.endswith(ALL) and path.startswith(pattern.rstrip(ALL))
