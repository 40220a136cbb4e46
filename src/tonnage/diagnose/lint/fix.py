"""Certain repairs as edits of the text: everything that they do not touch stays as it is, comments, too."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.diagnose.lint.finding import (
    AddEmptyEntries,
    MoveToLimits,
    QuoteText,
    RenameKey,
    SetBare,
    SetText,
    TextRepair,
    UnwrapEntry,
    WrapEntries,
)
from tonnage.diagnose.lint.lint import LintReport, LocatedFinding
from tonnage.diagnose.lint.manifest_objects import ManifestObject, at_path, mapping
from tonnage.diagnose.lint.sheet import TextEdit
from tonnage.documents.yaml.reader import Path
from tonnage.documents.yaml.spans import Span, ValueSpan

_STEP: Final = 2


@dataclass(frozen=True, slots=True)
class Repair:
    """The edits of one finding; they are made together or not at all."""

    index: int
    file: str
    edits: tuple[TextEdit, ...]


def repairs(report: LintReport) -> Iterator[Repair]:
    """The repairs that can be written, one for a finding at most. Of two that touch one place, the first.

    Of two entries that would have the same key neither: which of them is meant is not certain.
    """
    edited: dict[str, list[tuple[int, int]]] = {}
    renamed: dict[Hashable, set[Path]] = {}
    for located in report.located:
        if isinstance(change := located.draft.change, RenameKey):
            renamed.setdefault(_new_key(change, located.manifest), set()).add(change.path)
    for index, located in enumerate(report.located):
        edits, change = _edits(located), located.draft.change
        if not edits or (
            isinstance(change, RenameKey) and len(renamed[_new_key(change, located.manifest)]) > 1
        ):
            continue
        file = located.finding.place.file
        spans = [(edit.start, edit.end) for edit in edits]
        others = edited.setdefault(file, [])
        if any(
            start <= other_end and other_start <= end
            for start, end in spans
            for other_start, other_end in others
        ):
            continue
        others.extend(spans)
        yield Repair(index, file, edits)


def repaired(text: str, repair_list: Sequence[Repair]) -> str:
    """The text with all edits made."""
    for edit in sorted(
        (e for repair in repair_list for e in repair.edits), key=lambda e: (e.start, e.end), reverse=True
    ):
        text = text[: edit.start] + edit.new + text[edit.end :]
    return text


def _new_key(change: RenameKey, manifest: ManifestObject) -> Hashable:
    """Where an entry stands once it has its new key."""
    return id(manifest.sheet), manifest.document, *change.path[:-1], change.key


def _edits(located: LocatedFinding) -> tuple[TextEdit, ...]:
    change, manifest = located.draft.change, located.manifest
    if change is None or not _is_own(change, manifest):
        return ()
    match change:
        case RenameKey():
            inner = _renamed(change, manifest)
        case SetText():
            inner = _set(change, manifest)
        case SetBare():
            part = _part(manifest, change)
            inner = (
                [TextEdit(part.value.start, part.value.end, change.word)]
                if part.style in ("", "'", '"')
                else []
            )
        case QuoteText():
            inner = _quoted(change, manifest)
        case WrapEntries():
            inner = wrap_edits(change, manifest)
        case UnwrapEntry():
            inner = _unwrapped(change, manifest)
        case AddEmptyEntries():
            inner = _with_empty(change, manifest)
        case MoveToLimits():
            inner = _limited(change, manifest)
        case _:
            inner = []
    moved = [manifest.sheet.edit_in_file(edit) for edit in inner]
    return tuple(edit for edit in moved if edit is not None) if None not in moved else ()


def _is_own(change: TextRepair, manifest: ManifestObject) -> bool:
    """Whether nothing else of the document has the same text, through an alias or a merge."""
    part = manifest.sheet.parts.part(manifest.document, change.path)
    return part is not None and not part.shared


def _part(manifest: ManifestObject, change: TextRepair) -> ValueSpan:
    part = manifest.sheet.parts.part(manifest.document, change.path)
    assert part is not None
    return part


def _renamed(change: RenameKey, manifest: ManifestObject) -> list[TextEdit]:
    key = _part(manifest, change).key
    there = manifest.sheet.parts.entries(manifest.document, change.path[:-1])
    if key is None or any(name == change.key for name, _ in there):
        return []
    written = manifest.sheet.text[key.start : key.end]
    quote = written[:1] if written[:1] in "'\"" else ""
    return [TextEdit(key.start, key.end, f"{quote}{change.key}{quote}")]


def _set(change: SetText, manifest: ManifestObject) -> list[TextEdit]:
    part = _part(manifest, change)
    if part.style not in ("", "'", '"'):
        return []
    if part.style == "'":
        new = "'" + change.text.replace("'", "''") + "'"
    elif part.style == '"':
        new = '"' + change.text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    else:
        new = change.text
    return [TextEdit(part.value.start, part.value.end, new)]


def _quoted(change: QuoteText, manifest: ManifestObject) -> list[TextEdit]:
    part = _part(manifest, change)
    written = manifest.sheet.text[part.value.start : part.value.end]
    if (
        part.style
        or not written
        or '"' in written
        or "\\" in written
        or "\n" in written
        or written[0] in "&*!"
    ):
        return []
    return [TextEdit(part.value.start, part.value.end, f'"{written}"')]


def _unwrapped(change: UnwrapEntry, manifest: ManifestObject) -> list[TextEdit]:
    part, text = _part(manifest, change), manifest.sheet.text
    entries = manifest.sheet.parts.entries(manifest.document, change.path)
    if part.key is None or len(entries) != 1:
        return []
    key, value = _key(entries[0][1]), entries[0][1].value
    before, after = text[part.key.end : key.start], text[value.end : part.value.end]
    if not re.fullmatch(r"\s*:\s*\{?\s*", before) or not re.fullmatch(r"\s*\}?", after):
        return []  # a comment between
    return [TextEdit(part.key.start, key.start, ""), TextEdit(value.end, part.value.end, "")]


def _with_empty(change: AddEmptyEntries, manifest: ManifestObject) -> list[TextEdit]:
    """Before the entries that are there; a mapping without any is written in its place."""
    part, sheet = _part(manifest, change), manifest.sheet
    entries = sheet.parts.entries(manifest.document, change.path)
    if part.style == "flow":
        new = "".join(f"{key}: {{}}, " for key in change.keys)
        start = part.value.start + 1
        return [TextEdit(start, start, new if entries else new.rstrip(", "))]
    if not entries:
        return []
    first = _key(entries[0][1])
    line_end = "\r\n" if "\r\n" in sheet.text else "\n"
    blanks = " " * (first.column - 1)
    new = "".join(f"{key}: {{}}{line_end}{blanks}" for key in change.keys)
    return [TextEdit(first.start, first.start, new)]


def wrap_edits(change: WrapEntries, manifest: ManifestObject) -> list[TextEdit]:
    """The edits that put entries of a mapping under another one; none where that cannot be written."""
    part = _part(manifest, change)
    entries = manifest.sheet.parts.entries(manifest.document, change.path)
    if not {key for key, _ in entries} >= set(change.keys):
        return []
    if part.style == "flow":
        return _wrapped_flow(change, manifest, part, entries)
    return _wrapped_block(change, manifest, entries)


def _wrapped_flow(
    change: WrapEntries, manifest: ManifestObject, part: ValueSpan, entries: list[tuple[str, ValueSpan]]
) -> list[TextEdit]:
    text = manifest.sheet.text
    written = text[part.value.start : part.value.end]
    if "#" in written:
        return []
    quote = '"' if written.lstrip("{ \n\t").startswith('"') else ""
    pieces = {key: text[_key(entry_part).start : entry_part.value.end] for key, entry_part in entries}
    moved = ", ".join(pieces[key] for key in pieces if key in change.keys)
    remaining = [piece for key, piece in pieces.items() if key not in change.keys]
    new = ", ".join([*remaining, f"{quote}{change.into}{quote}: {{{moved}}}"])
    return [TextEdit(part.value.start, part.value.end, f"{{{new}}}")]


def _key(part: ValueSpan) -> Span:
    assert part.key is not None
    return part.key


def _wrapped_block(
    change: WrapEntries, manifest: ManifestObject, entries: list[tuple[str, ValueSpan]]
) -> list[TextEdit]:
    """The entries' lines anew: those that move stand together, at the place of the first of them."""
    text = manifest.sheet.text
    indent = _key(entries[0][1]).column - 1
    begin = _key(entries[0][1]).start
    bounds = [_line_start(text, _key(entry_part).start) for _, entry_part in entries[1:]]
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
    return [TextEdit(begin, begin + len(text[begin:end].removesuffix("\n")), new)]


def _line_start(text: str, offset: int) -> int:
    return text.rfind("\n", 0, offset) + 1


def _line_end(text: str, value: Span) -> int:
    """The end of the line on which a value ends; that of a block text is the next line's start already."""
    if value.end > value.start and text[value.end - 1 : value.end] == "\n":
        return value.end
    end = text.find("\n", value.end)
    return len(text) if end < 0 else end


def _limited(change: MoveToLimits, manifest: ManifestObject) -> list[TextEdit]:
    """A resource under limits: in those that are there, by renaming requests, or in a block before them."""
    parts, text = manifest.sheet.parts, manifest.sheet.text
    requests = parts.part(manifest.document, (*change.path, "requests"))
    request = parts.part(manifest.document, (*change.path, "requests", change.resource))
    limits = parts.part(manifest.document, (*change.path, "limits"))
    if requests is None or request is None or requests.key is None or request.key is None or requests.shared:
        return []
    entry = text[request.key.start : request.value.end]
    if "\n" in entry:
        return []
    if limits is not None:
        return [] if limits.shared else _added(entry, limits, manifest, change)
    named = mapping(at_path(manifest.sheet.documents[manifest.document].value, (*change.path, "requests")))
    if len(named) == 1:
        return _renamed(RenameKey((*change.path, "requests"), "limits"), manifest)
    key = requests.key
    if _part(manifest, change).style == "flow":
        quote = text[key.start] if text[key.start] in "'\"" else ""
        return [TextEdit(key.start, key.start, f"{quote}limits{quote}: {{{entry}}}, ")]
    blanks = " " * (key.column - 1)
    return [TextEdit(key.start, key.start, f"limits:\n{blanks}{' ' * _STEP}{entry}\n{blanks}")]


def _added(entry: str, limits: ValueSpan, manifest: ManifestObject, change: MoveToLimits) -> list[TextEdit]:
    """The entry as the first of the limits that are there."""
    entries = manifest.sheet.parts.entries(manifest.document, (*change.path, "limits"))
    if not entries:
        return []
    first = _key(entries[0][1])
    if limits.style == "flow":
        return [TextEdit(first.start, first.start, f"{entry}, ")]
    return [TextEdit(first.start, first.start, f"{entry}\n{' ' * (first.column - 1)}")]
