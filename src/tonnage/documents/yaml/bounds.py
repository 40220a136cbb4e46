"""How much a YAML text may come to, found on its events: before anything of it is composed or made.

An alias is a few bytes that stand for a whole value, and a merge key for all of a mapping, so the size of the
text says little. Here each alias counts as all that it stands for, which is what it costs whoever reads on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple, cast

import yaml

from tonnage.documents.yaml.syntax import MAX_DEPTH, NO_YAML
from tonnage.model.errors import ConfigError, Problem

MAX_EXPANDED: Final = 8 << 20
"""Bytes of all keys and values, aliases counted as what they stand for: enough for any manifest."""
MAX_VALUES: Final = 200_000
"""Values in one text, counted the same way."""
AGENT_VALUES: Final = 20_000
"""The same where an agent with little memory reads what a ConfigMap says: a value takes half a KiB."""
MAX_DOCUMENTS: Final = 10_000
_SHALLOW: Final = 1000
_REMEDY: Final = "use fewer aliases, or write the values out"


class ValueSize(NamedTuple):
    """What a value comes to."""

    bytes: int
    values: int


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not come yet; `before` is what the text came to at its start."""

    anchor: str | None
    before: ValueSize
    mapping: bool
    at_key: bool = True


def check_bounds(text: str, source: str, *, most_values: int = MAX_VALUES) -> None:
    """Refuse a text that is nested too deeply or comes to too much.

    A text that can do neither, which is nearly every one, is not looked at twice. It may be no YAML.

    Raises:
        ConfigError: with the place, the limit and, where an alias goes over it, the alias.
        yaml.YAMLError: it is no YAML.
    """
    if "*" not in text and len(text) <= 2 * most_values and not _may_be_deep(text):
        return
    count = _Count(source, most_values)
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        count.add(event)


def _may_be_deep(text: str) -> bool:
    """Depth is at most the brackets and the longest line, since each level outside brackets is indented."""
    return text.count("[") + text.count("{") + max(map(len, text.splitlines()), default=0) >= _SHALLOW


@dataclass(slots=True)
class _Count:
    source: str
    most_values: int
    bytes: int = 0
    values: int = 0
    open: list[_Open] = field(default_factory=list)
    anchors: dict[str, ValueSize | None] = field(default_factory=dict)
    """What each stands for; None as long as its value has not ended."""

    def add(self, event: yaml.Event) -> None:
        match event:
            case yaml.ScalarEvent():
                before = ValueSize(self.bytes, self.values)
                self._grow(ValueSize(_length(event.value), self._value()), event)
                self._note_anchor(event.anchor, before)
            case yaml.AliasEvent():
                self._alias(event)
            case yaml.CollectionStartEvent():
                self._start(event)
            case yaml.CollectionEndEvent():
                ended = self.open.pop()
                self._note_anchor(ended.anchor, ended.before)
            case yaml.DocumentStartEvent():
                self.anchors.clear()
            case _:
                pass

    def _value(self) -> int:
        """1 for a value that comes now, 0 for a key."""
        if not self.open or not self.open[-1].mapping:
            return 1
        here = self.open[-1]
        here.at_key = not here.at_key
        return int(here.at_key)

    def _start(self, event: yaml.CollectionStartEvent) -> None:
        before = ValueSize(self.bytes, self.values)
        self._grow(ValueSize(1, self._value()), event)
        self.open.append(_Open(event.anchor, before, isinstance(event, yaml.MappingStartEvent)))
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        if len(self.open) > MAX_DEPTH:
            raise yaml.MarkedYAMLError(
                problem=f"nested deeper than {MAX_DEPTH} levels",
                problem_mark=cast("yaml.Mark | None", event.start_mark),
            )

    def _note_anchor(self, anchor: str | None, before: ValueSize) -> None:
        if anchor is not None:
            self.anchors[anchor] = ValueSize(self.bytes - before.bytes, self.values - before.values)

    def _alias(self, event: yaml.AliasEvent) -> None:
        self._value()
        name = event.anchor or ""
        size = self.anchors.get(name, ValueSize(0, 0))  # of one that is not known the composer tells
        if size is None:
            why = f"*{name[:60]} stands for a value that it is a part of itself"
            raise ConfigError(Problem(NO_YAML, self._place(event), why, "write the value out"))
        self._grow(size, event)

    def _grow(self, size: ValueSize, event: yaml.NodeEvent) -> None:
        self.bytes += size.bytes
        self.values += size.values
        if self.bytes <= MAX_EXPANDED and self.values <= self.most_values:
            return
        limit = (
            f"more than {MAX_EXPANDED >> 20} MiB"
            if self.bytes > MAX_EXPANDED
            else f"more than {self.most_values:,} values"
        )
        if isinstance(event, yaml.AliasEvent):
            name = f"*{(event.anchor or '')[:60]}"
            problem = f"{limit}, where an alias counts as all that it stands for, such as {name} here"
            why = f"{name} stands for {size.bytes:,} bytes in {size.values:,} value{'s' * (size.values != 1)}"
            raise ConfigError(Problem(problem, self._place(event), why, _REMEDY))
        raise ConfigError(Problem(limit, self._place(event), remedy="split it"))

    def _place(self, event: yaml.NodeEvent) -> str:
        mark = event.start_mark
        return f"{self.source}:{mark.line + 1}:{mark.column + 1}" if mark else self.source


def _length(text: str) -> int:
    return len(text) + 1 if text.isascii() else len(text.encode("utf-8", "surrogatepass")) + 1
