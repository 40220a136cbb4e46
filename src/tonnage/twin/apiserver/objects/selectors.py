"""Label selectors and field selectors: parsed with the server's complaints, matched against objects.

Source: k8s.io/apimachinery (labels, fields), k8s.io/kubernetes (field labels of each kind).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NoReturn, cast

from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.twin.apiserver.objects import names
from tonnage.twin.apiserver.objects.problems import quoted
from tonnage.wire.schema import KindRow

LONGEST: Final = 64 * 1024
_TOKEN: Final = re.compile(r"[ \t\r\n]*(?:(?P<special>[=!(),><]+)|(?P<word>[^=!(),>< \t\r\n]+))")
_OPERATORS: Final = ("!=", "==", "=", "!", "(", ")", ",", ">", "<")
_BINARY: Final = {"in": "in", "notin": "notin", "=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}
_EXPECTED: Final = "in, notin, =, ==, !=, gt, lt"


class SelectorError(ApiError):
    """400: a selector that cannot be read."""

    def __init__(self, message: str) -> None:
        super().__init__(400, "BadRequest", message)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on a label; `operator` is in, notin, exists, missing, gt or lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels meets it."""
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "missing":
                return value is None
            case _:
                return value is not None and self._compares(value)

    def _compares(self, value: str) -> bool:
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", value):
            return False
        bound = int(self.values[0])
        return int(value) > bound if self.operator == "gt" else int(value) < bound


def matches_labels(requirements: Sequence[Requirement], labels: Mapping[str, str]) -> bool:
    """Whether labels meet every requirement; no requirement means everything."""
    return all(requirement.matches(labels) for requirement in requirements)


def labels_of(obj: JsonObject | None) -> Mapping[str, str]:
    """An object's labels. Not a copy: what has been decoded has strings for values."""
    metadata = obj.get("metadata") if obj is not None else None
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return cast("dict[str, str]", labels) if isinstance(labels, dict) else {}


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Requirements of a label selector in kubectl's syntax.

    >>> parse_labels("app=x,tier in (a, b),!gone")[2]
    Requirement(key='tier', operator='in', values=('a', 'b'))

    Raises:
        SelectorError: with the server's own words.
    """
    if len(text) > LONGEST:
        raise SelectorError(f"unable to parse requirement: selector longer than {LONGEST} bytes")
    return _Parser(_tokens(text)).parse()


def _tokens(text: str) -> list[str]:
    """Words and operators; operators are the longest known ones."""
    found: list[str] = []
    position = 0
    while (match := _TOKEN.match(text, position)) is not None:
        position = match.end()
        if (word := match["word"]) is not None:
            found.append(word)
        else:
            special = match["special"]
            while special:
                operator = next(op for op in _OPERATORS if special.startswith(op))
                found.append(operator)
                special = special[len(operator) :]
    return found


class _Parser:
    """Recursive descent over the tokens; an empty token is the end."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.position = 0

    def parse(self) -> tuple[Requirement, ...]:
        requirements: list[Requirement] = []
        while self.peek():
            if self.is_operator(self.peek()) and self.peek() != "!":
                raise SelectorError(f"found '{self.peek()}', expected: !, identifier, or 'end of string'")
            requirements.append(self.requirement())
            after = self.take()
            if not after:
                break
            if after != ",":
                raise SelectorError(f"found '{after}', expected: ',' or 'end of string'")
            if not self.peek() or (self.is_operator(self.peek()) and self.peek() != "!"):
                raise SelectorError(f"found '{self.peek()}', expected: identifier after ','")
        return tuple(sorted(requirements, key=lambda found: found.key))

    def requirement(self) -> Requirement:
        negated = self.peek() == "!"
        if negated:
            self.take()
        key = self.take()
        if not key or self.is_operator(key):
            self.fail(f"found '{key}', expected: identifier")
        if complaints := names.qualified_name(key):
            self.fail(f"<nil>: Invalid value: {quoted(key)}: {'; '.join(complaints)}")
        if negated:
            return Requirement(key, "missing")
        if self.peek() in ("", ","):
            return Requirement(key, "exists")
        written = self.take()
        operator = _BINARY.get(written)
        if operator is None:
            self.fail(f"found '{written}', expected: {_EXPECTED}")
        values = self.listed() if written in ("in", "notin") else (self.exact(),)
        self.check(key, operator, values)
        return Requirement(key, operator, tuple(sorted(set(values))))

    def check(self, key: str, operator: str, values: tuple[str, ...]) -> None:
        """Refuse values that no label has, and bounds that are no numbers."""
        wrong: list[str] = []
        if operator in ("gt", "lt") and not re.fullmatch(r"[+-]?[0-9]{1,19}", values[0]):
            words = "for 'Gt', 'Lt' operators, the value must be an integer"
            wrong.append(f"values[0]: Invalid value: {quoted(values[0])}: {words}")
        for index, value in enumerate(sorted(set(values))):
            if complaints := names.label_value(value):
                wrong.append(
                    f"values[{index}][{key}]: Invalid value: {quoted(value)}: {'; '.join(complaints)}"
                )
        if wrong:
            self.fail(wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]")

    def listed(self) -> tuple[str, ...]:
        if (token := self.take()) != "(":
            self.fail(f"found '{token}' expected: '('")
        first = self.peek()
        if not first or (self.is_operator(first) and first not in (",", ")")):
            self.fail(f"found '{first}', expected: ',', ')' or identifier")
        values: list[str] = []
        last = ","
        while (found := self.take()) != ")":
            if found == ",":
                if last == ",":
                    values.append("")
            elif last != ",":
                self.fail(f"found '{found}', expected: ',' or ')'")
            elif not found or self.is_operator(found):
                self.fail(f"found '{found}', expected: ',', or identifier")
            else:
                values.append(found)
            last = found
        return (*values, "") if last == "," else tuple(values)

    def exact(self) -> str:
        if self.peek() in ("", ","):
            return ""
        token = self.take()
        if self.is_operator(token):
            self.fail(f"found '{token}', expected: identifier")
        return token

    def peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.position += 1
        return token

    def is_operator(self, token: str) -> bool:
        return token in _OPERATORS

    def fail(self, words: str) -> NoReturn:
        raise SelectorError(f"unable to parse requirement: {words}")


def label_requirements(selector: JsonObject) -> tuple[Requirement, ...]:
    """Requirements of a LabelSelector object: `matchLabels` and `matchExpressions`."""
    labels, expressions = selector.get("matchLabels"), selector.get("matchExpressions")
    found = [
        Requirement(key, "in", (str(value),))
        for key, value in (labels if isinstance(labels, dict) else {}).items()
    ]
    operators = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "missing"}
    for item in expressions if isinstance(expressions, list) else []:
        assert isinstance(item, dict)
        values = item.get("values") or []
        assert isinstance(values, list)
        operator = operators.get(str(item.get("operator")), "")
        if not operator:
            raise SelectorError(f'"{item.get("operator")}" is not a valid label selector operator')
        found.append(Requirement(str(item.get("key")), operator, tuple(map(str, values))))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One condition on a field."""

    path: str
    value: str
    equal: bool = True

    def matches(self, item: JsonObject) -> bool:
        """Whether an object meets it."""
        return (field_value(item, self.path) == self.value) is self.equal


_NAMES: Final = ("metadata.name", "metadata.namespace")
FIELDS: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("", "Pod"): (
        *_NAMES,
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    ("", "Node"): ("metadata.name", "spec.unschedulable"),
    ("", "Namespace"): ("metadata.name", "status.phase"),
    ("", "Secret"): (*_NAMES, "type"),
    ("", "Service"): (*_NAMES, "spec.clusterIP", "spec.type"),
    ("", "ReplicationController"): (*_NAMES, "status.replicas"),
    ("", "Event"): (
        *(f"involvedObject.{key}" for key in ("kind", "namespace", "name", "uid", "apiVersion")),
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
        *_NAMES,
    ),
    ("events.k8s.io", "Event"): (
        *(f"regarding.{key}" for key in ("kind", "namespace", "name", "uid", "apiVersion")),
        "regarding.resourceVersion",
        "regarding.fieldPath",
        "reason",
        "reportingController",
        "type",
        *_NAMES,
    ),
    ("batch", "Job"): (*_NAMES, "status.successful"),
    ("certificates.k8s.io", "CertificateSigningRequest"): ("metadata.name", "spec.signerName"),
    ("resource.k8s.io", "ResourceSlice"): ("metadata.name", "spec.driver", "spec.nodeName"),
}


def parse_fields(
    kind_row: KindRow, text: str, selectable: Sequence[str] | None = None
) -> tuple[FieldRequirement, ...]:
    """Requirements of a field selector; `selectable` are the paths that a custom kind adds, if it is one.

    Raises:
        SelectorError: the syntax is wrong, or the kind has no such field label.
    """
    return tuple(replace(one, path=_known_path(kind_row, one.path, selectable)) for one in field_terms(text))


def field_terms(text: str) -> tuple[FieldRequirement, ...]:
    """Requirements of a field selector about any kind. Raises SelectorError for its syntax."""
    if len(text) > LONGEST:
        raise SelectorError(f"invalid selector: longer than {LONGEST} bytes")
    found = []
    for term in sorted(re.findall(r"(?:[^,\\]|\\.|\\$)+", text, re.DOTALL)):
        match = re.match(r"(.*?)(!=|==|=)(.*)", term, re.DOTALL)
        if match is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        found.append(FieldRequirement(match[1], _unescaped(match[3]), match[2] != "!="))
    # A term without a name and a value demands nothing.
    return tuple(one for one in found if one.path or one.value)


def _unescaped(value: str) -> str:
    """A value without its backslashes, which must stand before `\\`, `,` and `=`."""
    result: list[str] = []
    letters = iter(value)
    for letter in letters:
        if letter in ",=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(letter)}")
        plain = letter
        if letter == "\\":
            plain = next(letters, "")
            if plain not in ("\\", ",", "="):
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{plain}")
        result.append(plain)
    return "".join(result)


def _known_path(kind_row: KindRow, path: str, selectable: Sequence[str] | None) -> str:
    known = FIELDS.get((kind_row.group, kind_row.kind))
    if selectable is not None:
        known = (*(_NAMES if kind_row.namespaced else _NAMES[:1]), *selectable)
    if known is None:
        if path in _NAMES:
            return path
        listed = ", ".join(quoted(name) for name in _NAMES)
        raise SelectorError(f"{quoted(path)} is not a known field selector: only {listed}")
    if path == "spec.host" and kind_row.kind == "Pod":
        return "spec.nodeName"
    if path not in known:
        if kind_row.group == "resource.k8s.io":
            described = f"{kind_row.api_version}, Kind={kind_row.kind}"
            raise SelectorError(f"field label not supported for {described}: {path}")
        if (kind_row.group, kind_row.kind) == ("batch", "Job"):
            raise SelectorError(f"field label {quoted(path)} not supported for Job")
        raise SelectorError(f"field label not supported: {path}")
    return path


def field_value(item: JsonObject, path: str) -> str:
    """A field's text as selectors compare it; empty if it is not set."""
    if path == "source":
        path = "source.component"
    value: JsonValue = item
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if path == "status.podIPs" and isinstance(value, list):
        return ",".join(str(one.get("ip")) for one in value if isinstance(one, dict))
    if isinstance(value, bool) or path in ("spec.unschedulable", "spec.hostNetwork"):
        return "true" if value else "false"
    if value is None:
        return "0" if path in ("status.replicas", "status.successful") else ""
    return str(value)


def selector_shown(selector: JsonObject) -> str:
    """A selector as Go prints it."""
    labels = selector.get("matchLabels")
    plain = "".join(f"{k}: {v}," for k, v in sorted(labels.items())) if isinstance(labels, dict) else ""
    terms = []
    expressions = selector.get("matchExpressions")
    for one in expressions if isinstance(expressions, list) else []:
        if isinstance(one, dict):
            values = one.get("values")
            listed = " ".join(map(str, values)) if isinstance(values, list) else ""
            terms.append(
                f"LabelSelectorRequirement{{Key:{one.get('key')},Operator:{one.get('operator')},Values:[{listed}],}},"
            )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{plain}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{''.join(terms)}}},}}"
    )
