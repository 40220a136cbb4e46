"""Changes of a document as edits of its text: comments, order and quotes of all else stay.

A change is an operation of JSON Patch (RFC 6902): `add` of an entry or of a list's last item, `remove` and
`replace`. What lies in a flow collection (`{…}`, `[…]`) is written anew as a whole.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.diagnose.lint.manifest_objects import at_path, sequence
from tonnage.diagnose.lint.sheet import Sheet, TextEdit
from tonnage.documents.yaml.reader import Path
from tonnage.model.json import JsonObject, JsonValue

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*")
_ANCHOR: Final = re.compile(r"&\S+\s+")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
LAST: Final = "-"
"""The place behind a list's last item."""


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """One operation at a path of a document. Without a `value` it removes what stands there."""

    path: Path
    value: JsonValue = None

    def to_json(self, above: Path, *, exists: bool) -> JsonObject:
        """The operation, its path seen from the object at `above`.

        >>> DocumentChange(("spec", "a/b"), 1).to_json((), exists=False)
        {'op': 'add', 'path': '/spec/a~1b', 'value': 1}
        """
        steps = [str(step).replace("~", "~0").replace("/", "~1") for step in self.path[len(above) :]]
        where = "".join(f"/{step}" for step in steps)
        if self.value is None:
            return {"op": "remove", "path": where}
        return {"op": "replace" if exists else "add", "path": where, "value": self.value}


class NotEditableError(Exception):
    """The text cannot be changed without changing more: an alias, or a comment within a flow collection."""


def changed(document: JsonValue, changes: Iterable[DocumentChange]) -> JsonValue:
    """The document after the changes, in their order; the given one stays as it is."""
    whole = copy.deepcopy(document)
    for change in changes:
        *above, last = change.path
        parent = at_path(whole, tuple(above))
        if isinstance(parent, dict) and isinstance(last, str):
            if change.value is None:
                parent.pop(last, None)
            else:
                parent[last] = change.value
        elif isinstance(parent, list):
            _change_item(parent, last, change.value)
    return whole


def _change_item(parent: list[JsonValue], place: int | str, value: JsonValue) -> None:
    if place == LAST:
        parent.append(value)
    elif isinstance(place, int) and value is None:
        del parent[place]
    elif isinstance(place, int):
        parent[place] = value


def text_edits(sheet: Sheet, document: int, changes: Sequence[DocumentChange]) -> list[TextEdit]:
    """The edits that make the changes. Items of one list are removed last first.

    Raises:
        NotEditableError: one of them would change more.
    """
    after = changed(sheet.documents[document].value, changes)
    edits = [*dict.fromkeys(_edits(sheet, document, changes, after))]
    if any(_is_shared(sheet, document, change.path) for change in changes):
        _check_reads_as(sheet, document, edits, after)
    return edits


def _edits(
    sheet: Sheet, document: int, changes: Sequence[DocumentChange], after: JsonValue
) -> Iterator[TextEdit]:
    rewritten: dict[Path, None] = {}
    for change in changes:
        flow = _flow_above(sheet, document, change.path)
        if flow is not None:
            rewritten[flow] = None
        elif change.value is None:
            yield _removed(sheet, document, change.path)
        else:
            yield from _written(sheet, document, change)
    for path in rewritten:
        yield _rewritten(sheet, document, path, after)


def _is_shared(sheet: Sheet, document: int, path: Path) -> bool:
    """Whether other places of the document have the same text, through an alias or a merge."""
    parts = (sheet.parts.part(document, path[:length]) for length in range(len(path), 0, -1))
    return any(part.shared for part in parts if part is not None)


def _check_reads_as(sheet: Sheet, document: int, edits: Sequence[TextEdit], after: JsonValue) -> None:
    """Raises NotEditableError: the edits change what is meant elsewhere, or leave an alias alone."""
    answer = Sheet(sheet.name, edited(sheet.text, edits))
    meant = [after if number == document else part.value for number, part in enumerate(sheet.documents)]
    if answer.problems or [part.value for part in answer.documents] != meant:
        raise NotEditableError("the text has an alias or a merge there")


def edited(text: str, edits: Iterable[TextEdit]) -> str:
    """The text with all edits made. What is inserted at one place keeps its order."""
    numbered = enumerate(edits)
    for _, edit in sorted(numbered, key=lambda pair: (pair[1].start, pair[1].end, pair[0]), reverse=True):
        text = text[: edit.start] + edit.new + text[edit.end :]
    return text


def flow_text(value: JsonValue) -> str:
    """A value on one line of YAML.

    >>> flow_text({"limits": {"cpu": "2"}, "claims": [{"name": "gpu"}]})
    '{limits: {cpu: "2"}, claims: [{name: gpu}]}'
    """
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_scalar(key)}: {flow_text(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(flow_text, value))}]"
    return _scalar(value)


def block_lines(value: JsonValue, indent: int) -> Iterator[str]:
    """A mapping or list as lines of YAML.

    >>> print("\\n".join(block_lines({"a": [{"b": 1, "c": {"d": "x"}}], "e": {}}, 0)))
    a:
    - b: 1
      c:
        d: x
    e: {}
    """
    blanks = " " * indent
    if isinstance(value, dict):
        for key, entry in value.items():
            if isinstance(entry, dict | list) and entry:
                yield f"{blanks}{_scalar(key)}:"
                yield from block_lines(entry, indent if isinstance(entry, list) else indent + 2)
            else:
                yield f"{blanks}{_scalar(key)}: {flow_text(entry)}"
    elif isinstance(value, list):
        for entry in value:
            if isinstance(entry, dict | list) and entry:
                first, *rest = block_lines(entry, indent + 2)
                yield f"{blanks}- {first.strip()}"
                yield from rest
            else:
                yield f"{blanks}- {flow_text(entry)}"


def _scalar(value: JsonValue) -> str:
    if isinstance(value, str):
        if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
            return value
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value)


def _flow_above(sheet: Sheet, document: int, path: Path) -> Path | None:
    """The outermost flow collection in which a change lies; None: there is none."""
    for length in range(len(path)):
        part = sheet.parts.part(document, path[:length])
        if part is not None and part.style == "flow":
            return path[:length]
    return None


def _rewritten(sheet: Sheet, document: int, path: Path, after: JsonValue) -> TextEdit:
    part = sheet.parts.part(document, path)
    assert part is not None
    if "#" in sheet.text[part.value.start : part.value.end]:
        raise NotEditableError("the text may have a comment within braces there")
    anchor = _ANCHOR.match(sheet.text, part.value.start)
    start = anchor.end() if anchor else part.value.start
    return TextEdit(start, part.value.end, flow_text(at_path(after, path)))


def _removed(sheet: Sheet, document: int, path: Path) -> TextEdit:
    """An entry or item with its lines; one behind a dash leaves its place to the next entry."""
    part, text = sheet.parts.part(document, path), sheet.text
    if part is None:
        raise NotEditableError("the text has no such part")
    if part.key is None:  # an item of a list: its dash stands before it
        start = _line_start(text, part.value.start)
        if text[start : part.value.start].strip() != "-":
            raise NotEditableError("more stands on the line of a list's item")
        return TextEdit(start, _after(text, part.value.end), "")
    start = _line_start(text, part.key.start)
    if not text[start : part.key.start].strip():
        is_alias = part.value.start < part.key.start  # its value stands where the anchor is
        return TextEdit(start, _after(text, part.key.end if is_alias else part.value.end), "")
    others = [own.key for _, own in sheet.parts.entries(document, path[:-1]) if own.key is not None]
    following = min((key.start for key in others if key.start > part.key.start), default=None)
    if following is None:
        raise NotEditableError("it is the only entry behind a dash")
    return TextEdit(part.key.start, following, "")


def _written(sheet: Sheet, document: int, change: DocumentChange) -> Iterator[TextEdit]:
    part = sheet.parts.part(document, change.path) if change.path[-1] != LAST else None
    if part is not None:  # a value that is there
        is_null = at_path(sheet.documents[document].value, change.path) is None
        if part.style in ("block", "|", ">") or (isinstance(change.value, dict | list) and not is_null):
            raise NotEditableError("a value of several lines would be replaced")
        space = " " if part.value.start == part.value.end else ""  # nothing stands behind the colon
        yield TextEdit(part.value.start, part.value.end, space + flow_text(change.value))
        return
    above = change.path[:-1]
    if change.path[-1] == LAST:
        yield _appended(sheet, document, above, change.value)
        return
    entries = [own for _, own in sheet.parts.entries(document, above) if own.key is not None]
    if not entries or entries[0].key is None:
        raise NotEditableError("there is no entry to write it before")
    first, text = entries[0].key, sheet.text
    indent = first.column - 1
    lines = list(block_lines({str(change.path[-1]): change.value}, indent))
    start = _line_start(text, first.start)
    if not text[start : first.start].strip():
        yield TextEdit(start, start, "\n".join([*lines, ""]))
    else:  # behind a dash
        yield TextEdit(first.start, first.start, "\n".join([*lines, ""]).lstrip() + " " * indent)


def _appended(sheet: Sheet, document: int, above: Path, value: JsonValue) -> TextEdit:
    """Another item behind the last one of a list."""
    text, items = sheet.text, sequence(at_path(sheet.documents[document].value, above))
    last = sheet.parts.part(document, (*above, len(items) - 1)) if items else None
    if last is None:
        raise NotEditableError("the list is empty")
    dash = text.rfind("-", _line_start(text, last.value.start), last.value.start)
    if dash < 0:
        raise NotEditableError("more stands on the line of a list's item")
    indent = dash - _line_start(text, dash)
    end = _after(text, last.value.end)
    newline = "" if text[end - 1 : end] == "\n" else "\n"
    return TextEdit(end, end, newline + "\n".join([*block_lines([value], indent), ""]))


def _line_start(text: str, offset: int) -> int:
    return text.rfind("\n", 0, offset) + 1


def _after(text: str, end: int) -> int:
    """The start of the line after the one on which a value ends."""
    if end and text[end - 1] == "\n":
        return end
    following = text.find("\n", end)
    return len(text) if following < 0 else following + 1


def without_empty_parents(document: JsonValue, paths: Iterable[Path]) -> list[Path]:
    """The paths to remove so that no mapping or list is left empty, innermost lists from behind.

    >>> without_empty_parents({"a": {"b": {"c": 1}, "d": [1, 2]}}, [("a", "b", "c"), ("a", "d", 0)])
    [('a', 'd', 0), ('a', 'b')]
    """
    whole = copy.deepcopy(document)
    removed: list[Path] = []
    for path in sorted(paths, key=_from_behind, reverse=True):
        whole, gone = _without(whole, path)
        removed = [other for other in removed if other[: len(gone)] != gone]
        removed.append(gone)
    return removed


def _without(whole: JsonValue, path: Path) -> tuple[JsonValue, Path]:
    """The document without a part, and the path at which it was cut: no parent is left empty."""
    rest = changed(whole, [DocumentChange(path)])
    above = at_path(rest, path[:-1])
    return (rest, path) if above or len(path) == 1 else _without(rest, path[:-1])


def _from_behind(path: Path) -> tuple[tuple[int, str], ...]:
    return tuple((step, "") if isinstance(step, int) else (-1, step) for step in path)
