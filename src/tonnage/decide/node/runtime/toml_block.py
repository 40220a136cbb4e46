"""Settings in a person's TOML: put in as marked blocks, and taken out again without a trace.

Comments, blanks, the order of things and unknown keys stay as they are. A block sums up what stands in it, so
that nothing is taken out that somebody has changed since; what it stands in for is kept in it as a comment.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Final

from tonnage.documents.node.runtime_config import parsed_toml
from tonnage.model.errors import Problem
from tonnage.model.node.runtime_change import FileEdit
from tonnage.model.reasons.node.runtime_plans import RuntimeNotConfigured, not_configured, not_read

_BLOCK: Final = re.compile(
    r"^# >>> tonnage (?P<sum>[0-9a-f]{12})(?P<flag> joined| file)?: [^\n]*\n"
    r"(?P<body>(?:[^\n]*\n){0,60}?)# <<< tonnage\n",
    re.MULTILINE,
)
_MARK: Final = re.compile(r"^# (?:>>>|<<<) tonnage\b", re.MULTILINE)
_COMMENTED: Final = "#~ "
_JOINED: Final = " joined"
"""Says that the line before the block ended without a line's end, which it got."""
_LONGEST_LINE: Final = 2000
_MOST_DOTS: Final = 200

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Section:
    """Lines of one table: its header's number, -1 for what stands before all, and where it ends."""

    header: int
    end: int


def whole_file(body: str) -> str:
    """A file that has nothing else; `body` ends with a line's end."""
    return _block(body, " file")


def _block(body: str, flag: str = "") -> str:
    return f"# >>> tonnage {_sum(body)}{flag}: 'tonnage runtime undo' takes it out\n{body}# <<< tonnage\n"


def with_flag(path: str, text: str, table: Path, key: str, value: str) -> FileEdit | RuntimeNotConfigured:
    """The edit that sets `key = value` in that table.

    It stands in the place of another value, or below the header of the table, which gets one at the end
    where it has none.
    """
    lines = text.split("\n")
    section = _section(lines, table)
    setting = f"{key} = {value}\n"
    if section is None:
        return _checked(path, text, _appended(text, f"{header(table)}\n{setting}"), table, {key: value})
    at = _line_of(lines, section, key)
    if at is None:
        at, replaced = section.header, ""
    else:
        replaced = f"{_COMMENTED}{lines[at]}\n"
    last = at == len(lines) - 1
    head = lines[: at + 1] if not replaced else lines[:at]
    indented = f"{_indent(lines[at])}{setting}"
    joined = last and bool(head) if not replaced else last
    made = _block(replaced + indented, _JOINED if joined else "")
    rest = "\n".join(lines[at + 1 :])
    after = "".join(f"{line}\n" for line in head) + made + rest
    return _checked(path, text, after, table, {key: value})


Settings = Mapping[Path, Mapping[str, str]]
"""Values, as TOML writes them, by table and key."""


def tables_body(tables: Settings) -> str:
    """Tables with their headers, one line for each setting."""
    return "".join(
        f"{header(table)}\n{''.join(f'  {key} = {value}{chr(10)}' for key, value in settings.items())}"
        for table, settings in tables.items()
    )


def with_tables(path: str, text: str, tables: Settings) -> FileEdit | RuntimeNotConfigured:
    """The edit that puts new tables at the text's end."""
    expected: dict[str, object] | RuntimeNotConfigured | None = _table(path, text)
    for table, settings in tables.items():
        if isinstance(expected, RuntimeNotConfigured):
            return expected
        expected = None if expected is None else _set(expected, table, settings)
    after = _appended(text, tables_body(tables))
    if _table(path, after) != expected:
        return _rewrite(path, header(next(iter(tables))))
    return FileEdit(path, text, after)


def without_blocks(path: str, text: str) -> FileEdit | RuntimeNotConfigured:
    """The edit back to what was before, nothing if there was no file; or that a block was changed."""
    out, at, made = "", 0, False
    for match in _BLOCK.finditer(text):
        if _sum(match["body"]) != match["sum"]:
            continue
        restored = "".join(
            line[len(_COMMENTED) :]
            for line in match["body"].splitlines(keepends=True)
            if line.startswith(_COMMENTED)
        )
        out += text[at : match.start()] + restored
        at = match.end()
        if match["flag"] == _JOINED and at == len(text):
            out = out.removesuffix("\n")
        made = made or match["flag"] == " file"
    out += text[at:]
    left = _MARK.search(out)
    if left is not None:
        return not_configured(
            "what Tonnage wrote there has been changed since",
            f"{path}:{out.count(chr(10), 0, left.start()) + 1}",
            "the checksum in its mark does not match, so Tonnage does not remove it",
            "take the lines from '# >>> tonnage' to '# <<< tonnage' out by hand; what you want to keep,"
            " write outside of them",
        )
    return FileEdit(path, text, None if made and not out else out)


def has_block(text: str) -> bool:
    """Whether there is a mark of ours in it."""
    return _MARK.search(text) is not None


def header(table: Path) -> str:
    """The header of a table.

    >>> header(("plugins", "io.containerd.grpc.v1.cri"))
    '[plugins."io.containerd.grpc.v1.cri"]'
    """
    parts = (part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else f'"{part}"' for part in table)
    return f"[{'.'.join(parts)}]"


def _sum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:12]


def _appended(text: str, body: str) -> str:
    joined = bool(text) and not text.endswith("\n")
    return text + ("\n" if joined else "") + _block(body, _JOINED if joined else "")


def _section(lines: Sequence[str], table: Path) -> _Section | None:
    """Where the table is that has this header."""
    start = None
    for number, line in enumerate(lines):
        if not line.lstrip().startswith("[") or len(line) > _LONGEST_LINE:
            continue
        if start is not None:
            return _Section(start, number)
        if _table_path(line) == table:
            start = number
    return None if start is None else _Section(start, len(lines))


def _table_path(line: str) -> Path | None:
    """The table that a header begins; None of anything else."""
    if line.lstrip().startswith("[[") or line.count(".") > _MOST_DOTS:
        return None
    try:
        table: object = tomllib.loads(line.rstrip("\r"))
    except (ValueError, RecursionError):
        return None
    parts: list[str] = []
    while isinstance(table, dict) and len(table) == 1:
        name, table = next(iter(table.items()))
        parts.append(name)
    return tuple(parts) if table == {} else None


def _line_of(lines: Sequence[str], section: _Section, key: str) -> int | None:
    pattern = re.compile(rf"\s*(?:{re.escape(key)}|\"{re.escape(key)}\"|'{re.escape(key)}')\s*=")
    numbers = range(section.header + 1, section.end)
    return next((number for number in numbers if pattern.match(lines[number])), None)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _checked(
    path: str, before: str, after: str, table: Path, settings: Mapping[str, str]
) -> FileEdit | RuntimeNotConfigured:
    """The edit from `before` to `after`, if it says what `before` does but for the settings."""
    old = _table(path, before)
    if isinstance(old, RuntimeNotConfigured):
        return old
    if _table(path, after) != _set(old, table, settings):
        return _rewrite(path, header(table))
    return FileEdit(path, before, after)


def _rewrite(path: str, where: str) -> RuntimeNotConfigured:
    return not_configured(
        f"{where or 'a table'} cannot be added to {path} without rewriting it",
        path,
        "the table is written inline, with dotted keys, or its value spans several lines",
        "write the table with a header of its own, or make the change by hand",
    )


def _table(path: str, text: str) -> dict[str, object] | RuntimeNotConfigured:
    problems: list[Problem] = []
    table = parsed_toml(path, text, problems)
    return not_read(problems[0]) if problems else dict(table)


def _set(table: dict[str, object], path: Path, settings: Mapping[str, str]) -> dict[str, object] | None:
    """A copy with the settings; None where something else than a table is in the way."""
    made = deepcopy(table)
    here: object = made
    for part in path:
        here = here.setdefault(part, {}) if isinstance(here, dict) else None
    if not isinstance(here, dict):
        return None
    here.update({key: tomllib.loads(f"v = {value}")["v"] for key, value in settings.items()})
    return made
