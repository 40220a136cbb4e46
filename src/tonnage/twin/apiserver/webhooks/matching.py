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
from tonnage.twin.apiserver.object_store import ObjectStore
from tonnage.twin.apiserver.requests import ApiRequest
from tonnage.twin.apiserver.resource_names import NAMESPACE
from tonnage.twin.apiserver.resources import Registry, ServedResource

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


InVersion = Callable[[ServedResource, JsonObject], JsonObject]
CONNECT: Final = "connect"
"""The verb of what opens a stream, such as exec; its object are the options of the stream."""


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """A request on its way through admission: the object as it is now, and as it was."""

    request: ApiRequest
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

    def shown(self, in_version: InVersion, served: ServedResource) -> tuple[JsonValue, JsonValue]:
        """The object as it is now and as it was, in this version of its kind."""
        now, before = (None if obj is None else in_version(served, obj) for obj in (self.obj, self.old))
        return now, before


def is_exempt(request: ApiRequest) -> bool:
    """What configures admission is not subject to it."""
    row = request.served.row
    return row.group == _GROUP and row.plural in _EXEMPT


def matches_rule(rule: JsonObject, admission: AdmissionRequest, served: ServedResource) -> bool:
    """Whether a rule is about the request, taken as one for this version of the resource."""
    row, subresource = served.row, admission.request.subresource
    if not _among(admission.operation, texts(rule, "operations")):
        return False
    if not _among(row.group, texts(rule, "apiGroups")) or not _among(row.version, texts(rule, "apiVersions")):
        return False
    scope = text(rule, "scope") or "*"
    if scope != "*" and (scope == "Namespaced") != row.namespaced:
        return False
    names = texts(rule, "resourceNames")
    if names and admission.name not in names:
        return False
    return any(_is_resource(resource, row.plural, subresource) for resource in texts(rule, "resources"))


def _among(value: str, listed: list[str]) -> bool:
    return "*" in listed or value in listed


def _is_resource(written: str, plural: str, subresource: str) -> bool:
    resource, _, part = written.partition("/")
    return resource in ("*", plural) and part in (("*", subresource) if subresource else ("", "*"))


def version_asked(
    rules: list[JsonObject], match_policy: str, admission: AdmissionRequest, registry: Registry
) -> ServedResource | None:
    """In which version one of the rules wants the request; None if it is about none."""
    own = admission.request.served
    if any(matches_rule(rule, admission, own) for rule in rules):
        return own
    if match_policy == "Exact":
        return None
    others = [served for served in registry if served.key == own.key and served.row != own.row]
    matching: Iterator[ServedResource] = (
        served for rule in rules for served in others if matches_rule(rule, admission, served)
    )
    return next(matching, None)


def selects_namespace(selector: JsonObject, admission: AdmissionRequest, store: ObjectStore) -> bool:
    """Whether a namespace selector chooses the request's namespace; without one it always does."""
    if not selector or not admission.namespace:
        return True
    namespace: JsonObject | None = None
    if admission.request.resource == NAMESPACE and admission.obj is not None:
        namespace = admission.obj
    else:
        stored = store.get(NAMESPACE, ("", admission.namespace))
        namespace = stored.object if stored is not None else admission.old
    return matches_labels(label_requirements(selector), labels_of(namespace))


def selects_object(selector: JsonObject, admission: AdmissionRequest) -> bool:
    """Whether an object selector chooses the object, as it is or as it was."""
    if not selector:
        return True
    requirements = label_requirements(selector)
    return any(
        obj is not None and matches_labels(requirements, labels_of(obj))
        for obj in (admission.obj, admission.old)
    )


def selector_at(owner: JsonObject, key: str) -> JsonObject:
    """A label selector, empty for one that takes everything."""
    selector = at(owner, key)
    return selector if isinstance(selector, dict) else {}
