"""Whether an API server would create an object, and what it would say: decode, default, prepare, validate.

Admission, which may complete or forbid an object between those steps, is `decide.kubernetes.admission`'s.
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api.custom.definitions import CustomDefinition, CustomDefinitions
from tonnage.decide.kubernetes.api.defaults.apply import apply_defaults
from tonnage.decide.kubernetes.api.encoding.body import BodyError
from tonnage.decide.kubernetes.api.encoding.decode import decode
from tonnage.decide.kubernetes.api.problems import Errors, invalid_message
from tonnage.decide.kubernetes.api.strategies.by_kind import ON_CREATE
from tonnage.decide.kubernetes.api.strategies.feature_gates import drop_gated
from tonnage.decide.kubernetes.api.strategies.identity import (
    CREATED_WITH_STATUS,
    drop_identity,
    generated_name,
)
from tonnage.decide.kubernetes.api.strategies.pods import complete_pod
from tonnage.decide.kubernetes.api.strategies.services import drop_for_type, pair_addresses
from tonnage.decide.kubernetes.api.validate import validate_create
from tonnage.decide.kubernetes.api.validation.metadata import custom_metadata
from tonnage.decide.kubernetes.api.warnings.by_kind import notices
from tonnage.model.json import JsonObject
from tonnage.model.json_access import mapping, put, text
from tonnage.model.kubernetes.api_answer import ApiAnswer, ApiFault
from tonnage.model.kubernetes.feature_gates import DEFAULT_GATES, FeatureGates
from tonnage.wire.schema import KindRow, load_schema

_POD: Final = ("", "pods")
_SERVICE: Final = ("", "services")
_READABLE_VERBS: Final = frozenset({"create", "get"})
"""Verbs of kinds whose objects are kept: others are questions and orders."""
_UID: Final = "00000000-5eed-4000-8000-000000000000"
_SUFFIX: Final = "zzzzz"
_NOW: Final = "2026-01-01T00:00:00Z"
_WHOLE: Final = "<nil>"
"""The field of what is wrong with an object as a whole."""
_UNCHECKED: Final = "some validation rules were not checked"
_OPEN: Final = "…"
"""For what the server makes up: the end of a generated name, a uid."""


def answer_to_create(
    body: JsonObject,
    namespace: str,
    definitions: CustomDefinitions | None = None,
    *,
    strict: bool = True,
    gates: FeatureGates = DEFAULT_GATES,
) -> ApiAnswer | None:
    """What the server answers to a request, by default a strict one; None for a kind that is never created.

    `namespace` is that of the request where the object names none. An object of a custom kind is judged by
    its definition, where `definitions` have that; else only its metadata is, and nothing of what has no name,
    which is no object but a program's configuration.
    """
    group, _, version = text(body, "apiVersion").rpartition("/")
    schema = load_schema()
    row = schema.kind(group, version, text(body, "kind"))
    if row is None:
        definition = (definitions or {}).get((group, version, text(body, "kind")))
        if definition is not None:
            return _answer_by_definition(body, definition, namespace, strict=strict)
        return _answer_to_custom(body, KindRow(group, version, text(body, "kind"), "", "", True, (), ""))
    if not row.type or not _READABLE_VERBS.issubset(row.verbs):
        return None
    space = text(body, "metadata", "namespace") or namespace if row.namespaced else ""
    try:
        decoded = decode(schema, row.type, body, strict=strict, stored=True).value
    except BodyError as error:
        if not strict:
            return ApiAnswer(error.message, namespace=space)
        later = answer_to_create(body, namespace, definitions, strict=False, gates=gates)
        return ApiAnswer(error.message, namespace=space, later=later.faults if later else ())
    obj = apply_defaults(schema, row, decoded)
    prefix = _identify(obj, space)
    warnings = _prepare(row, obj, gates)
    errors = validate_create(row, obj)
    if not errors:
        warnings = (*warnings, *notices((row.group, row.plural), "", obj, None))
    return _answer(row, obj, errors, prefix, warnings, space)


def _answer(
    row: KindRow, obj: JsonObject, errors: Errors, prefix: str, warnings: tuple[str, ...], space: str
) -> ApiAnswer:
    if not errors:
        return ApiAnswer(warnings=warnings, namespace=space)
    message = invalid_message(row, text(obj, "metadata", "name"), errors)
    faults = tuple(
        ApiFault(error.field.removeprefix(_WHOLE), _opened(error.body, prefix))
        for error in errors
        if not error.detail.startswith(_UNCHECKED)
    )
    return ApiAnswer(_opened(message, prefix), faults, warnings, space)


def _answer_by_definition(
    body: JsonObject, definition: CustomDefinition, namespace: str, *, strict: bool
) -> ApiAnswer:
    """The answer by the schema and its rules; CEL is loaded for these alone."""
    from tonnage.decide.kubernetes.api.custom.creation import decoded_object, problems_of

    space = text(body, "metadata", "namespace") or namespace if definition.namespaced else ""
    try:
        obj = decoded_object(definition, body, strict=strict)
    except BodyError as error:
        if not strict:
            return ApiAnswer(error.message, namespace=space)
        later = _answer_by_definition(body, definition, namespace, strict=False)
        return ApiAnswer(error.message, namespace=space, later=later.faults)
    prefix = _identify(obj, space)
    plural, namespaced = definition.plural, definition.namespaced
    row = KindRow(definition.group, definition.version, definition.kind, plural, "", namespaced, (), "")
    errors = (*custom_metadata(obj), *problems_of(definition, obj))
    return _answer(row, obj, errors, prefix, (), space)


def _answer_to_custom(body: JsonObject, row: KindRow) -> ApiAnswer | None:
    """The answer by the metadata alone; None where that is no custom kind's, or has no name."""
    named = text(body, "metadata", "name") or text(body, "metadata", "generateName")
    built_in = {group for group, _, _ in load_schema().index}
    if "." not in row.group or "/" in row.group or row.group in built_in or not named:
        return None
    space = text(body, "metadata", "namespace")
    obj = {**body, "metadata": {**mapping(body, "metadata")}}
    prefix = _identify(obj, space)
    return _answer(row, obj, tuple(custom_metadata(obj)), prefix, (), space)


def _identify(obj: JsonObject, namespace: str) -> str:
    """Give the object what the server gives every new one; the name that was made up, if one was."""
    metadata = mapping(obj, "metadata")
    obj["metadata"] = metadata
    drop_identity(obj)
    # A server refuses to create what has a version, but a file that was exported is meant to be applied.
    for key in ("resourceVersion", "managedFields", "namespace"):
        metadata.pop(key, None)
    if namespace:
        metadata["namespace"] = namespace
    made = ""
    if not text(metadata, "name") and (prefix := text(metadata, "generateName")):
        made = metadata["name"] = generated_name(prefix, _SUFFIX)
    metadata |= {"uid": _UID, "creationTimestamp": _NOW}
    return made


def _prepare(row: KindRow, obj: JsonObject, gates: FeatureGates) -> tuple[str, ...]:
    """What the kind's strategy and the admission of accounts do to every object; warnings about it."""
    resource = (row.group, row.plural)
    if resource not in CREATED_WITH_STATUS:
        obj.pop("status", None)
    if rule := ON_CREATE.get(resource):
        rule(obj, None)
    drop_gated(resource, obj, {}, gates)
    if resource == _SERVICE:
        pair_addresses(mapping(obj, "spec"), {})
        drop_for_type(mapping(obj, "spec"), {})
    if resource != _POD:
        return ()
    if not text(obj, "spec", "serviceAccountName"):
        put(obj, "default", "spec", "serviceAccountName")
    return tuple(complete_pod(obj))


def _opened(message: str, made: str) -> str:
    """The words with what nobody can foresee left open."""
    message = message.replace(_UID, _OPEN)
    return message.replace(made, made.removesuffix(_SUFFIX) + _OPEN) if made else message
