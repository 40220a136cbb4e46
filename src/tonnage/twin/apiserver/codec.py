"""What bodies become: objects by the schema of their kind, built in or custom, in the version asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from tonnage.decide.kubernetes.api.custom.changes import BLOCKING, UNCHECKED, schema_problems_of
from tonnage.decide.kubernetes.api.custom.counts import scale_problems
from tonnage.decide.kubernetes.api.custom.rules import has_rules, rule_problems
from tonnage.decide.kubernetes.api.custom.values import decode_custom, prune, with_defaults
from tonnage.decide.kubernetes.api.defaults.apply import Defaults
from tonnage.decide.kubernetes.api.encoding.body import BodyError, Repeated
from tonnage.decide.kubernetes.api.encoding.decode import decode
from tonnage.decide.kubernetes.api.encoding.field_order import ObjectShapes, in_order_of_names
from tonnage.decide.kubernetes.api.encoding.protobuf import type_of
from tonnage.decide.kubernetes.api.encoding.quick_decode import QuickDecoder
from tonnage.decide.kubernetes.api.problems import Errors, invalid
from tonnage.decide.kubernetes.api.validate import validate_create, validate_update
from tonnage.decide.kubernetes.api.validation.custom.definitions import format_cautions
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mapping, text
from tonnage.twin.apiserver.requests import FieldValidation
from tonnage.twin.apiserver.resources import (
    COMPONENTS,
    CustomVersion,
    Registry,
    ServedResource,
    internal_package,
)
from tonnage.twin.apiserver.statuses import bad_request
from tonnage.twin.apiserver.versions.autoscalers import first_autoscaler, is_first, stored_autoscaler
from tonnage.twin.apiserver.versions.events import RENAMED, renamed_event, stored_event
from tonnage.wire.schema import KindRow, Schema

_ONCE = ("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition")
"""A kind that a server still knows in a version that it serves no more."""
_SCHEME = "pkg/runtime/scheme.go:111"
_OWN_SCHEMES = frozenset({"apiextensions.k8s.io", "apiregistration.k8s.io"})
"""Groups of servers within the server, which know no other groups' kinds."""


class Codec:
    """The decode, default and validate stages of the pipeline."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._empty: dict[str, JsonObject] = {}
        self._shapes = ObjectShapes(registry.schema)

    @cached_property
    def _quick(self) -> QuickDecoder:
        return QuickDecoder(self._schema)

    @cached_property
    def _defaults(self) -> Defaults:
        return Defaults(self._schema)

    @cached_property
    def _schema(self) -> Schema:
        return self.registry.schema

    def decode(
        self, served: ServedResource, body: JsonValue, validation: FieldValidation
    ) -> tuple[JsonObject, tuple[str, ...]]:
        """A new object of the kind, and warnings of fields that it has not. Raises ApiError 400."""
        body = self._of_kind(served, body)
        strict = validation is FieldValidation.STRICT
        if served.custom is not None:
            decoded = decode_custom(self._schema, served.custom.schema, body, strict=strict)
        elif (usual := self._quick.read(served.row.type, body)) is not None:
            return usual, ()
        else:
            decoded = decode(self._schema, served.row.type, body, strict=strict, stored=True)
        return decoded.value, decoded.unknown if validation is FieldValidation.WARN else ()

    def _of_kind(self, served: ServedResource, body: JsonValue) -> JsonObject:
        """The body with its apiVersion and kind, which may be left out. Raises BodyError for another kind."""
        if not isinstance(body, dict):
            raise bad_request("the body of the request is not a JSON object")
        row = served.row
        version, kind = text(body, "apiVersion") or row.api_version, text(body, "kind") or row.kind
        if served.custom is not None and text(body, "kind") and not text(body, "apiVersion"):
            raise _other_version("", row.api_version)
        if served.custom is None and (version, kind) != (row.api_version, row.kind):
            raise self._other_kind(served, version, kind, body)
        if text(body, "apiVersion") and text(body, "kind"):
            return body
        named: JsonObject = {"apiVersion": version, "kind": kind}
        whole = {**named, **body, **named}
        return body.with_others(whole) if isinstance(body, Repeated) else whole

    def _other_kind(self, served: ServedResource, version: str, kind: str, body: JsonObject) -> BodyError:
        """What is said of a body of another kind or version, once it could be read as one of that kind."""
        row = served.row
        last = version.rpartition("/")[2]
        subject = f'{kind} in version "{last}" cannot be handled as a {row.kind}'
        if version.count("/") > 1:
            return BodyError(f"unexpected GroupVersion string: {version}")
        foreign = row.group in _OWN_SCHEMES and version.rpartition("/")[0] != row.group
        if foreign or not self._is_known(version, kind):
            shown = version.removeprefix("/")
            words = f'no kind "{kind}" is registered for version "{shown}" in scheme "{_SCHEME}"'
            return BodyError(words, subject=subject)
        if kind == row.kind:
            return _other_version(version, row.api_version)
        if other := self._schema.kind(version.rpartition("/")[0], last, kind):
            decode(self._schema, other.type, body)
        expected = f"{internal_package(row.group)}.{row.kind}"
        return BodyError(f"converting ({last}.{kind}) to ({expected}): unknown conversion", subject=subject)

    def _is_known(self, version: str, kind: str) -> bool:
        listed = kind.removesuffix("List")
        return (version, listed) == _ONCE or type_of(self._schema, version, listed) is not None

    def default(self, served: ServedResource, obj: JsonObject) -> JsonObject:
        """The object, just decoded, with what the writer left out filled in."""
        if served.custom is None:
            self._defaults.fill(served.row.type, obj)
        if is_first(served.row.api_version, served.row.kind):
            # What its annotations say that no field does is read and written anew.
            return first_autoscaler(stored_autoscaler(obj))
        return obj

    def problems(
        self,
        served: ServedResource,
        obj: JsonObject,
        old: JsonObject | None,
        subresource: str,
        warn: Callable[[str], None] = lambda _words: None,
    ) -> Errors:
        """Every field that is wrong. `warn` is told of what was wrong before and has stayed as it was."""
        if served.custom is not None and (wrong := _wrong_type(served.row, obj)):
            return wrong
        if is_first(served.row.api_version, served.row.kind):
            obj, old = stored_autoscaler(obj), None if old is None else stored_autoscaler(old)
        elif served.row.api_version == RENAMED:
            obj, old = stored_event(obj), None if old is None else stored_event(old)
        errors = (
            validate_create(served.row, obj)
            if old is None
            else validate_update(served.row, obj, old, subresource)
        )
        if served.custom is None:
            if served.row.kind == "CustomResourceDefinition" and not errors and not subresource:
                for words in format_cautions(obj, old):
                    warn(words)
            return errors
        schema = served.custom.schema
        schema_errors = schema_problems_of(schema, obj, old, status=subresource == "status")
        if served.custom.scale is not None:
            schema_errors += tuple(
                scale_problems(served.custom.scale, obj, status_only=subresource == "status")
            )
        if any(error.type in BLOCKING for error in schema_errors):
            return (*errors, *schema_errors, *([UNCHECKED] if has_rules(schema) else []))
        broken, stayed = rule_problems(schema, obj, old)
        for words in stayed:
            warn(words)
        return (*errors, *schema_errors, *broken)

    def empty_status(self, served: ServedResource) -> JsonObject | None:
        """The status of an object that has none yet; None where the field is left out."""
        written = self.empty(served)
        return mapping(written, "status") if "status" in written else None

    def empty(self, served: ServedResource) -> JsonObject:
        """An object of which nothing is set, as it is written. Not to be changed."""
        name = served.row.type
        if not name:
            return {"apiVersion": served.row.api_version, "kind": served.row.kind}
        if name not in self._empty:
            body: JsonObject = {"apiVersion": served.row.api_version, "kind": served.row.kind}
            self._empty[name] = decode(self._schema, name, body).value
        return self._empty[name]

    def in_version(self, served: ServedResource, obj: JsonObject) -> JsonObject:
        """A stored object as the version of `served` shows it; the object itself where they are the same."""
        if served.key == COMPONENTS:
            return {**obj, "metadata": {"name": text(obj, "metadata", "name")}}
        if served.custom is not None and text(obj, "kind") == served.row.kind:
            return _custom_in_version(served, served.custom, obj)
        if text(obj, "apiVersion") == served.row.api_version or text(obj, "kind") not in (
            "",
            served.row.kind,
        ):
            return obj  # of this version already, or what a subresource speaks
        if served.row.api_version == RENAMED:
            return self._shapes.shaped(renamed_event(obj))
        if is_first(served.row.api_version, served.row.kind):
            return self._shapes.shaped(first_autoscaler(obj))
        if is_first(text(obj, "apiVersion"), served.row.kind):
            return self._shapes.shaped(stored_autoscaler(obj))
        return {**obj, "apiVersion": served.row.api_version}

    def converted(self, served: ServedResource, obj: JsonObject) -> JsonObject:
        """An object in the version of `served`, without what reading would fill in or leave out."""
        if served.custom is None:
            return self.in_version(served, obj)
        version = served.row.api_version
        return obj if obj.get("apiVersion") == version else {**obj, "apiVersion": version}

    def for_store(self, served: ServedResource, obj: JsonObject) -> JsonObject:
        """An object of the version of `served` as the store keeps it."""
        if served.row.api_version == RENAMED:
            return stored_event(obj)
        if is_first(served.row.api_version, text(obj, "kind")):
            return stored_autoscaler(obj)
        if served.custom is None or served.custom.storage_api_version == text(obj, "apiVersion"):
            return obj
        pruned = prune(served.custom.storage_schema, obj).value
        return {**pruned, "apiVersion": served.custom.storage_api_version}


def _other_version(version: str, expected: str) -> BodyError:
    words = f"the API version in the data ({version}) does not match the expected API version ({expected})"
    return BodyError(words)


def _wrong_type(row: KindRow, obj: JsonObject) -> Errors:
    """What is wrong with the kind that an object of a custom kind says of itself."""
    expected = (("kind", row.kind), ("apiVersion", row.api_version))
    return tuple(
        invalid(key, obj.get(key), f"must be {value}") for key, value in expected if obj.get(key) != value
    )


def _custom_in_version(served: ServedResource, custom: CustomVersion, obj: JsonObject) -> JsonObject:
    """An object as it is read: as the schema in which it is kept has it now, less what this version lacks."""
    written = int(text(obj, "metadata", "resourceVersion") or 0)
    same = text(obj, "apiVersion") == served.row.api_version
    if same and written >= custom.revision:
        return obj
    as_stored = text(obj, "apiVersion") == custom.storage_api_version
    schema = custom.storage_schema if as_stored else custom.schema
    converted = with_defaults(schema, prune(schema, obj).value)
    if not same and as_stored:
        converted = prune(custom.schema, converted).value
    return in_order_of_names({**converted, "apiVersion": served.row.api_version})
