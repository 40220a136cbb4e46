"""YAML 1.1 as kubectl reads it, JSON too: text to plain values, with a place for every one of them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, cast

import yaml

from tonnage.documents.yaml.bounds import MAX_DOCUMENTS, MAX_VALUES, check_bounds
from tonnage.documents.yaml.syntax import MAX_DEPTH, syntax_problem
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.json import JsonScalar, JsonValue

MAX_BYTES: Final = 4 << 20
MAX_PROBLEMS: Final = 50

_JSON_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_TAG: Final = "tag:yaml.org,2002:"
_TWICE: Final = "duplicate key"

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class TextPosition:
    """Where a value begins; both count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class MarkedDocument:
    """A document's value and where each of its parts stands. `marks` has the empty path for the whole.

    `elsewhere` names what else said a part of the value, such as a flag that won over the document.
    `repeated`: keys that were given again, each with the line of its value.
    """

    value: JsonValue
    source: str
    marks: Mapping[Path, TextPosition]
    elsewhere: Mapping[Path, str] = field(default_factory=dict)
    repeated: tuple[tuple[str, int], ...] = ()

    def where(self, path: Path = ()) -> str:
        """`file:line:column field.path`; a part that is absent is placed at its nearest present parent."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.elsewhere:
                return self.elsewhere[path[:length]]
        present = path
        while present and present not in self.marks:
            present = present[:-1]
        mark = self.marks.get(present, TextPosition(1, 1))
        place = f"{self.source}:{mark.line}:{mark.column}"
        return f"{place} {field_path(path)}" if path else place


def field_path(path: Path) -> str:
    """A path as a person writes it.

    >>> field_path(("sharing", "resources", 0, "name")), field_path(("labels", "a.b/c"))
    ('sharing.resources[0].name', 'labels["a.b/c"]')
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif re.fullmatch(r"[\w-]+", part):
            text += f".{part}" if text else part
        else:
            text += f'["{part[:100]}"]'
    return text


def parse_yaml(text: str, *, source: str, most_values: int = MAX_VALUES) -> MarkedDocument:
    """The one document in `text` (JSON is YAML too). Empty text is null.

    Raises:
        ConfigError: no valid YAML, more than one document, a duplicate key, or over a bound.
    """
    return only_one(parse_yaml_all(text, source=source, most_values=most_values), source)


def only_one(documents: tuple[MarkedDocument, ...], source: str) -> MarkedDocument:
    if len(documents) > 1:
        raise ConfigError(
            Problem(
                "more than one document where one is expected",
                documents[1].where(),
                remedy="remove the line --- and what follows it",
            )
        )
    return documents[0] if documents else MarkedDocument(None, source, {(): TextPosition(1, 1)})


def parse_yaml_all(text: str, *, source: str, most_values: int = MAX_VALUES) -> tuple[MarkedDocument, ...]:
    """Every document of a stream separated by `---`, empty ones left out.

    Raises:
        ConfigError: as `parse_yaml`.
    """
    documents, twice = read_yaml_all(text, source=source, most_values=most_values)
    if twice:
        raise ConfigError(*twice)
    return documents


def read_yaml_all(
    text: str, *, source: str, most_values: int = MAX_VALUES
) -> tuple[tuple[MarkedDocument, ...], tuple[Problem, ...]]:
    """Every document of a stream, and a problem for each key given twice, of which the last counts.

    Raises:
        ConfigError: as `parse_yaml`, but for duplicate keys alone.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise ConfigError(
            Problem("document too large", source, f"more than {MAX_BYTES >> 20} MiB", "split it")
        )
    reader = _Reader(source, most_values)
    try:
        check_bounds(text, source, most_values=most_values)
        documents = tuple(reader.read(node) for node in yaml.compose_all(text, Loader=yaml.CSafeLoader))
    except (yaml.YAMLError, RecursionError, UnicodeError) as error:
        raise ConfigError(syntax_problem(error, source)) from None
    if any(problem.what != _TWICE for problem in reader.problems):
        raise ConfigError(*reader.problems)
    return documents, tuple(reader.problems)


class _Reader:
    """One pass over composed nodes; collects problems instead of stopping at the first."""

    def __init__(self, source: str, most: int) -> None:
        self.source = source
        self.most = most
        self.problems: list[Problem] = []
        self.marks: dict[Path, TextPosition] = {}
        self.repeated: list[tuple[str, int]] = []
        self.count = self.documents = 0

    def read(self, root: yaml.Node) -> MarkedDocument:
        self.documents += 1
        if self.documents > MAX_DOCUMENTS:
            raise yaml.MarkedYAMLError(
                problem=f"more than {MAX_DOCUMENTS:,} documents", problem_mark=root.start_mark
            )
        self.marks, self.repeated = {}, []
        value = self._value(root, ())
        return MarkedDocument(value, self.source, self.marks, repeated=tuple(self.repeated))

    def _problem(self, node: yaml.Node, path: Path, problem: str, why: str = "", remedy: str = "") -> None:
        if len(self.problems) == MAX_PROBLEMS:
            return
        place = f"{self.source}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"
        self.problems.append(Problem(problem, f"{place} {field_path(path)}".rstrip(), why, remedy))

    def _value(self, node: yaml.Node, path: Path) -> JsonValue:
        self.count += 1
        if self.count > self.most:
            raise yaml.MarkedYAMLError(
                problem=f"more than {self.most:,} values, where an alias counts as all that it stands for",
                problem_mark=node.start_mark,
            )
        if len(path) > MAX_DEPTH:
            raise yaml.MarkedYAMLError(
                problem=f"nested deeper than {MAX_DEPTH} levels", problem_mark=node.start_mark
            )
        self.marks[path] = TextPosition(node.start_mark.line + 1, node.start_mark.column + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(child, (*path, index)) for index, child in enumerate(node.value)]
        return self._scalar(cast("yaml.ScalarNode", node), path)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, JsonValue]:
        entries: dict[str, JsonValue] = {}
        first: dict[str, yaml.Node] = {}
        merges: list[yaml.Node] = []
        for key_node, child in node.value:
            if key_node.tag == f"{_TAG}merge":
                merges.append(child)
                continue
            key = self._key(key_node, path)
            if key is None:
                continue
            if key in first:
                why = f"first given at line {first[key].start_mark.line + 1}"
                self._problem(key_node, (*path, key), _TWICE, why, "keep one of them")
            entries[key] = self._value(child, (*path, key))
            self.marks[*path, key] = TextPosition(
                key_node.start_mark.line + 1, key_node.start_mark.column + 1
            )
            if key in first:
                self.repeated.append((key, child.start_mark.line + 1))
            first.setdefault(key, key_node)
        for merge in merges:
            self._merge(merge, path, entries)
        return entries

    def _merge(self, node: yaml.Node, path: Path, entries: dict[str, JsonValue]) -> None:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for source in sources:
            if not isinstance(source, yaml.MappingNode):
                self._problem(source, path, "a merge key (<<) takes a mapping")
                continue
            own_marks, self.marks = self.marks, {}
            for key, value in self._mapping(source, path).items():
                entries.setdefault(key, value)
            for place, mark in self.marks.items():
                own_marks.setdefault(place, mark)
            self.marks = own_marks

    def _key(self, node: yaml.Node, path: Path) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self._problem(node, path, "a key must be a plain word")
            return None
        if node.tag == f"{_TAG}bool":
            return "true" if node.value.lower() in ("yes", "true", "on") else "false"
        return str(node.value)

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> JsonScalar:
        text: str = node.value
        kind = node.tag.removeprefix(_TAG)
        if kind in ("str", "timestamp", "merge", "value"):
            if not node.style and kind == "str" and _JSON_NUMBER.fullmatch(text):
                return self._number(node, text, path)  # 1e3: YAML 1.2 and Go read a number
            return text
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() in ("yes", "true", "on")
        if kind in ("int", "float"):
            return text if ":" in text else self._number(node, text, path)  # 1:30 is no sexagesimal in Go
        self._problem(node, path, f"tag {node.tag[:60]} is not allowed", remedy="write a plain value")
        return None

    def _number(self, node: yaml.ScalarNode, text: str, path: Path) -> int | float | None:
        try:
            if len(text) > 64:
                raise ValueError
            digits = text.replace("_", "")
            if node.tag == f"{_TAG}int":
                sign, bare = (-1, digits[1:]) if digits[0] == "-" else (1, digits.lstrip("+"))
                octal = len(bare) > 1 and bare[0] == "0" and bare[1].isdigit()
                return sign * (int(bare, 8) if octal else int(bare, 0))
            number = float(digits)
            if not math.isfinite(number):
                raise ValueError
        except ValueError:
            self._problem(node, path, f"{text[:40]} is not a number that JSON can hold")
            return None
        return number
