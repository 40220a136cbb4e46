"""Rules in CEL that a custom kind's schema states (`x-kubernetes-validations`), and what breaks them.

A rule is compiled about the types of its schema, and estimated, when the definition is made; where it runs,
values have no types but scalars. What it costs then is not counted; the engine's own budget ends it.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/cel (v1.35).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from typing import Final

from tonnage.decide.kubernetes.api.custom.formats import span_of
from tonnage.decide.kubernetes.api.custom.kinds import identifiers
from tonnage.decide.kubernetes.api.custom.named_formats import FormatHost
from tonnage.decide.kubernetes.api.custom.structural import EMBEDDED, LIST_KEYS, LIST_TYPE, RULES
from tonnage.decide.kubernetes.api.custom.values import float_of
from tonnage.decide.kubernetes.api.patches.json_patches import same_json
from tonnage.decide.kubernetes.api.problems import Errors, FieldError, FieldErrorType, invalid, quoted
from tonnage.decide.kubernetes.cel.types.kinds import BOOL, DYN, INT, STRING, CelKind, KnownKinds
from tonnage.decide.kubernetes.claims.cel_errors import TOO_LONG, CelError, CelUnsupportedError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import flag, items, mapping, mappings, text, texts

_OLD: Final = re.compile(r"\boldSelf\b")
_OLD_OR_NONE: Final = "olds[?0]"
_TYPES: Final = {
    "boolean": BOOL,
    "integer": INT,
    "number": CelKind("double"),
    "string": STRING,
    "array": CelKind("list"),
}
_MOMENTS: Final = dict.fromkeys(("date-time", "datetime", "date"), CelKind("timestamp"))
_FORMATS: Final = {**_MOMENTS, "duration": CelKind("duration"), "byte": CelKind("bytes")}
_WHOLE: Final = ("apiVersion", "kind")
_LONGEST_MESSAGE: Final = 5 * 1024
_NO_FURTHER: Final = "no further validation rules will be run due to call cost exceeds limit for"


class _EndedError(Exception):
    """A rule has gone on for too long, after which none is asked."""

    def __init__(self, last: FieldError) -> None:
        super().__init__(str(last))
        self.verdict = last


@dataclass(slots=True)
class Findings:
    """What is wrong, and what was wrong before and has stayed."""

    errors: list[FieldError] = field(default_factory=list)
    stayed: list[str] = field(default_factory=list)


def rule_problems(
    kind_schema: JsonObject, obj: JsonObject, old: JsonObject | None
) -> tuple[Errors, list[str]]:
    """What breaks the rules of a schema, and what does so but did before and has not been touched."""
    findings = Findings()
    if has_rules(kind_schema):
        try:
            _level(_Place(kind_schema, "", root=True), obj, old, findings)
        except _EndedError as error:
            findings.errors.append(error.verdict)
    return tuple(findings.errors), findings.stayed


def has_rules(kind_schema: JsonObject) -> bool:
    """Whether a schema states any."""
    return next(listed_rules(kind_schema, ""), None) is not None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in an object the walk stands."""

    schema: JsonObject
    path: str
    root: bool = False

    def at(self, schema: JsonObject, path: str) -> _Place:
        return _Place(schema, path)


def _level(place: _Place, value: JsonValue, old: JsonValue, findings: Findings) -> None:
    """Rules of a value, then those of what is in it. `old` is None where nothing compares with it."""
    if value is None:
        return
    for rule in mappings(place.schema, RULES):
        error, failed = _broken(rule, place, value, old)
        if error is None:
            continue
        if not failed and old is not None and same_json(value, old) and not uses_old_self(rule):
            findings.stayed.append(str(error))
        else:
            findings.errors.append(error)
    for inner, part, before in _inside(place, value, old):
        _level(inner, part, before, findings)


def _inside(place: _Place, value: JsonValue, old: JsonValue) -> Iterator[tuple[_Place, JsonValue, JsonValue]]:
    schema, path = place.schema, place.path
    if isinstance(value, list):
        held = mapping(schema, "items")
        for index, element in enumerate(value) if held else ():
            yield place.at(held, f"{path}[{index}]"), element, _same_element(schema, element, old)
    elif isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        extra = mapping(schema, "additionalProperties")
        for key, part in value.items():
            described = mapping(schema, "properties", key)
            if described:
                yield place.at(described, f"{path}.{key}" if path else key), part, before.get(key)
            elif extra:
                yield place.at(extra, f"{path}[{key}]"), part, before.get(key)


def _same_element(schema: JsonObject, element: JsonValue, old: JsonValue) -> JsonValue:
    """The element of the old list that this one was; only those of a map have an identity."""
    if text(schema, LIST_TYPE) != "map" or not isinstance(element, dict):
        return None
    keys = texts(schema, LIST_KEYS)
    for candidate in old if isinstance(old, list) else ():
        if isinstance(candidate, dict) and all(candidate.get(key) == element.get(key) for key in keys):
            return candidate
    return None


def _broken(
    rule: JsonObject, place: _Place, value: JsonValue, old: JsonValue
) -> tuple[FieldError | None, bool]:
    """What a rule says of a value, and whether the rule failed itself. Raises _EndedError."""
    written = text(rule, "rule")
    optional = flag(rule, "optionalOldSelf")
    if uses_old_self(rule) and old is None and not optional:
        return None, False
    path = place.path or "<nil>"
    message = text(rule, "message").strip() or written.strip()
    values = _values(place, value, old)
    try:
        held = _evaluated(written, place, values, optional=optional)
    except CelUnsupportedError:
        return None, False  # said when the definition was made
    except CelError as error:
        words = f"{error} evaluating rule: {message}"
        if str(error).startswith("compilation failed"):
            words = f"rule compile error: {error}"
        if str(error).startswith("no such overload"):
            words = (
                f"'{error}': call arguments did not match a supported operator, function or macro signature "
                f"for rule: {message}"
            )
        if str(error) == TOO_LONG:
            words = f"'{error}': {_NO_FURTHER} rule: {message}"
            raise _EndedError(invalid(path, text(place.schema, "type"), words)) from None
        return invalid(path, text(place.schema, "type"), words), True
    if held is True:
        return None, False
    where = f"{place.path}{text(rule, 'fieldPath')}".removeprefix(".") or "<nil>"
    return _error(rule, where, place, value, _message(rule, place, values, where)), False


def _message(rule: JsonObject, place: _Place, values: dict[str, object], path: str) -> str:
    computed = text(rule, "messageExpression")
    if computed:
        try:
            computed_text = _evaluated(computed, place, values, optional=flag(rule, "optionalOldSelf"))
        except (CelError, CelUnsupportedError) as error:
            if str(error) == TOO_LONG:
                words = f"{_NO_FURTHER} messageExpression: {quoted(computed)}"
                raise _EndedError(invalid(path, text(place.schema, "type"), words)) from None
            computed_text = None
        if isinstance(computed_text, str) and _fits(computed_text.strip()):
            return computed_text.strip()
    message = text(rule, "message").strip()
    return message or f"failed rule: {text(rule, 'rule').strip()}"


def _fits(message: str) -> bool:
    return bool(message) and "\n" not in message and len(message.encode()) <= _LONGEST_MESSAGE


def _error(rule: JsonObject, path: str, place: _Place, value: JsonValue, words: str) -> FieldError:
    omitted = text(place.schema, "type") in ("object", "array")
    match text(rule, "reason"):
        case "FieldValueForbidden":
            return FieldError(FieldErrorType.FORBIDDEN, path, "", words)
        case "FieldValueRequired":
            return FieldError(FieldErrorType.REQUIRED, path, "", words)
        case "FieldValueDuplicate":
            return FieldError(FieldErrorType.DUPLICATE, path, value, "", omitted)
        case _:
            return FieldError(FieldErrorType.INVALID, path, value, words, omitted)


def _values(place: _Place, value: JsonValue, old: JsonValue) -> dict[str, object]:
    own = _typed(value, place.schema, root=place.root)
    aligned = in_order_of(value, old, place.schema)
    before = _typed(aligned, place.schema, root=place.root) if old is not None else None
    return {"self": own, "oldSelf": before, "olds": [] if old is None else [before]}


def in_order_of(new: JsonValue, old: JsonValue, schema: JsonObject) -> JsonValue:
    """An old value with what has no order in it (sets, lists with keys) in that of the new one.

    >>> in_order_of(["a", "b"], ["c", "b", "a"], {"type": "array", "x-kubernetes-list-type": "set"})
    ['a', 'b', 'c']
    """
    if new == old:
        return old
    if isinstance(new, dict) and isinstance(old, dict):
        return {
            key: in_order_of(new.get(key), part, _described(schema, key, whole=False))
            for key, part in old.items()
        }
    if not isinstance(new, list) or not isinstance(old, list):
        return old
    kind, held = text(schema, LIST_TYPE), mapping(schema, "items")
    if kind not in ("set", "map"):
        return old
    places = [_place_in(new, element, schema) for element in old]
    ordered = sorted(zip(places, old, strict=True), key=lambda pair: pair[0])
    return [
        in_order_of(new[index], element, held) if index < len(new) else element for index, element in ordered
    ]


def _place_in(members: list[JsonValue], element: JsonValue, schema: JsonObject) -> int:
    """Where the same element stands in another list, or how many there are."""
    keys = texts(schema, LIST_KEYS) if isinstance(element, dict) else []
    for index, member in enumerate(members):
        if keys and isinstance(member, dict) and isinstance(element, dict):
            if all(member.get(key) == element.get(key) for key in keys):
                return index
        elif same_json(member, element):
            return index
    return len(members)


def _evaluated(expression: str, place: _Place, values: dict[str, object], *, optional: bool) -> JsonValue:
    from tonnage.decide.kubernetes.cel.expression import expression as compiled

    written = _OLD.sub(_OLD_OR_NONE, expression) if optional else expression
    declared = known_names(place.schema, optional=optional)
    names = {name for name, _ in declared}
    visible = {key: value for key, value in values.items() if key in names}
    return compiled(written, declared).evaluate(visible, FormatHost())


def known_names(schema: JsonObject, *, optional: bool = False) -> KnownKinds:
    """What a rule of this level knows where it runs, with types of what has no parts."""
    kind = _FORMATS.get(text(schema, "format")) if text(schema, "type") == "string" else None
    kind = kind or _TYPES.get(text(schema, "type"), DYN)
    return ("self", kind), ("olds", CelKind("list", kind)) if optional else ("oldSelf", kind)


@dataclass(frozen=True, slots=True)
class Compiled:
    """What the compiler has against a rule and against its message, and what each costs at most."""

    rule: str = ""
    message: str = ""
    rule_cost: int = 0
    message_cost: int = 0


def compiled_rule(rule: JsonObject, kind: CelKind) -> Compiled:
    """A rule about values of this type.

    Raises:
        UnsupportedError: nobody here can evaluate it.
    """
    old = CelKind("optional", kind) if flag(rule, "optionalOldSelf") else kind
    variables = ("self", kind), ("oldSelf", old)
    own = _compiled(text(rule, "rule"), variables, "bool", "cel expression must evaluate to a bool")
    if own[0]:
        return Compiled(rule=own[0])
    words = "messageExpression must evaluate to a string"
    message = _compiled(text(rule, "messageExpression"), variables, "string", words)
    error = message[0].replace("compilation failed", "messageExpression compilation failed", 1)
    return Compiled(message=error, rule_cost=own[1], message_cost=message[1])


def _compiled(written: str, variables: KnownKinds, type_name: str, words: str) -> tuple[str, int]:
    from tonnage.decide.kubernetes.cel.cost.costs import estimated_cost
    from tonnage.decide.kubernetes.cel.expression import Expression

    if not written:
        return "", 0
    program = Expression(written, variables, ())
    if program.type != type_name and not program.error.startswith("compilation"):
        return words, 0
    if program.error:
        return program.error, 0
    return "", estimated_cost(program.tree, variables[0][1]).most


def uses_old_self(rule: JsonObject) -> bool:
    """Whether a rule looks at what was."""
    return bool(_OLD.search(text(rule, "rule")))


def _typed(value: JsonValue, schema: JsonObject, *, root: bool = False) -> object:
    """A value as rules see it: names escaped, numbers and formats of their types."""
    match value:
        case dict():
            return {
                name: _typed(part, _described(schema, key, whole=root or flag(schema, EMBEDDED)))
                for key, part in value.items()
                for name in (identifiers(key) if key in mapping(schema, "properties") else (key,))
            }
        case list():
            held = mapping(schema, "items")
            return [_typed(element, held) for element in value]
        case str():
            return _of_format(value, text(schema, "format"))
        case bool():
            return value
        case int() if text(schema, "type") == "number":
            return float_of(value)
        case float() if text(schema, "type") == "integer" and isfinite(value):
            return int(value)
        case _:
            return value


def _described(schema: JsonObject, key: str, *, whole: bool) -> JsonObject:
    described = mapping(schema, "properties", key)
    if described or (whole and key in _WHOLE):
        return described
    return mapping(schema, "additionalProperties")


def _of_format(value: str, form: str) -> object:
    """A moment, a span or bytes; the text itself where it is none, which the schema's own check tells."""
    from google.protobuf import duration_pb2, timestamp_pb2

    try:
        if form in _MOMENTS:
            moment = timestamp_pb2.Timestamp()
            moment.FromJsonString(value if "T" in value else f"{value}T00:00:00Z")
            return moment
        if form == "duration":
            span = duration_pb2.Duration()
            span.FromNanoseconds(span_of(value))
            return span
        return base64.b64decode(value, validate=True) if form == "byte" else value
    except (ValueError, binascii.Error):
        return value


def listed_rules(schema: JsonObject, path: str) -> Iterator[tuple[str, JsonObject, list[JsonValue]]]:
    """Every level of a schema that states rules: its path, itself, its rules."""
    rules = items(schema, RULES)
    if rules:
        yield path, schema, rules
    for name, inner in mapping(schema, "properties").items():
        if isinstance(inner, dict):
            yield from listed_rules(inner, f"{path}.properties[{name}]")
    for key in ("items", "additionalProperties"):
        held = schema.get(key)
        if isinstance(held, dict):
            yield from listed_rules(held, f"{path}.{key}")
