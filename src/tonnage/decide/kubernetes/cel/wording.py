"""What the CEL library has against an expression, in the words of cel-go, which the server passes on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tonnage.decide.kubernetes.cel.literals import block
from tonnage.decide.kubernetes.cel.tree import walk
from tonnage.decide.kubernetes.cel.types.declarations import PACKAGE, ROOT
from tonnage.decide.kubernetes.cel.types.untyped import TreeNode
from tonnage.decide.kubernetes.claims.cel_wording import as_member

_MESSAGE: Final = re.compile(rf"\b{PACKAGE}\.(T\d+)\b")
_CHANGES: Final = (
    (
        re.compile(r"undefined field '[^']*' not found in struct '(kubernetes\.[^']*)'"),
        r"unexpected failed resolution of '\1'",
    ),
    (
        re.compile(r"undefined field '[^']*' not found in struct '(net\.[^']*)'"),
        r"type '\1' does not support field selection",
    ),
    (re.compile(r"(undefined field '[^']*') not found in struct '[^']*'"), r"\1"),
    (
        re.compile(r"expression of (type '[^']*') cannot be the operand of a select operation"),
        r"\1 does not support field selection",
    ),
    (re.compile(r"has\(\) argument must be a field selection"), "invalid argument to has() macro"),
    (re.compile(r"\w+\(\) variable name must be a simple identifier"), "argument must be a simple name"),
    (re.compile(r"\bnull_type\b(?=[,)'])"), "null"),
    (re.compile(r"\bT%\d+"), "dyn"),
    (re.compile(r"\bgoogle\.protobuf\.Timestamp\b"), "timestamp"),
    (re.compile(r"\bgoogle\.protobuf\.Duration\b"), "duration"),
)
_OF_AN_ERROR: Final = "*error*"
_HEAD: Final = re.compile(r"ERROR: <input>:(\d+):(\d+): ([^\n]*)")
_UNDECLARED: Final = re.compile(r"undeclared reference to '(([A-Za-z_]\w*)(?:\.\w+)*)'(.*)")
_LOGIC: Final = re.compile(r"found no matching overload for '(_&&_|_\|\|_)' applied to '\((.*)\)'")
_FULL: Final = {
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
    "null": "null_type",
}


@dataclass(frozen=True, slots=True)
class Written:
    """An expression, what errors call its messages, and what they call the value that a rule is about."""

    text: str
    titles: Mapping[str, str]
    root: str

    def offset(self, line: int, column: int) -> int:
        """Where a place is, in characters from the beginning."""
        return sum(len(row) + 1 for row in self.text.split("\n")[: line - 1]) + column - 1


def full_name(kind: str) -> str:
    """A type as it calls itself.

    >>> full_name("list(timestamp)")
    'list(google.protobuf.Timestamp)'
    """
    return re.sub(r"\b(?:timestamp|duration|null)\b", lambda match: _FULL[match[0]], kind)


def titled(text: str, written: Written) -> str:
    """A text in which messages are called as errors call them."""
    return _MESSAGE.sub(lambda match: written.titles[match[1]], text).replace(ROOT, written.root)


def compile_words(text: str, written: Written, parsed: Callable[[], TreeNode]) -> str:
    """The library's blocks of words as the server says them, in the order of their places.

    `parsed` gives the tree of what was not compiled.
    """
    shown = re.sub(r"^[A-Z_]+: | \[[A-Z_]+\]$", "", text)
    entries: list[tuple[int, int, str]] = []
    for entry in re.split(r"(?m)^(?=ERROR: )", shown):
        head = _HEAD.match(entry)
        if head is None or _OF_AN_ERROR in entry:
            continue
        place = written.offset(int(head[1]), int(head[2]))
        words = _HEAD.match(as_member(entry, written.text))
        entries += [
            (offset, len(entries), _block(entry, offset == place, offset, titled(message, written), written))
            for offset, message in _worded(words[3] if words else head[3], place, written, parsed)
        ]
    return "\n".join(entry for _, _, entry in sorted(entries))


def _block(before: str, stays: bool, offset: int, words: str, written: Written) -> str:
    """The block with other words; the library's own lines where the place is the library's."""
    if not stays:
        return block(written.text, offset, words)
    head, _, rest = before.rstrip("\n").partition("\n")
    place = re.match(r"ERROR: <input>:\d+:\d+: ", head)
    return f"{place[0] if place else ''}{words}\n{rest}"


def _worded(
    words: str, place: int, written: Written, parsed: Callable[[], TreeNode]
) -> Iterator[tuple[int, str]]:
    for pattern, into in _CHANGES:
        words = pattern.sub(into, words)
    if match := _UNDECLARED.fullmatch(words):
        whole, first, rest = match.groups()
        if whole != first:
            place -= len(whole.rpartition(".")[0])
        elif written.text[place:].startswith(f"{first}{{"):
            place += len(first)
        yield place, f"undeclared reference to '{first}'{rest}"
    elif match := _LOGIC.fullmatch(words):
        yield from _no_bools(match[1], match[2].split(", "), place, parsed())
    else:
        yield place, words


def _no_bools(function: str, kinds: list[str], place: int, tree: TreeNode) -> Iterator[tuple[int, str]]:
    """The sides of a logical operator that are neither true nor false."""
    places = {entry.key: entry.value for entry in tree.source_info.positions}
    for expr in walk(tree.expr):
        call = expr.call_expr
        if call.function == function and places.get(expr.id) == place:
            for kind, argument in zip(kinds, call.args, strict=False):
                if kind not in ("bool", "dyn"):
                    yield places.get(argument.id, place), f"expected type 'bool' but found '{kind}'"
