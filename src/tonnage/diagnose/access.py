"""The rights that commands need, as the objects of RBAC that grant them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.model.json import JsonObject, JsonValue

READER: Final = "tonnage-reader"
VERBS: Final = ("get", "list")
_GROUP: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class ResourceRight:
    """The right to do with one resource what `verbs` say; to read it, unless they say more."""

    group: str
    resource: str
    namespaced: bool
    verbs: tuple[str, ...] = VERBS

    @property
    def name(self) -> str:
        """As kubectl names it.

        >>> ResourceRight("", "pods", True).name, ResourceRight("apps", "deployments", True).name
        ('pods', 'deployments.apps')
        """
        return f"{self.resource}.{self.group}" if self.group else self.resource


@dataclass(frozen=True, slots=True)
class Subjects:
    """Who gets the rights. A service account is `NAMESPACE:NAME`."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()

    def to_json(self) -> list[JsonValue]:
        """The subjects of a binding."""
        people = [("User", name) for name in self.users] + [("Group", name) for name in self.groups]
        named: list[JsonValue] = [{"apiGroup": _GROUP, "kind": kind, "name": name} for kind, name in people]
        split = [account.partition(":") for account in self.accounts]
        accounts: list[JsonValue] = [
            {"kind": "ServiceAccount", "namespace": space, "name": name} for space, _, name in split
        ]
        return [*named, *accounts]


PAGES: Final = ResourceRight("", "pods/proxy", namespaced=True, verbs=("get",))
"""The right to read what pods serve: for the namespace of the agents alone, as it reaches every port."""


def rules_of(rights: Iterable[ResourceRight]) -> list[JsonValue]:
    """The rules that grant them, one for each API group."""
    by_group: dict[tuple[str, tuple[str, ...]], set[str]] = {}
    for right in rights:
        by_group.setdefault((right.group, right.verbs), set()).add(right.resource)
    return [
        {"apiGroups": [group], "resources": [*sorted(resources)], "verbs": [*verbs]}
        for (group, verbs), resources in sorted(by_group.items())
    ]


def role_name(command: str) -> str:
    """The name of the role of a command, or of all of them.

    >>> role_name("mig plan"), role_name("")
    ('tonnage-mig-plan', 'tonnage-reader')
    """
    return f"tonnage-{command.replace(' ', '-')}" if command else READER


def role_objects(
    name: str, rights: Sequence[ResourceRight], subjects: Subjects, namespace: str = ""
) -> list[JsonObject]:
    """A ClusterRole, or a Role of what lies in a namespace; with subjects also its binding."""
    prefix = "" if namespace else "Cluster"
    metadata: JsonObject = {"name": name, **({"namespace": namespace} if namespace else {})}
    granted = [right for right in rights if right.namespaced or not namespace]
    objects: list[JsonObject] = [
        {
            "apiVersion": f"{_GROUP}/v1",
            "kind": f"{prefix}Role",
            "metadata": metadata,
            "rules": rules_of(granted),
        }
    ]
    bound = subjects.to_json()
    if bound:
        objects.append(
            {
                "apiVersion": f"{_GROUP}/v1",
                "kind": f"{prefix}RoleBinding",
                "metadata": metadata,
                "roleRef": {"apiGroup": _GROUP, "kind": f"{prefix}Role", "name": name},
                "subjects": bound,
            }
        )
    return objects


def role_lines(role: JsonObject) -> list[str]:
    """A role as YAML that a person can paste, a rule to a line.

    >>> print(*role_lines(role_objects("r", [ResourceRight("", "pods", True)], Subjects())[0]), sep="\\n")
    apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRole
    metadata: {name: r}
    rules:
      - {apiGroups: [""], resources: [pods], verbs: [get, list]}
    """
    metadata, rules = role["metadata"], role["rules"]
    assert isinstance(metadata, dict)
    assert isinstance(rules, list)
    names = ", ".join(f"{key}: {value}" for key, value in metadata.items())
    lines = [f"apiVersion: {role['apiVersion']}", f"kind: {role['kind']}", f"metadata: {{{names}}}", "rules:"]
    for rule in rules:
        assert isinstance(rule, dict)
        fields = ", ".join(f"{key}: [{_flow(value)}]" for key, value in rule.items())
        lines.append(f"  - {{{fields}}}")
    return lines


def _flow(values: JsonValue) -> str:
    assert isinstance(values, list)
    return ", ".join(str(value) or '""' for value in values)
