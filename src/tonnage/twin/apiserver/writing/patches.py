"""Patches as the server applies them: which kind of patch, and what it says of one that leads to no object.

Source: apiserver's endpoints/handlers/patch.go, apimachinery's runtime/converter.go (v1.35).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

from tonnage.decide.kubernetes.api.encoding.body import BodyError, repeated_fields, strict_error
from tonnage.decide.kubernetes.api.encoding.scalars import describe
from tonnage.decide.kubernetes.api.go_text import go_map
from tonnage.decide.kubernetes.api.patches.json_patches import json_patch, merge_patch, operation_complaints
from tonnage.decide.kubernetes.api.patches.strategic_merge import strategic_merge
from tonnage.decide.kubernetes.api.problems import InvalidError, invalid, invalid_status
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import copied
from tonnage.ports.kubernetes import PatchType
from tonnage.twin.apiserver.requests import ApiRequest, FieldValidation
from tonnage.twin.apiserver.resources import ServedResource
from tonnage.twin.apiserver.statuses import bad_request
from tonnage.twin.apiserver.writing.apply_bodies import no_patch
from tonnage.twin.apiserver.writing.pipeline import Change, Unreadable
from tonnage.wire.schema import Schema

_WRONG_TYPE: Final = re.compile(r"json: cannot unmarshal (\w+)(?: (\S+))? into Go .* of type (.+)")
_NUMBERS: Final = frozenset({"int32", "int64", "float64"})
_SCALARS: Final = frozenset({"string", "bool"}) | _NUMBERS


def patched(
    schema: Schema, served: ServedResource, subresource: str, patch_type: PatchType, patch: JsonValue
) -> Change:
    """The change that a patch is. Raises ApiError 400, 415; the change itself raises PatchError."""
    match patch_type:
        case PatchType.JSON:
            return lambda old: json_patch(old, patch)
        case PatchType.MERGE:
            return lambda old: merge_patch(old, patch)
        case PatchType.STRATEGIC:
            return _strategic(schema, served, subresource, patch)
        case PatchType.APPLY:  # it goes by its manager's last one, which a patch knows nothing of
            raise no_patch(served)


def _strategic(schema: Schema, served: ServedResource, subresource: str, patch: JsonValue) -> Change:
    if served.custom is not None:
        raise no_patch(served)
    if patch is None:
        return copied
    if not isinstance(patch, dict):
        described = describe(patch)
        raise bad_request(
            f"json: cannot unmarshal {described} into Go value of type map[string]interface {{}}"
        )
    type_name = "autoscaling/v1.Scale" if subresource == "scale" else served.row.type
    # The converter that strategic patches go through heeds neither kind nor version.
    kind = {"kind", "apiVersion"}
    changes: JsonObject = {key: value for key, value in patch.items() if key not in kind}
    return lambda old: _by_key(strategic_merge(schema, type_name, old, changes))


def _by_key(value: JsonValue) -> JsonValue:
    """A document with its keys in order, in which the converter tells of fields that it does not know."""
    match value:
        case dict():
            return {key: _by_key(value[key]) for key in sorted(value)}
        case list():
            return [_by_key(element) for element in value]
        case _:
            return value


def strictly(
    change: Change,
    request: ApiRequest,
    complaints: tuple[str, ...],
    unreadable: Unreadable,
    read: Callable[[JsonValue], object],
) -> Change:
    """The change that warns of what strict reading has against its patch, or refuses it.

    `read` reads the object that comes of it, strictly.
    """

    def changed(old: JsonObject) -> JsonValue:
        body = change(old)
        match request.options.field_validation:
            case FieldValidation.WARN:
                request.notes.warn(*complaints)
            case FieldValidation.STRICT if complaints:
                raise unreadable(body, _with_complaints(complaints, body, read))
        return body

    return changed


def _with_complaints(
    complaints: tuple[str, ...], body: JsonValue, read: Callable[[JsonValue], object]
) -> BodyError:
    """The refusal of a patch with what is wrong with the object that comes of it."""
    try:
        read(body)
    except BodyError as error:
        detail = error.detail.removeprefix(strict_error(()))
        return BodyError(strict_error((*complaints, detail))) if detail != error.detail else error
    return BodyError(strict_error(complaints))


def strict_complaints(patch_type: PatchType, patch: JsonValue) -> tuple[str, ...]:
    """What strict reading has against the patch itself, whatever it is applied to."""
    return operation_complaints(patch) if patch_type is PatchType.JSON else tuple(repeated_fields(patch))


def unreadable_patch(schema: Schema, patch_type: PatchType, patch: JsonValue) -> Unreadable:
    """What is said when a patch makes something that is no object of the kind: 422, never 400."""

    def refusal(body: JsonValue, error: BodyError) -> InvalidError:
        if patch_type is PatchType.STRATEGIC and isinstance(patch, dict):
            shown, detail = go_map(patch), converter_text(schema, error.detail)
        else:
            shown, detail = (
                json.dumps(_read(body, patch), separators=(",", ":"), ensure_ascii=False),
                error.detail,
            )
        return InvalidError(invalid_status(None, "", (invalid("patch", shown, detail),)))

    return refusal


def _read(body: JsonValue, patch: JsonValue) -> JsonValue:
    """A document as the library of patches writes it: the maps that it has changed are sorted."""
    if not isinstance(body, dict):
        return body
    changes = patch if isinstance(patch, dict) else {}
    return {key: _read(body[key], changes[key]) if key in changes else body[key] for key in sorted(body)}


def converter_text(schema: Schema, detail: str) -> str:
    """A decoder's complaint about a type in the words of the converter that strategic patches go through.

    `detail` is `json: cannot unmarshal string into Go struct field S.f of type int32`; other texts stay.
    """
    match = _WRONG_TYPE.fullmatch(detail)
    if match is None:
        return detail
    json_type, number, target = match[1], match[2] or "", match[3]
    go_type = {"number": "float64" if "." in number else "int64", "object": "map", "array": "slice"}.get(
        json_type, json_type
    )
    if target.startswith("[]"):
        return f"cannot restore slice from {go_type}"
    if target.startswith("map[") or target.rpartition(".")[2] == "ResourceList":
        return f"cannot restore map from {go_type}"
    if target not in _SCALARS and any(name.endswith(f"/{target}") for name in schema.types):
        return f"cannot restore struct from: {go_type}"
    plain = target if target in _SCALARS else "string"
    if (go_type == "int64" and plain == "string") or {go_type, plain} <= _NUMBERS:
        return f"cannot convert {go_type} to {target}"
    return f"unrecognized type: {plain}"
