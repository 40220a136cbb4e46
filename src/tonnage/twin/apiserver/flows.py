"""Which FlowSchema a request falls under, and by that which priority level: its answer names both.

Nothing is queued on the twin.

Source: k8s.io/apiserver, pkg/util/flowcontrol/rule.go, pkg/server/filters/priority-and-fairness.go (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import flag, mapping, mappings, number, text, texts
from tonnage.twin.apiserver.authentication.users import ACCOUNT
from tonnage.twin.apiserver.rbac.rules import ALL, Attributes
from tonnage.twin.apiserver.requests import User
from tonnage.twin.apiserver.store import Resource, Store, TooOldError, Watch

_GROUP: Final = "flowcontrol.apiserver.k8s.io"
_SCHEMAS: Final[Resource] = (_GROUP, "flowschemas")
_LEVELS: Final[Resource] = (_GROUP, "prioritylevelconfigurations")
_LASTING: Final = frozenset({"attach", "exec", "log", "portforward", "proxy"})
_PROFILES: Final = "/debug/pprof/"
"""Subresources and paths whose requests last too long to count."""
_SEATS: Final = 400 + 200
"""Requests that a server runs at once by default: those that read and those that write."""
_MOST_KNOWN: Final = 4096
Headers = tuple[tuple[bytes, bytes], ...]
_Key = tuple[str, tuple[str, ...], str, str, str, str, str]


class Flows:
    """Sorts requests by the FlowSchemas in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watches: list[Watch] = []
        self._known: dict[_Key, Headers] = {}

    def headers(self, asked: Attributes) -> Headers:
        """What an answer says of where its request falls, which is nothing for one that lasts."""
        if asked.subresource in _LASTING or asked.path.startswith(_PROFILES):
            return ()
        self._refresh()
        user = asked.user
        key = (user.name, user.groups, asked.verb, asked.group, asked.whole, asked.namespace, asked.path)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[key] = self._found(asked)
        return known

    def _found(self, asked: Attributes) -> Headers:
        for schema in sorted(self._schemas(), key=_precedence):
            level = self._store.get(_LEVELS, ("", text(schema, "spec", "priorityLevelConfiguration", "name")))
            if level is not None and any(_matches(rule, asked) for rule in mappings(schema, "spec", "rules")):
                return (
                    (b"x-kubernetes-pf-flowschema-uid", text(schema, "metadata", "uid").encode()),
                    (b"x-kubernetes-pf-prioritylevel-uid", text(level.object, "metadata", "uid").encode()),
                )
        return ()

    def _schemas(self) -> Iterator[JsonObject]:
        return (stored.object for stored in self._store.list(_SCHEMAS))

    def _refresh(self) -> None:
        """Forget what was worked out if a FlowSchema or a priority level has changed since."""
        try:
            changed = any(watch.ready() for watch in self._watches) or not self._watches
        except TooOldError:
            self._watches, changed = [], True
        if changed:
            self._known.clear()
        if not self._watches:
            self._watches = [self._store.watch(one, self._store.revision) for one in (_SCHEMAS, _LEVELS)]


def nominal_seats(store: Store) -> dict[str, int]:
    """How many requests each priority level may run at once, by its share of all, rounded up."""
    shares = {
        text(level.object, "metadata", "name"): number(
            mapping(level.object, "spec", "limited") or mapping(level.object, "spec", "exempt"),
            "nominalConcurrencyShares",
        )
        for level in store.list(_LEVELS)
    }
    total = sum(shares.values())
    return {name: -(-_SEATS * share // total) for name, share in shares.items()} if total else {}


def _precedence(schema: JsonObject) -> tuple[int, str]:
    return number(schema, "spec", "matchingPrecedence"), text(schema, "metadata", "name")


def _matches(rule: JsonObject, asked: Attributes) -> bool:
    """Whether a rule is about a request."""
    if not any(_is(subject, asked.user) for subject in mappings(rule, "subjects")):
        return False
    if asked.of_resource:
        return any(_covers(one, asked) for one in mappings(rule, "resourceRules"))
    return any(
        _holds(one, "verbs", asked.verb)
        and any(_leads(url, asked.path) for url in texts(one, "nonResourceURLs"))
        for one in mappings(rule, "nonResourceRules")
    )


def _is(subject: JsonObject, user: User) -> bool:
    """Whether a rule's subject is the user."""
    match text(subject, "kind"):
        case "User":
            return text(subject, "user", "name") in (ALL, user.name)
        case "Group":
            return text(subject, "group", "name") in (ALL, *user.groups)
        case "ServiceAccount":
            name = text(subject, "serviceAccount", "name")
            home = f"{ACCOUNT}{text(subject, 'serviceAccount', 'namespace')}:"
            return user.name.startswith(home) if name == ALL else user.name == home + name
    return False


def _covers(rule: JsonObject, asked: Attributes) -> bool:
    """Whether a rule is about what is asked of a resource."""
    told = (("verbs", asked.verb), ("resources", asked.whole), ("apiGroups", asked.group))
    if not all(_holds(rule, key, value) for key, value in told):
        return False
    return _holds(rule, "namespaces", asked.namespace) if asked.namespace else flag(rule, "clusterScope")


def _holds(rule: JsonObject, key: str, value: str) -> bool:
    return value in (listed := texts(rule, key)) or listed == [ALL]


def _leads(url: str, path: str) -> bool:
    """Whether a path is at a URL of a rule, or below it."""
    return url in (ALL, path) or path.startswith(url.removesuffix(ALL).removesuffix("/") + "/")
