"""What is wrong with a field, in the server's words, and the 422 that gathers it.

Source: k8s.io/apimachinery (util/validation/field, api/errors).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tonnage.decide.kubernetes.api.go_text import go_float
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.wire.schema import KindRow


class FieldErrorType(StrEnum):
    """What sort of wrong; the value is the cause's reason in a Status."""

    INVALID = "FieldValueInvalid"
    TYPE_INVALID = "FieldValueTypeInvalid"
    REQUIRED = "FieldValueRequired"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    DUPLICATE = "FieldValueDuplicate"
    NOT_FOUND = "FieldValueNotFound"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    INTERNAL = "InternalError"


_WORDS = {
    FieldErrorType.INVALID: "Invalid value",
    FieldErrorType.TYPE_INVALID: "Invalid value",
    FieldErrorType.REQUIRED: "Required value",
    FieldErrorType.NOT_SUPPORTED: "Unsupported value",
    FieldErrorType.FORBIDDEN: "Forbidden",
    FieldErrorType.DUPLICATE: "Duplicate value",
    FieldErrorType.NOT_FOUND: "Not found",
    FieldErrorType.TOO_LONG: "Too long",
    FieldErrorType.TOO_MANY: "Too many",
    FieldErrorType.INTERNAL: "Internal error",
}
_VALUELESS = (
    FieldErrorType.REQUIRED,
    FieldErrorType.FORBIDDEN,
    FieldErrorType.TOO_LONG,
    FieldErrorType.INTERNAL,
)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with one field, `field` as `spec.containers[0].name`."""

    type: FieldErrorType
    field: str
    value: JsonValue
    detail: str
    bare: bool = False
    """The value is not shown."""

    @property
    def body(self) -> str:
        """The message without the field, as a Status' cause has it."""
        words = _WORDS[self.type]
        if self.type not in _VALUELESS and not self.bare:
            words = f"{words}: {rendered(self.value)}"
        return f"{words}: {self.detail}" if self.detail else words

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


Errors = tuple[FieldError, ...]


def rendered(value: JsonValue) -> str:
    """A value as Go prints it in a message: strings quoted, objects as compact JSON."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case dict() | list():
            text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
            return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
        case None:
            return "null"
        case float():
            return go_float(value)
        case _:
            return str(value)


def quoted(text: str) -> str:
    """Text in double quotes, escaped as Go's %q does."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    for plain, name in (
        ("\n", "n"),
        ("\t", "t"),
        ("\r", "r"),
        ("\a", "a"),
        ("\b", "b"),
        ("\f", "f"),
        ("\v", "v"),
    ):
        escaped = escaped.replace(plain, f"\\{name}")
    return '"' + "".join(c if c.isprintable() else _escape(c) for c in escaped) + '"'


def _escape(letter: str) -> str:
    code = ord(letter)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def invalid(field: str, value: JsonValue, detail: str) -> FieldError:
    """A value that breaks a rule."""
    return FieldError(FieldErrorType.INVALID, field, value, detail)


def required(field: str, detail: str = "") -> FieldError:
    """A value that is missing."""
    return FieldError(FieldErrorType.REQUIRED, field, "", detail)


def forbidden(field: str, detail: str) -> FieldError:
    """A value that must not be there."""
    return FieldError(FieldErrorType.FORBIDDEN, field, "", detail)


def duplicate(field: str, value: JsonValue) -> FieldError:
    """A value that stands twice."""
    return FieldError(FieldErrorType.DUPLICATE, field, value, "")


def not_found(field: str, value: JsonValue) -> FieldError:
    """A reference to something that is not there."""
    return FieldError(FieldErrorType.NOT_FOUND, field, value, "")


def unsupported(field: str, value: JsonValue, supported: Iterable[str]) -> FieldError:
    """A value outside a fixed set; the set is listed in the order given."""
    listed = ", ".join(quoted(choice) for choice in supported)
    return FieldError(
        FieldErrorType.NOT_SUPPORTED, field, value, f"supported values: {listed}" if listed else ""
    )


def too_long(field: str, longest: int) -> FieldError:
    """A text or a map of texts beyond its bound, in bytes."""
    unit = "byte" if longest == 1 else "bytes"
    return FieldError(FieldErrorType.TOO_LONG, field, "", f"may not be more than {longest} {unit}")


def too_many(field: str, count: int, most: int) -> FieldError:
    """A list beyond its bound."""
    unit = "item" if most == 1 else "items"
    return FieldError(FieldErrorType.TOO_MANY, field, count, f"must have at most {most} {unit}")


def internal(field: str, why: str) -> FieldError:
    """A check that could not be made."""
    return FieldError(FieldErrorType.INTERNAL, field, "", why)


def complaints(field: str, value: JsonValue, texts: Iterable[str]) -> Errors:
    """An Invalid for each complaint about a value."""
    return tuple(invalid(field, value, text) for text in texts)


class InvalidError(ApiError):
    """422 with every error found; `status` is the Status object."""

    def __init__(self, status: JsonObject) -> None:
        super().__init__(422, "Invalid", str(status["message"]))
        self.status = status


def _own_group(kind_row: KindRow) -> str:
    """The group under which the server holds a kind, as refusals name it: Events are of the core."""
    return "" if kind_row.group == "events.k8s.io" else kind_row.group


def invalid_message(kind_row: KindRow | None, name: str, errors: Errors) -> str:
    """`Pod "x" is invalid: [a, b]`; one error stands without brackets, the same text only once."""
    kind, group = ("", "") if kind_row is None else (kind_row.kind, _own_group(kind_row))
    qualified = f"{kind}.{group}" if group else kind
    texts = list(dict.fromkeys(str(error) for error in errors))
    shown = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return f"{qualified} {quoted(name)} is invalid: {shown}"


def invalid_status(kind_row: KindRow | None, name: str, errors: Errors) -> JsonObject:
    """The Status 422 that the server answers with; without a kind for a patch that does not decode."""
    causes: list[JsonValue] = [
        {"reason": error.type.value, "message": error.body, "field": error.field} for error in errors
    ]
    details: JsonObject = {}
    if name:
        details["name"] = name
    if kind_row is not None:
        group = _own_group(kind_row)
        details |= {"group": group, "kind": kind_row.kind} if group else {"kind": kind_row.kind}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": invalid_message(kind_row, name, errors),
        "reason": "Invalid",
        "details": {**details, "causes": causes},
        "code": 422,
    }
