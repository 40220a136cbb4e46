"""The bookkeeping for the server's own kinds: who owns the fields of an object after a write, and applying.

Source: k8s.io/apiserver (endpoints/handlers), k8s.io/apimachinery (util/managedfields), and the reset
fields of the strategies in k8s.io/kubernetes (pkg/registry), v1.35.
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api.custom.validation import validate_custom
from tonnage.decide.kubernetes.api.problems import InvalidError, invalid_status
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import items, mapping, text
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.ports.clock import Clock
from tonnage.twin.apiserver.codec import Codec
from tonnage.twin.apiserver.object_store import Resource
from tonnage.twin.apiserver.ownership import last_applied
from tonnage.twin.apiserver.ownership.comparison import BadElementError
from tonnage.twin.apiserver.ownership.configurations import (
    AppliedConfiguration,
    apply_to,
    check_fit,
    check_kind,
)
from tonnage.twin.apiserver.ownership.fieldsets import FieldSet
from tonnage.twin.apiserver.ownership.managed_fields import (
    MalformedError,
    Managers,
    read_entries,
    same_but_for_times,
    written_entries,
)
from tonnage.twin.apiserver.ownership.refusals import untracked
from tonnage.twin.apiserver.ownership.scale import SCALE_VERSION, Rescaling
from tonnage.twin.apiserver.ownership.type_checks import faults
from tonnage.twin.apiserver.ownership.type_structures import BuiltIn, Custom, Shape
from tonnage.twin.apiserver.ownership.updates import (
    BEFORE_FIRST_APPLY,
    KindVersion,
    Versions,
    Writer,
    updated,
)
from tonnage.twin.apiserver.requests import ApiRequest, Options
from tonnage.twin.apiserver.resources import ServedResource
from tonnage.twin.apiserver.writing.apply_bodies import tell_repeated

_SERVER: Final = "kube-apiserver"
_STATUS: Final[FieldSet] = {"f:status": {}}
_SPEC: Final[FieldSet] = {"f:spec": {}}
_NOT_STATUS: Final[FieldSet] = {"f:metadata": {}, "f:spec": {}}
_IGNORED: Final[dict[tuple[Resource, str], FieldSet]] = {
    (("", "pods"), "status"): {
        "f:spec": {},
        "f:metadata": {"f:deletionTimestamp": {}, "f:ownerReferences": {}},
    },
    (("", "pods"), "ephemeralcontainers"): {},
    (("apps", "deployments"), "status"): {"f:spec": {}, "f:metadata": {"f:labels": {}}},
    (("certificates.k8s.io", "certificatesigningrequests"), ""): {"f:spec": {}, "f:status": {}},
    (("certificates.k8s.io", "certificatesigningrequests"), "status"): {
        "f:spec": {},
        "f:status": {"f:conditions": {}},
    },
    (("certificates.k8s.io", "certificatesigningrequests"), "approval"): {
        "f:spec": {},
        "f:status": {"f:certificate": {}},
    },
    # Their strategies name a version that the API has not.
    (("networking.k8s.io", "servicecidrs"), ""): {},
    (("networking.k8s.io", "servicecidrs"), "status"): {},
    **{
        ((group, plural), "status"): _NOT_STATUS
        for group, plural in (
            ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
            ("apiextensions.k8s.io", "customresourcedefinitions"),
            ("apiregistration.k8s.io", "apiservices"),
            ("flowcontrol.apiserver.k8s.io", "flowschemas"),
            ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
            ("resource.k8s.io", "resourceclaims"),
            ("storage.k8s.io", "volumeattachments"),
        )
    },
}
"""Fields that a request to a (sub)resource does not set, where that is not what goes without saying."""


class FieldOwnership:
    """Who owns what, kept in the objects themselves."""

    def __init__(self, codec: Codec, clock: Clock) -> None:
        registry = codec.registry
        self._registry = registry
        self._codec = codec
        self._clock = clock
        self._built_in = BuiltIn(registry.schema)
        self._custom = Custom(self._built_in)
        self._by_resource: dict[tuple[str, str, str], tuple[ServedResource, KindVersion]] = {}

    def created(self, request: ApiRequest, obj: JsonObject, sent: JsonValue) -> list[JsonValue]:
        """`managedFields` of a new object. `sent` is what its writer put there himself."""
        managers = _readable(sent)
        empty = self._codec.empty(request.served)
        return self._updated(request, empty, obj, {} if managers is None else managers)

    def updated(
        self, request: ApiRequest, obj: JsonObject, old: JsonObject, sent: JsonValue
    ) -> list[JsonValue]:
        """`managedFields` of an object after an update to `obj`, whose writer sent these."""
        entries = items(old, "metadata", "managedFields")
        nothing = sent is None or (sent == [] and request.served.custom is not None)
        if request.subresource or nothing or sent == entries:
            managers = read_entries(entries, trusted=True)
        elif _resets(sent):
            managers = {}
        else:
            managers = _readable(sent) or read_entries(entries, trusted=True)
        if not managers:
            # Objects that nobody has applied, and that lost their entries, are not tracked.
            return []
        return self._updated(request, old, obj, managers)

    def _updated(
        self, request: ApiRequest, old: JsonObject, obj: JsonObject, managers: Managers
    ) -> list[JsonValue]:
        writer = self._writer(request)
        try:
            return written_entries(updated(old, obj, managers, writer, self._versions(request)))
        except BadElementError:
            # A list that the type forbids: nobody can be said to own what is in it, or anything else.
            return []

    def sign_status(self, resource: Resource, obj: JsonObject, old: JsonObject) -> None:
        """Tell in an object that the server itself has changed its status, at some other write."""
        group, plural = resource
        served = self._registry.find(group, "v1", plural)
        if served is not None:
            namespace, name = text(obj, "metadata", "namespace"), text(obj, "metadata", "name")
            options = Options(field_manager=_SERVER)
            request = ApiRequest("update", served, namespace, name, "status", options)
            put_entries(obj, self.updated(request, obj, old, None))

    def settled(self, obj: JsonObject, stored: JsonObject) -> JsonObject:
        """The object to store: the stored one where nothing but the times of entries would change."""
        entries, stored_entries = (
            items(obj, "metadata", "managedFields"),
            items(stored, "metadata", "managedFields"),
        )
        if (
            entries is stored_entries
            or entries == stored_entries
            or not same_but_for_times(entries, stored_entries)
        ):
            return obj
        metadata = {**mapping(obj, "metadata"), "managedFields": stored_entries}
        return stored if {**obj, "metadata": metadata} == stored else obj

    def apply(self, request: ApiRequest, application: AppliedConfiguration, live: JsonObject) -> JsonObject:
        """The object once a configuration is applied; who owns it then is in `application.entries`.

        `live` is the object as it is, in the request's version; an object of the kind that is none yet has no
        uid. Raises ApiError 400, 409, 500.
        """
        config, row = application.config, request.served.row
        writer = self._writer(request)
        check_kind(config, row.api_version, row.kind)
        versions = self._versions(request)
        managers = read_entries(items(live, "metadata", "managedFields"), trusted=True)
        if not managers:
            first = Writer(BEFORE_FIRST_APPLY, writer.version, writer.subresource, writer.now)
            try:
                managers = updated(self._codec.empty(request.served), live, managers, first, versions)
            except BadElementError:
                raise untracked(live, faults(writer.version.shape, live)) from None
        check_fit(config, writer.version.shape)
        outcome = apply_to(live, application, managers, writer, versions)
        tell_repeated(request, config)
        obj = live if outcome.object is None else outcome.object
        if writer.name == last_applied.KUBECTL:
            obj = last_applied.renewed(obj, config)
        application.entries = written_entries(outcome.managers)
        _check_nulls(request.served, obj)
        return obj

    def rescaling(self, request: ApiRequest, obj: JsonObject, scale: JsonObject) -> Rescaling:
        """A change of an object's scale."""
        shape = self._built_in.type("autoscaling/v1.Scale")
        version = KindVersion(SCALE_VERSION, shape, {}, lambda scale: scale)
        return Rescaling(obj, scale, version, self._replica_paths(request.served))

    def now(self) -> str:
        """The moment, as entries have it."""
        return timestamp(self._clock.now())

    def _replica_paths(self, served: ServedResource) -> dict[str, tuple[str, ...]]:
        if served.custom is None:
            return {served.row.api_version: ("f:spec", "f:replicas")}
        versions = [version for version in self._registry if version.key == served.key]
        return {version.row.api_version: _path_of(version) for version in versions}

    def _writer(self, request: ApiRequest) -> Writer:
        version = self._version(request.served, request.subresource)
        return Writer(request.options.field_manager, version, request.subresource, self.now())

    def _versions(self, request: ApiRequest) -> Versions:
        row = request.served.row

        def version(name: str) -> KindVersion | None:
            if name == row.api_version:
                return self._version(request.served, request.subresource)
            group, _, short = name.rpartition("/")
            served = self._registry.find(group, short, row.plural) if group == row.group else None
            return None if served is None else self._version(served, request.subresource)

        return version

    def _version(self, served: ServedResource, subresource: str) -> KindVersion:
        key = (served.row.api_version, served.row.plural, subresource)
        cached, version = self._by_resource.get(key, (None, None))
        if version is None or cached is not served:
            version = KindVersion(
                served.row.api_version,
                self._shape(served),
                ignored_by(served, subresource),
                lambda obj: self._codec.converted(served, obj),
                settled=served.custom is None,
            )
            self._by_resource[key] = (served, version)
        return version

    def _shape(self, served: ServedResource) -> Shape:
        if served.custom is None:
            return self._built_in.type(served.row.type)
        return self._custom.kind(served.custom.schema)


def _check_nulls(served: ServedResource, obj: JsonObject) -> None:
    """Refuse nulls in a custom object, such as are left where applying takes the last thing out of a map.

    What clients send themselves is read without them; what applying makes is not read again.
    """
    if served.custom is None or not _has_null(obj):
        return
    errors = validate_custom(served.custom.schema, obj)
    if errors:
        raise InvalidError(invalid_status(served.row, text(obj, "metadata", "name"), errors))


def _has_null(value: JsonValue) -> bool:
    if isinstance(value, dict):
        return any(map(_has_null, value.values()))
    return value is None or (isinstance(value, list) and any(map(_has_null, value)))


def ignored_by(served: ServedResource, subresource: str) -> FieldSet:
    """Fields that a request to this (sub)resource leaves as they are, whatever it says."""
    listed = _IGNORED.get((served.key, subresource))
    if listed is not None:
        return listed
    if subresource == "status":
        return _SPEC
    return _STATUS if served.has_status else {}


def _readable(sent: JsonValue) -> Managers | None:
    try:
        return read_entries(sent)
    except MalformedError:
        return None


def _resets(sent: JsonValue) -> bool:
    """Whether a writer asks for the entries to be forgotten: an empty list, or one empty entry."""
    if not isinstance(sent, list):
        return False
    return not sent or (len(sent) == 1 and isinstance(sent[0], dict) and not any(sent[0].values()))


def as_sent(obj: JsonObject, body: JsonValue) -> JsonObject:
    """The object that a body came to, with empty lists and maps where the body has them and it has nothing.

    Who sends one where the type always writes something owns it, though none is kept.

    >>> as_sent({"rules": None, "kind": "Role"}, {"rules": []})
    {'rules': [], 'kind': 'Role'}
    """
    return mapping(_as_sent(obj, body))


def _as_sent(obj: JsonValue, body: JsonValue) -> JsonValue:
    if obj is body:
        return obj
    if isinstance(obj, dict) and isinstance(body, dict):
        changed: JsonObject = {}
        for key, value in obj.items():
            if (value is None or isinstance(value, dict | list)) and key in body:
                sent = _as_sent(value, body[key])
                if sent is not value:
                    changed[key] = sent
        return {**obj, **changed} if changed else obj
    if isinstance(obj, list) and isinstance(body, list) and len(obj) == len(body):
        elements = [_as_sent(element, other) for element, other in zip(obj, body, strict=True)]
        return (
            elements
            if any(element is not other for element, other in zip(elements, obj, strict=True))
            else obj
        )
    return body if obj is None and body in ([], {}) else obj


def without_entries(obj: JsonValue) -> JsonValue:
    """The object without its entries; the given one is not changed."""
    if not isinstance(obj, dict) or not isinstance(metadata := obj.get("metadata"), dict):
        return obj
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def put_entries(obj: JsonObject, entries: list[JsonValue]) -> None:
    """Let an object carry these entries, or none."""
    metadata = obj.setdefault("metadata", {})
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
        if entries:
            metadata["managedFields"] = entries


def _path_of(served: ServedResource) -> tuple[str, ...]:
    """Where a custom kind has its replicas; empty for none."""
    path = text(served.custom.scale, "specReplicasPath") if served.custom else ""
    return tuple(f"f:{part}" for part in path.split(".") if part)
