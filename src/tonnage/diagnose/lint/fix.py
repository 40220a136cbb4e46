"""Certain repairs as edits of the text: everything that they do not touch stays as it is, comments, too."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.diagnose.lint.finding import (
    Change,
    MoveToLimits,
    QuoteText,
    RenameKey,
    SetBare,
    SetText,
    UnwrapEntry,
    WrapEntries,
)
from tonnage.diagnose.lint.items import Item, at_path, mapping
from tonnage.diagnose.lint.lint import Located, Report
from tonnage.diagnose.lint.sheet import Edit
from tonnage.documents.yaml.reader import Path
from tonnage.documents.yaml.spans import Part, Span

_STEP: Final = 2


@dataclass(frozen=True, slots=True)
class Repair:
    """The edits of one finding; they are made together or not at all."""

    index: int
    file: str
    edits: tuple[Edit, ...]


def repairs(report: Report) -> Iterator[Repair]:
    """The repairs that can be written, one for a finding at most. Of two that touch one place, the first.

    Of two entries that would have the same key neither: which of them is meant is not certain.
    """
    taken: dict[str, list[tuple[int, int]]] = {}
    renamed: dict[Hashable, set[Path]] = {}
    for one in report.found:
        if isinstance(change := one.draft.change, RenameKey):
            renamed.setdefault(_new_key(change, one.item), set()).add(change.path)
    for index, one in enumerate(report.found):
        edits, change = _edits(one), one.draft.change
        if not edits or (isinstance(change, RenameKey) and len(renamed[_new_key(change, one.item)]) > 1):
            continue
        file = one.finding.place.file
        spans = [(edit.start, edit.end) for edit in edits]
        others = taken.setdefault(file, [])
        if any(
            start <= other_end and other_start <= end
            for start, end in spans
            for other_start, other_end in others
        ):
            continue
        others.extend(spans)
        yield Repair(index, file, edits)


def repaired(text: str, found: Sequence[Repair]) -> str:
    """The text with all edits made."""
    for edit in sorted(
        (e for repair in found for e in repair.edits), key=lambda e: (e.start, e.end), reverse=True
    ):
        text = text[: edit.start] + edit.new + text[edit.end :]
    return text


def _new_key(change: RenameKey, item: Item) -> Hashable:
    """Where an entry stands once it has its new key."""
    return id(item.sheet), item.document, *change.path[:-1], change.key


def _edits(one: Located) -> tuple[Edit, ...]:
    change, item = one.draft.change, one.item
    if change is None or not _is_own(change, item):
        return ()
    match change:
        case RenameKey():
            inner = _renamed(change, item)
        case SetText():
            inner = _set(change, item)
        case SetBare():
            part = _part(item, change)
            inner = (
                [Edit(part.value.start, part.value.end, change.word)] if part.style in ("", "'", '"') else []
            )
        case QuoteText():
            inner = _quoted(change, item)
        case WrapEntries():
            inner = _wrapped(change, item)
        case UnwrapEntry():
            inner = _unwrapped(change, item)
        case MoveToLimits():
            inner = _limited(change, item)
        case _:
            inner = []
    moved = [item.sheet.edit_in_file(edit) for edit in inner]
    return tuple(edit for edit in moved if edit is not None) if None not in moved else ()


def _is_own(change: Change, item: Item) -> bool:
    """Whether nothing else of the document has the same text, through an alias or a merge."""
    part = item.sheet.parts.part(item.document, change.path)
    return part is not None and not part.shared


def _part(item: Item, change: Change) -> Part:
    part = item.sheet.parts.part(item.document, change.path)
    assert part is not None
    return part


def _renamed(change: RenameKey, item: Item) -> list[Edit]:
    key = _part(item, change).key
    there = item.sheet.parts.entries(item.document, change.path[:-1])
    if key is None or any(name == change.key for name, _ in there):
        return []
    written = item.sheet.text[key.start : key.end]
    quote = written[:1] if written[:1] in "'\"" else ""
    return [Edit(key.start, key.end, f"{quote}{change.key}{quote}")]


def _set(change: SetText, item: Item) -> list[Edit]:
    part = _part(item, change)
    if part.style not in ("", "'", '"'):
        return []
    if part.style == "'":
        new = "'" + change.text.replace("'", "''") + "'"
    elif part.style == '"':
        new = '"' + change.text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    else:
        new = change.text
    return [Edit(part.value.start, part.value.end, new)]


def _quoted(change: QuoteText, item: Item) -> list[Edit]:
    part = _part(item, change)
    written = item.sheet.text[part.value.start : part.value.end]
    if (
        part.style
        or not written
        or '"' in written
        or "\\" in written
        or "\n" in written
        or written[0] in "&*!"
    ):
        return []
    return [Edit(part.value.start, part.value.end, f'"{written}"')]


def _unwrapped(change: UnwrapEntry, item: Item) -> list[Edit]:
    part, text = _part(item, change), item.sheet.text
    entries = item.sheet.parts.entries(item.document, change.path)
    if part.key is None or len(entries) != 1:
        return []
    key, value = _key(entries[0][1]), entries[0][1].value
    before, after = text[part.key.end : key.start], text[value.end : part.value.end]
    if not re.fullmatch(r"\s*:\s*\{?\s*", before) or not re.fullmatch(r"\s*\}?", after):
        return []  # a comment between
    return [Edit(part.key.start, key.start, ""), Edit(value.end, part.value.end, "")]


def _wrapped(change: WrapEntries, item: Item) -> list[Edit]:
    part = _part(item, change)
    entries = item.sheet.parts.entries(item.document, change.path)
    if not {key for key, _ in entries} >= set(change.keys):
        return []
    if part.style == "flow":
        return _wrapped_flow(change, item, part, entries)
    return _wrapped_block(change, item, entries)


def _wrapped_flow(change: WrapEntries, item: Item, part: Part, entries: list[tuple[str, Part]]) -> list[Edit]:
    text = item.sheet.text
    written = text[part.value.start : part.value.end]
    if "#" in written:
        return []
    quote = '"' if written.lstrip("{ \n\t").startswith('"') else ""
    pieces = {key: text[_key(one).start : one.value.end] for key, one in entries}
    moved = ", ".join(pieces[key] for key in pieces if key in change.keys)
    kept = [piece for key, piece in pieces.items() if key not in change.keys]
    new = ", ".join([*kept, f"{quote}{change.into}{quote}: {{{moved}}}"])
    return [Edit(part.value.start, part.value.end, f"{{{new}}}")]


def _key(part: Part) -> Span:
    assert part.key is not None
    return part.key


def _wrapped_block(change: WrapEntries, item: Item, entries: list[tuple[str, Part]]) -> list[Edit]:
    """The entries' lines anew: those that move stand together, at the place of the first of them."""
    text = item.sheet.text
    indent = _key(entries[0][1]).column - 1
    begin = _key(entries[0][1]).start
    bounds = [_line_start(text, _key(one).start) for _, one in entries[1:]]
    end = _line_end(text, entries[-1][1].value)
    edges = [begin, *bounds, end]
    blocks = {key: text[edges[n] : edges[n + 1]].removesuffix("\n") for n, (key, _) in enumerate(entries)}
    blanks = " " * indent
    lines: list[str] = []
    done = False
    for position, (key, _) in enumerate(entries):
        block = blocks[key] if position else blanks + blocks[key]
        if key not in change.keys:
            lines.append(block)
        elif not done:
            done = True
            lines.append(f"{blanks}{change.into}:")
            for name, (other, _) in enumerate(entries):
                if other in change.keys:
                    whole = blocks[other] if name else blanks + blocks[other]
                    lines.append(
                        "\n".join(" " * _STEP + line if line.strip() else line for line in whole.split("\n"))
                    )
    new = "\n".join(lines).removeprefix(blanks)
    return [Edit(begin, begin + len(text[begin:end].removesuffix("\n")), new)]


def _line_start(text: str, offset: int) -> int:
    return text.rfind("\n", 0, offset) + 1


def _line_end(text: str, value: Span) -> int:
    """The end of the line on which a value ends; that of a block text is the next line's start already."""
    if value.end > value.start and text[value.end - 1 : value.end] == "\n":
        return value.end
    end = text.find("\n", value.end)
    return len(text) if end < 0 else end


def _limited(change: MoveToLimits, item: Item) -> list[Edit]:
    """A resource under limits: in those that are there, by renaming requests, or in a block before them."""
    parts, text = item.sheet.parts, item.sheet.text
    requests = parts.part(item.document, (*change.path, "requests"))
    asked = parts.part(item.document, (*change.path, "requests", change.resource))
    limits = parts.part(item.document, (*change.path, "limits"))
    if requests is None or asked is None or requests.key is None or asked.key is None or requests.shared:
        return []
    entry = text[asked.key.start : asked.value.end]
    if "\n" in entry:
        return []
    if limits is not None:
        return [] if limits.shared else _added(entry, limits, item, change)
    named = mapping(at_path(item.sheet.documents[item.document].value, (*change.path, "requests")))
    if len(named) == 1:
        return _renamed(RenameKey((*change.path, "requests"), "limits"), item)
    key = requests.key
    if _part(item, change).style == "flow":
        quote = text[key.start] if text[key.start] in "'\"" else ""
        return [Edit(key.start, key.start, f"{quote}limits{quote}: {{{entry}}}, ")]
    blanks = " " * (key.column - 1)
    return [Edit(key.start, key.start, f"limits:\n{blanks}{' ' * _STEP}{entry}\n{blanks}")]


def _added(entry: str, limits: Part, item: Item, change: MoveToLimits) -> list[Edit]:
    """The entry as the first of the limits that are there."""
    entries = item.sheet.parts.entries(item.document, (*change.path, "limits"))
    if not entries:
        return []
    first = _key(entries[0][1])
    if limits.style == "flow":
        return [Edit(first.start, first.start, f"{entry}, ")]
    return [Edit(first.start, first.start, f"{entry}\n{' ' * (first.column - 1)}")]
