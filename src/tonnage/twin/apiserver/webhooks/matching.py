"""Which rules, of webhooks and of policies, a request falls under.

Source: k8s.io/apiserver pkg/admission/plugin/webhook/predicates (v1.35).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tonnage.decide.kubernetes.api.selectors import label_requirements, labels_of, matches_labels
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, text, texts
from tonnage.twin.apiserver.requests import Request
from tonnage.twin.apiserver.resource_names import NAMESPACE
from tonnage.twin.apiserver.resources import Registry, Served
from tonnage.twin.apiserver.storage.store import Store

_GROUP: Final = "admissionregistration.k8s.io"
_EXEMPT: Final = frozenset(
    {
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    }
)


InVersion = Callable[[Served, JsonObject], JsonObject]
CONNECT: Final = "connect"
"""The verb of what opens a stream, such as exec; its object are the options of the stream."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request on its way through admission: the object as it is now, and as it was."""

    request: Request
    obj: JsonObject | None
    old: JsonObject | None

    @property
    def operation(self) -> str:
        """CREATE, UPDATE, DELETE or CONNECT."""
        if self.request.verb == CONNECT:
            return "CONNECT"
        if self.obj is None:
            return "DELETE"
        return "CREATE" if self.old is None else "UPDATE"

    @property
    def name(self) -> str:
        """The object's name, generated or not."""
        return self.request.name or text(self.obj, "metadata", "name")

    @property
    def namespace(self) -> str:
        """The namespace; of a namespace itself, its name."""
        return self.name if self.request.resource == NAMESPACE else self.request.namespace

    def shown(self, in_version: InVersion, served: Served) -> tuple[JsonValue, JsonValue]:
        """The object as it is now and as it was, in this version of its kind."""
        now, before = (None if one is None else in_version(served, one) for one in (self.obj, self.old))
        return now, before


def is_exempt(request: Request) -> bool:
    """What configures admission is not subject to it."""
    row = request.served.row
    return row.group == _GROUP and row.plural in _EXEMPT


def matches_rule(rule: JsonObject, asked: Asked, served: Served) -> bool:
    """Whether a rule is about the request, taken as one for this version of the resource."""
    row, subresource = served.row, asked.request.subresource
    if not _among(asked.operation, texts(rule, "operations")):
        return False
    if not _among(row.group, texts(rule, "apiGroups")) or not _among(row.version, texts(rule, "apiVersions")):
        return False
    scope = text(rule, "scope") or "*"
    if scope != "*" and (scope == "Namespaced") != row.namespaced:
        return False
    names = texts(rule, "resourceNames")
    if names and asked.name not in names:
        return False
    return any(_is_resource(one, row.plural, subresource) for one in texts(rule, "resources"))


def _among(value: str, listed: list[str]) -> bool:
    return "*" in listed or value in listed


def _is_resource(written: str, plural: str, subresource: str) -> bool:
    resource, _, part = written.partition("/")
    return resource in ("*", plural) and part in (("*", subresource) if subresource else ("", "*"))


def version_asked(
    rules: list[JsonObject], match_policy: str, asked: Asked, registry: Registry
) -> Served | None:
    """In which version one of the rules wants the request; None if it is about none."""
    own = asked.request.served
    if any(matches_rule(rule, asked, own) for rule in rules):
        return own
    if match_policy == "Exact":
        return None
    others = [one for one in registry if one.key == own.key and one.row != own.row]
    found: Iterator[Served] = (one for rule in rules for one in others if matches_rule(rule, asked, one))
    return next(found, None)


def selects_namespace(selector: JsonObject, asked: Asked, store: Store) -> bool:
    """Whether a namespace selector chooses the request's namespace; without one it always does."""
    if not selector or not asked.namespace:
        return True
    found: JsonObject | None = None
    if asked.request.resource == NAMESPACE and asked.obj is not None:
        found = asked.obj
    else:
        stored = store.get(NAMESPACE, ("", asked.namespace))
        found = stored.object if stored is not None else asked.old
    return matches_labels(label_requirements(selector), labels_of(found))


def selects_object(selector: JsonObject, asked: Asked) -> bool:
    """Whether an object selector chooses the object, as it is or as it was."""
    if not selector:
        return True
    requirements = label_requirements(selector)
    return any(
        one is not None and matches_labels(requirements, labels_of(one)) for one in (asked.obj, asked.old)
    )


def selector_at(owner: JsonObject, key: str) -> JsonObject:
    """A label selector, empty for one that takes everything."""
    found = at(owner, key)
    return found if isinstance(found, dict) else {}
