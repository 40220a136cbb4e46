"""Rights, as roles grant them and as requests need them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Right(NamedTuple):
    """`resource` has its subresource behind a slash; `namespace` and `name` are empty for all."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


def granted(objects: Iterable[Mapping[str, Any]]) -> set[Right]:
    """Every right of every Role and ClusterRole that is bound among the objects, one by one."""
    known = list(objects)
    bound = {found["roleRef"]["name"] for found in known if found["kind"].endswith("RoleBinding")}
    return {
        Right(verb, group, resource, role["metadata"].get("namespace", ""), name)
        for role in known
        if role["kind"] in ("Role", "ClusterRole") and role["metadata"]["name"] in bound
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
    }


def needed(asked: Iterable[Right], rights: Iterable[Right]) -> set[Right]:
    """The rights that requests need: those of `rights` where one covers it, else the request itself.

    A request may name its object or namespace where a right is for all of them.
    """
    known = set(rights)

    def covering(request: Right) -> Right:
        wider = (request, request._replace(name=""), request._replace(name="", namespace=""))
        return next((right for right in wider if right in known), request)

    return {covering(request) for request in asked}
