"""Where the parts of a YAML text stand, to the character: for places in findings and edits by position."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import yaml

from tonnage.documents.yaml.reader import Path

_BOM: Final = "\ufeff"
_MERGE: Final = "tag:yaml.org,2002:merge"
_BOOL: Final = "tag:yaml.org,2002:bool"


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the text by offsets in characters; line and column count from 1."""

    start: int
    end: int
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class ValueSpan:
    """One value and its key (None for an item of a list, and for the whole).

    `style` is `'`, `"`, `|`, `>` or empty for a scalar, `flow` or `block` for a mapping or list. `shared`:
    more than one place of the document has it, through an alias or a merge.
    """

    key: Span | None
    value: Span
    style: str
    shared: bool

    @property
    def place(self) -> Span:
        """Where a person should look: at the value; at the key of what goes on below it."""
        return self.key if self.style == "block" and self.key is not None else self.value


class Parts:
    """The composed documents of a text that was read before, so its bounds are known to hold."""

    def __init__(self, text: str) -> None:
        self._shift = 1 if text.startswith(_BOM) else 0
        self._roots = list(yaml.compose_all(text, Loader=yaml.CSafeLoader))
        self._shared = frozenset(_shared(self._roots))
        self._entries: dict[int, dict[str, tuple[yaml.Node, yaml.Node, bool]]] = {}

    def part(self, document: int, path: Path) -> ValueSpan | None:
        """The part at a path, None where there is none."""
        node = self._node_at(document, path)
        if node is None:
            return None
        key, value, shared = node
        return ValueSpan(
            self._span(key) if key is not None else None, self._span(value), _style(value), shared
        )

    def place(self, document: int, path: Path) -> Span:
        """The place of a part, or of its nearest present parent."""
        for length in range(len(path), -1, -1):
            part = self.part(document, path[:length])
            if part is not None:
                return part.place if length == len(path) else part.key or part.place
        return Span(0, 0, 1, 1)

    def entries(self, document: int, path: Path) -> list[tuple[str, ValueSpan]]:
        """The entries of a mapping as they are written, a merge key (`<<`) among them."""
        node = self._node_at(document, path)
        if node is None or not isinstance(node[1], yaml.MappingNode):
            return []
        return [
            (_name(key), ValueSpan(self._span(key), self._span(value), _style(value), node[2]))
            for key, value in node[1].value
            if isinstance(key, yaml.ScalarNode)
        ]

    def _node_at(self, document: int, path: Path) -> tuple[yaml.Node | None, yaml.Node, bool] | None:
        node = self._roots[document] if document < len(self._roots) else None
        key: yaml.Node | None = None
        shared = False
        for step in path:
            step_found = self._child(node, step)
            if step_found is None:
                return None
            key, node, merged = step_found
            shared = shared or merged or id(node) in self._shared
        return None if node is None else (key, node, shared)

    def _child(
        self, node: yaml.Node | None, step: str | int
    ) -> tuple[yaml.Node | None, yaml.Node, bool] | None:
        """(key, value, whether it is merged in) of an entry or item."""
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            return (None, node.value[step], False) if step < len(node.value) else None
        if not isinstance(node, yaml.MappingNode) or not isinstance(step, str):
            return None
        if id(node) not in self._entries:
            self._entries[id(node)] = {}  # one that merges itself finds nothing of itself
            self._entries[id(node)] = self._by_name(node)
        return self._entries[id(node)].get(step)

    def _by_name(self, node: yaml.MappingNode) -> dict[str, tuple[yaml.Node, yaml.Node, bool]]:
        by_name: dict[str, tuple[yaml.Node, yaml.Node, bool]] = {}
        for key, value in node.value:
            if key.tag != _MERGE:
                by_name.setdefault(_name(key), (key, value, False))
        for key, value in node.value:
            if key.tag == _MERGE:
                for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    inner = self._by_name(source) if isinstance(source, yaml.MappingNode) else {}
                    for name, (own, inner_value, _) in inner.items():
                        by_name.setdefault(name, (own, inner_value, True))
        return by_name

    def _span(self, node: yaml.Node) -> Span:
        start = node.start_mark
        return Span(start.index + self._shift, _end(node) + self._shift, start.line + 1, start.column + 1)


def _name(key: yaml.Node) -> str:
    """A key as it is read: `on` is true."""
    if key.tag == _BOOL:
        return "true" if str(key.value).lower() in ("yes", "true", "on") else "false"
    return str(key.value)


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        yield from node.value
    elif isinstance(node, yaml.MappingNode):
        for _, value in node.value:
            yield value


def _shared(roots: list[yaml.Node]) -> Iterator[int]:
    """Ids of nodes that more than one place has."""
    visited: set[int] = set()
    waiting = [*roots]
    while waiting:
        node = waiting.pop()
        if id(node) in visited:
            yield id(node)
            continue
        visited.add(id(node))
        waiting.extend(_children(node))


def _style(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return str(node.style or "")
    return "flow" if isinstance(node, yaml.CollectionNode) and node.flow_style else "block"


def _end(node: yaml.Node) -> int:
    """Where a value ends: libyaml ends a block only where the next begins, behind blanks and comments."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(node, yaml.MappingNode) else last
    return int(node.end_mark.index)
