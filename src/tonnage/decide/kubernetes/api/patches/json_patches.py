"""The patches that the server applies: JSON patch and JSON merge patch; strategic merge has its own module.

Source: RFC 6902, RFC 7386, github.com/evanphx/json-patch v4, k8s.io/apiserver (endpoints/handlers/patch.go).
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Final

from tonnage.decide.kubernetes.api.encoding.body import copy_json, repeated_fields
from tonnage.decide.kubernetes.api.encoding.scalars import describe
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject, JsonValue

MOST_OPERATIONS: Final = 10_000
LARGEST_COPIES: Final = 3 * 1024 * 1024
"""Values that a JSON patch may copy, in bytes of JSON together."""
REJECTED: Final = "the server rejected our request due to an error in our request"
_TEXTS: Final = ("op", "path", "from")
_MEMBERS: Final = frozenset({*_TEXTS, "value"})
_INDEX: Final = re.compile(r"[+-]?[0-9]+")


_REASONS: Final = {400: "BadRequest", 422: "Invalid", 500: ""}


class PatchError(ApiError):
    """A patch that cannot be read (400; 500 where upstream has no code for it) or does not apply (422)."""

    def __init__(self, detail: str, *, code: int = 422, message: str | None = None) -> None:
        default_message = REJECTED if code == 422 else detail
        super().__init__(code, _REASONS[code], message or default_message)
        self.detail = detail


def merge_patch(target: JsonValue, patch: JsonValue) -> JsonValue:
    """The target after an RFC 7386 patch; neither is changed.

    >>> merge_patch({"a": 1, "b": {"c": 2}}, {"a": None, "b": {"d": 3}})
    {'b': {'c': 2, 'd': 3}}
    """
    if not isinstance(patch, dict):
        return patch
    merged: JsonObject = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(target: JsonObject, operations: JsonValue) -> JsonObject:
    """The target after an RFC 6902 patch; it is not changed.

    As in the server's library, `replace` sets a key that an object lacks, and negative indices count from
    the end.

    >>> json_patch({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}])
    {'a': [1, 2]}

    Raises:
        PatchError: the operations cannot be read (400), or one does not apply (422).
        ApiError: 413, more operations than the server takes.
    """
    if operations is None:
        operations = []
    if (wrong := _unreadable(operations)) or not isinstance(operations, list):
        raise PatchError(f"error decoding patch: json: cannot unmarshal {wrong}", code=400)
    if len(operations) > MOST_OPERATIONS:
        most = f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(operations)}"
        raise ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {most}")
    document = copy_json(target)
    copied = 0
    for operation in operations:
        if not isinstance(operation, dict):
            raise PatchError("Unexpected kind: unknown")
        if operation.get("op") == "copy":
            copied += len(str(_look_up(document, operation, "from")[1]))
            if copied > LARGEST_COPIES:
                raise PatchError("copy operations exceed the limit of accumulated copies")
        document = _applied(document, operation)
    if not isinstance(document, dict):
        raise PatchError("the patched document is not an object")
    return document


def operation_complaints(operations: JsonValue) -> tuple[str, ...]:
    """What strict reading has against the operations: members that they have not, or have twice.

    >>> operation_complaints([{"op": "remove", "path": "/a", "why": 1}])
    ('json patch unknown field "[0].why"',)
    """
    unknown = (
        f'unknown field "[{index}].{key}"'
        for index, operation in enumerate(operations if isinstance(operations, list) else ())
        if isinstance(operation, dict)
        for key in operation
        if key not in _MEMBERS
    )
    return tuple(f"json patch {words}" for words in (*unknown, *repeated_fields(operations)))


def _unreadable(operations: JsonValue) -> str:
    """What is no list of operations, and where it stands; empty if it is one."""
    if not isinstance(operations, list):
        return f"{describe(operations)} into Go value of type []handlers.jsonPatchOp"
    for operation in operations:
        if not isinstance(operation, dict | None):
            return f"{describe(operation)} into Go value of type handlers.jsonPatchOp"
        for key in _TEXTS:
            if operation and not isinstance(operation.get(key), str | None):
                return f"{describe(operation[key])} into Go struct field jsonPatchOp.{key} of type string"
    return ""


def _applied(document: JsonValue, operation: JsonObject) -> JsonValue:
    """The document after one operation; it may be changed in place."""
    kind, value = operation.get("op"), copy_json(operation.get("value"))
    match kind:
        case "add":
            _add(document, operation, value)
        case "remove":
            _remove(document, operation, "path")
        case "replace" if operation.get("path") == "":
            return value
        case "replace":
            _replace(document, operation, value)
        case "move":
            value = _look_up(document, operation, "from")[1]
            _remove(document, operation, "from")
            _add(document, operation, value)
        case "copy":
            _add(document, operation, copy_json(_look_up(document, operation, "from")[1]))
        case "test":
            _test(document, operation)
        case _:
            raise PatchError(f"Unexpected kind: {kind}")
    return document


def _holder(document: JsonValue, operation: JsonObject, key: str) -> tuple[JsonObject | list[JsonValue], str]:
    """What holds the place that the operation's `path` or `from` names, and the last token."""
    kind, pointer = operation.get("op"), operation.get(key)
    if not isinstance(pointer, str):
        raise PatchError(f"{kind} operation failed to decode {key}: missing value")
    tokens = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")]
    holder: JsonValue = document if len(tokens) > 1 else None
    for token in tokens[1:-1]:
        holder = _child(holder, token)
    if not isinstance(holder, (dict, list)):
        raise PatchError(f'{kind} operation does not apply: doc is missing path: "{pointer}": missing value')
    return holder, tokens[-1]


def _child(holder: JsonValue, token: str) -> JsonValue:
    if isinstance(holder, dict):
        return holder.get(token)
    if isinstance(holder, list) and _INDEX.fullmatch(token) and -len(holder) <= int(token) < len(holder):
        return holder[int(token)]
    return None


def _position(token: str, size: int) -> int:
    """Index in a list of that size; negative ones count from its end."""
    if not _INDEX.fullmatch(token):
        raise PatchError(f"value was not a proper array index: '{token}': invalid syntax")
    index = int(token)
    if not -size <= index < size:
        raise PatchError(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + size if index < 0 else index


def _look_up(document: JsonValue, operation: JsonObject, key: str) -> tuple[bool, JsonValue]:
    """Whether something stands there, and what."""
    holder, token = _holder(document, operation, key)
    if isinstance(holder, list):
        return True, holder[_position(token, len(holder))]
    return token in holder, holder.get(token)


def _add(document: JsonValue, operation: JsonObject, value: JsonValue) -> None:
    holder, token = _holder(document, operation, "path")
    if isinstance(holder, dict):
        holder[token] = value
    elif token == "-":  # noqa: S105 (of a JSON pointer)
        holder.append(value)
    else:
        holder.insert(_position(token, len(holder) + 1), value)


def _replace(document: JsonValue, operation: JsonObject, value: JsonValue) -> None:
    holder, token = _holder(document, operation, "path")
    if isinstance(holder, dict):
        holder[token] = value
    else:
        holder[_position(token, len(holder))] = value


def _remove(document: JsonValue, operation: JsonObject, key: str) -> None:
    holder, token = _holder(document, operation, key)
    if isinstance(holder, list):
        del holder[_position(token, len(holder))]
    elif token in holder:
        del holder[token]
    else:
        raise PatchError(f"Unable to remove nonexistent key: {token}: missing value")


def _test(document: JsonValue, operation: JsonObject) -> None:
    value = document if operation.get("path") == "" else _look_up(document, operation, "path")[1]
    if not same_json(value, operation.get("value")):
        raise PatchError(f"testing value {operation.get('path')} failed: test failed")


def identity(value: JsonValue) -> Hashable:
    """What is equal for values that are the same JSON, and for no others."""
    if isinstance(value, dict):
        return dict, frozenset((key, identity(inner)) for key, inner in value.items())
    if isinstance(value, list):
        return list, tuple(map(identity, value))
    return (bool, value) if isinstance(value, bool) else value


def same_json(first: JsonValue, other: JsonValue) -> bool:
    """Whether two values are the same JSON; in Python alone `True == 1`."""
    if isinstance(first, bool) or isinstance(other, bool):
        return first is other
    if isinstance(first, dict) and isinstance(other, dict):
        return first.keys() == other.keys() and all(
            same_json(value, other[key]) for key, value in first.items()
        )
    if isinstance(first, list) and isinstance(other, list):
        return len(first) == len(other) and all(map(same_json, first, other))
    return first == other
