"""Label selectors: parsed with the server's complaints, matched against objects.

Source: k8s.io/apimachinery (labels, meta/v1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn, cast

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.problems import quoted
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.model.json_access import mapping, mappings, text, texts

LONGEST: Final = 64 * 1024
_TOKEN: Final = re.compile(r"[ \t\r\n]*(?:(?P<special>[=!(),><]+)|(?P<word>[^=!(),>< \t\r\n]+))")
_OPERATORS: Final = ("!=", "==", "=", "!", "(", ")", ",", ">", "<")
_BINARY: Final = {"in": "in", "notin": "notin", "=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}
_IN_OBJECTS: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "missing"}
_EXPECTED: Final = "in, notin, =, ==, !=, gt, lt"


class SelectorError(ApiError):
    """400: a selector that cannot be read."""

    def __init__(self, message: str) -> None:
        super().__init__(400, "BadRequest", message)


@dataclass(frozen=True, slots=True)
class SelectorRequirement:
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


def matches_labels(requirements: Sequence[SelectorRequirement], labels: Mapping[str, str]) -> bool:
    """Whether labels meet every requirement; no requirement means everything."""
    return all(requirement.matches(labels) for requirement in requirements)


def labels_of(obj: JsonObject | None) -> Mapping[str, str]:
    """An object's labels. Not a copy: what has been decoded has strings for values."""
    metadata = obj.get("metadata") if obj is not None else None
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return cast("dict[str, str]", labels) if isinstance(labels, dict) else {}


def parse_labels(selector: str) -> tuple[SelectorRequirement, ...]:
    """Requirements of a label selector in kubectl's syntax.

    >>> parse_labels("app=x,tier in (a, b),!gone")[2]
    SelectorRequirement(key='tier', operator='in', values=('a', 'b'))

    Raises:
        SelectorError: with the server's own words.
    """
    if len(selector) > LONGEST:
        raise SelectorError(f"unable to parse requirement: selector longer than {LONGEST} bytes")
    return _Parser(_tokens(selector)).parse()


def _tokens(selector: str) -> list[str]:
    """Words and operators; operators are the longest known ones."""
    tokens: list[str] = []
    position = 0
    while (match := _TOKEN.match(selector, position)) is not None:
        position = match.end()
        if (word := match["word"]) is not None:
            tokens.append(word)
        else:
            special = match["special"]
            while special:
                operator = next(op for op in _OPERATORS if special.startswith(op))
                tokens.append(operator)
                special = special[len(operator) :]
    return tokens


class _Parser:
    """Recursive descent over the tokens; an empty token is the end."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.position = 0

    def parse(self) -> tuple[SelectorRequirement, ...]:
        requirements: list[SelectorRequirement] = []
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
        return tuple(sorted(requirements, key=lambda requirement: requirement.key))

    def requirement(self) -> SelectorRequirement:
        negated = self.peek() == "!"
        if negated:
            self.take()
        key = self.take()
        if not key or self.is_operator(key):
            self.fail(f"found '{key}', expected: identifier")
        if complaints := names.qualified_name(key):
            self.fail(f"<nil>: Invalid value: {quoted(key)}: {'; '.join(complaints)}")
        if negated:
            return SelectorRequirement(key, "missing")
        if self.peek() in ("", ","):
            return SelectorRequirement(key, "exists")
        written = self.take()
        operator = _BINARY.get(written)
        if operator is None:
            self.fail(f"found '{written}', expected: {_EXPECTED}")
        values = self.listed() if written in ("in", "notin") else (self.exact(),)
        self.check(key, operator, values)
        return SelectorRequirement(key, operator, tuple(sorted(set(values))))

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
        while (word := self.take()) != ")":
            if word == ",":
                if last == ",":
                    values.append("")
            elif last != ",":
                self.fail(f"found '{word}', expected: ',' or ')'")
            elif not word or self.is_operator(word):
                self.fail(f"found '{word}', expected: ',', or identifier")
            else:
                values.append(word)
            last = word
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


def label_requirements(selector: JsonObject) -> tuple[SelectorRequirement, ...]:
    """Requirements of a LabelSelector object: `matchLabels` and `matchExpressions`."""
    requirements = [
        SelectorRequirement(key, "in", (str(value),))
        for key, value in mapping(selector, "matchLabels").items()
    ]
    for expression in mappings(selector, "matchExpressions"):
        written = text(expression, "operator")
        if written not in _IN_OBJECTS:
            raise SelectorError(f'"{written}" is not a valid label selector operator')
        values = tuple(texts(expression, "values"))
        requirements.append(SelectorRequirement(text(expression, "key"), _IN_OBJECTS[written], values))
    return tuple(requirements)


def selector_shown(selector: JsonObject) -> str:
    """A selector as Go prints it."""
    plain = "".join(f"{key}: {value}," for key, value in sorted(mapping(selector, "matchLabels").items()))
    terms = [
        f"LabelSelectorRequirement{{Key:{text(expression, 'key')},Operator:{text(expression, 'operator')},"
        f"Values:[{' '.join(texts(expression, 'values'))}],}},"
        for expression in mappings(selector, "matchExpressions")
    ]
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{plain}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{''.join(terms)}}},}}"
    )
