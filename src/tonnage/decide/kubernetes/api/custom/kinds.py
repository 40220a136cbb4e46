"""Types of what a custom kind's schema describes, as rules in CEL know it.

Source: k8s.io/apiserver pkg/cel/common (schemas.go), pkg/cel (escaping.go, limits.go), v1.35.
"""

from __future__ import annotations

import re
from typing import Final

from tonnage.decide.kubernetes.api.custom.structural import EMBEDDED
from tonnage.decide.kubernetes.cel.types.kinds import CelKind
from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, flag, items, mapping, text, texts

LARGEST_REQUEST: Final = 3 * 1024 * 1024
"""Bytes of a request."""
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_NUMBERS: Final = {"number": CelKind("double", least=1), "integer": CelKind("int", least=1)}
_FORMATS: Final = {
    "duration": CelKind("duration", most=32, least=3),
    "date": CelKind("timestamp", most=12, least=12),
    "date-time": CelKind("timestamp", most=32, least=21),
}
_TEXT: Final = CelKind("string", most=LARGEST_REQUEST - 2, least=2)
_META: Final = CelKind("object", fields=(("name", _TEXT), ("generateName", _TEXT)), least=2)
_WHOLE: Final = {"kind": _TEXT, "apiVersion": _TEXT, "metadata": _META}
RESERVED: Final = frozenset(
    {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"}
    | {"import", "let", "loop", "package", "namespace", "return", "var", "void", "while"}
)
_ESCAPES: Final = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_./-]*")


def identifiers(name: str) -> tuple[str, ...]:
    """What rules may call a property.

    >>> identifiers("a-b"), identifiers("namespace")
    (('a__dash__b',), ('__namespace__', 'namespace'))
    """
    if name in RESERVED:
        return f"__{name}__", name
    for plain, escape in _ESCAPES:
        name = name.replace(plain, escape)
    return (name,)


def kind_of(schema: JsonObject, *, root: bool = False) -> CelKind | None:
    """The type of what a schema describes; None of what rules cannot see."""
    if flag(schema, _INT_OR_STRING):
        longest = at(schema, "maxLength")
        return CelKind(
            "dyn", most=_times_four(longest) if isinstance(longest, int) else LARGEST_REQUEST - 2, least=1
        )
    match text(schema, "type"):
        case "array":
            return _list(schema)
        case "object":
            return (
                _map(schema)
                if isinstance(schema.get("additionalProperties"), dict)
                else _object(schema, root)
            )
        case "string":
            return _string(schema)
        case "boolean":
            return CelKind("bool", least=4)
        case name:
            return _NUMBERS.get(name)


def _held(schema: JsonObject, key: str) -> CelKind | None:
    inner = mapping(schema, key)
    return kind_of(inner, root=flag(inner, EMBEDDED))


def _list(schema: JsonObject) -> CelKind | None:
    element = _held(schema, "items")
    if element is None:
        return None
    most = at(schema, "maxItems")
    bound = max(most, 0) if isinstance(most, int) else (LARGEST_REQUEST - 2) // (element.least + 1)
    return CelKind("list", element, most=bound, least=2)


def _map(schema: JsonObject) -> CelKind | None:
    element = _held(schema, "additionalProperties")
    if element is None:
        return None
    most = at(schema, "maxProperties")
    bound = max(most, 0) if isinstance(most, int) else (LARGEST_REQUEST - 2) // (element.least + 6)
    return CelKind("map", element, most=bound, least=2)


def _object(schema: JsonObject, root: bool) -> CelKind:
    required, least = texts(schema, "required"), 2
    fields: dict[str, CelKind] = {}
    for name, inner in mapping(schema, "properties").items():
        if not isinstance(inner, dict):
            continue
        kind = _WHOLE[name] if root and name in _WHOLE else kind_of(inner, root=flag(inner, EMBEDDED))
        if kind is None:
            continue
        if _NAME.fullmatch(name):
            fields |= dict.fromkeys(identifiers(name), kind)
        if name in required and at(inner, "default") is None:
            least += len(name.encode()) + kind.least + 4
    if root:
        fields = {**_WHOLE, **fields}
    return CelKind("object", fields=tuple(fields.items()), least=least)


def _string(schema: JsonObject) -> CelKind:
    form, longest = text(schema, "format"), at(schema, "maxLength")
    if form in _FORMATS:
        return _FORMATS[form]
    if form == "byte":
        return CelKind(
            "bytes", most=max(longest, 0) if isinstance(longest, int) else LARGEST_REQUEST - 2, least=2
        )
    if isinstance(longest, int):
        return CelKind("string", most=_times_four(longest), least=2)
    allowed = items(schema, "enum")
    most = (
        max((len(choice.encode()) for choice in allowed if isinstance(choice, str)), default=0)
        if allowed
        else _TEXT.most
    )
    return CelKind("string", most=most, least=2)


def _times_four(length: int) -> int:
    return max(length, 0) * 4
