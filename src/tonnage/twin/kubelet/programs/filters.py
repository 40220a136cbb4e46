"""Commands that read text, of standard input or of a pretended container's files, and write some of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from getopt import GetoptError, gnu_getopt
from io import BytesIO
from types import MappingProxyType
from typing import Final

import re2

from tonnage.twin.kubelet.containers.port import ContainerContext, Program
from tonnage.twin.kubelet.programs.basic import complain, read_all, say

_STDIN: Final = "-"
_NOWHERE: Final = "/dev/null"
_MISSING: Final = "No such file or directory"
_MOST_LINES: Final = 200_000
_LONGEST_PATTERN: Final = 256
_LONGEST_LINE: Final = 64 << 10
_PATTERN_BYTES: Final = 64 << 10
_LOOK_S: Final = 0.5
_WIDE: Final = 7
_WORD: Final = re.compile(rb"\S+")
_BASIC: Final = re.compile(r"\\([(){}+?|])|([(){}+?|])")
"""What a basic expression writes with a backslash and an extended one without, and the other way round."""


class _UsageError(Exception):
    """Options that the twin does not know."""


def _asked(words: Iterable[str], letters: str) -> tuple[dict[str, str], list[str]]:
    """Options with their values, and the other words."""
    try:
        options, others = gnu_getopt(list(words), letters)
    except GetoptError as error:
        raise _UsageError(str(error)) from None
    return {name[1:]: value for name, value in options}, others


async def _content(context: ContainerContext, name: str) -> bytes | None:
    if name == _STDIN:
        return await read_all(context)
    return b"" if name == _NOWHERE else await context.files.read(name)


async def _lined(context: ContainerContext, name: str) -> bytes | None:
    """The same, for who takes it apart: lines take far more memory than what they are made of."""
    content = await _content(context, name)
    if content is not None and content.count(b"\n") > _MOST_LINES:
        raise _UsageError(f"{name}: the twin reads up to {_MOST_LINES:,} lines")
    return content


def _texts(content: bytes) -> list[str]:
    """Lines without their ends."""
    lines = content.decode(errors="replace").split("\n")
    return lines[:-1] if not lines[-1] else lines


def _filter(run: Program) -> Program:
    """The command, which ends with 2 where it is used as the twin does not know it."""

    async def guarded(context: ContainerContext) -> int:
        try:
            return await run(context)
        except _UsageError as error:
            return complain(context, str(error)) + 1

    return guarded


async def _grep(context: ContainerContext) -> int:
    """Lines with the pattern."""
    options, words = _asked(context.argv[1:], "ivwxEFHhqcnolse:")
    if "e" not in options:
        if not words:
            raise _UsageError("a pattern is missing")
        options["e"] = words.pop(0)
    pattern = _pattern(options)
    code, named = 1, len(words) > 1 and "h" not in options
    for name in words or [_STDIN]:
        content = await _lined(context, name)
        if content is None:
            code = 2
            if "s" not in options:
                complain(context, f"{name}: {_MISSING}")
            continue
        found, seen = [], 0
        for at, line in enumerate(_texts(content), start=1):
            seen += len(line)
            if seen > _LONGEST_LINE:
                seen = 0
                await asyncio.sleep(0)
            if bool(pattern(line)) != ("v" in options):
                found.append((at, line))
        if found and code == 1:
            code = 0
        for line in _shown(found, options, pattern, name):
            say(context, f"{name}:{line}" if (named or "H" in options) and "l" not in options else line)
    return code


def _shown(
    found: list[tuple[int, str]], options: Mapping[str, str], pattern: Callable[[str], list[str]], name: str
) -> Iterable[str]:
    if "q" in options:
        return
    if "l" in options:
        yield from [name] if found else []
    elif "c" in options:
        yield str(len(found))
    else:
        for at, line in found:
            for piece in pattern(line) if "o" in options else [line]:
                yield f"{at}:{piece}" if "n" in options else piece


def _pattern(options: Mapping[str, str]) -> Callable[[str], list[str]]:
    """From a line to what in it has the pattern. RE2 searches, which no pattern keeps for long."""
    text = options["e"]
    if len(text) > _LONGEST_PATTERN:
        raise _UsageError(f"the twin takes patterns of up to {_LONGEST_PATTERN} letters")
    if "F" in options:
        text = re2.escape(text)
    elif "E" not in options:
        text = _BASIC.sub(lambda match: match[1] or f"\\{match[2]}", text)
    text = rf"\b(?:{text})\b" if "w" in options else rf"\A(?:{text})\z" if "x" in options else text
    settings = re2.Options()
    settings.log_errors = False
    settings.max_mem = _PATTERN_BYTES
    settings.case_sensitive = "i" not in options
    try:
        compiled = re2.compile(text, settings)
    except re2.error:
        raise _UsageError("Invalid regular expression") from None
    return lambda line: [match[0] for match in compiled.finditer(line[:_LONGEST_LINE])]


async def _head(context: ContainerContext) -> int:
    """The first so many lines or bytes, or with `-` all but the last."""
    return await _part(
        context, "n:c:q", lambda sign, count: slice(-count or None) if sign == "-" else slice(count)
    )


async def _tail(context: ContainerContext) -> int:
    """The last so many, or with `+` all from there on; those of one file may be followed."""
    return await _part(
        context,
        "n:c:qfF",
        lambda sign, count: (
            slice(max(0, count - 1), None) if sign == "+" else slice(-count, None if count else 0)
        ),
    )


async def _part(context: ContainerContext, letters: str, chosen: Callable[[str, int], slice]) -> int:
    words = list(context.argv[1:])
    words[:1] = [re.sub(r"^-(\d+)$", r"-n\1", word) for word in words[:1]]
    options, names = _asked(words, letters)
    asked = options.get("c") or options.get("n") or "10"
    count = re.fullmatch(r"([-+]?)(\d{1,9})", asked)
    if count is None:
        raise _UsageError(f"invalid number: ‘{asked}’")
    part = chosen(count[1], int(count[2]))
    code = 0
    for place, name in enumerate(names or [_STDIN]):
        content = await (_content if "c" in options else _lined)(context, name)
        if content is None:
            code = complain(context, f"cannot open '{name}' for reading: {_MISSING}")
            continue
        if len(names) > 1 and "q" not in options:
            say(context, f"{chr(10) if place else ''}==> {name} <==")
        shown = content[part] if "c" in options else b"".join(BytesIO(content).readlines()[part])
        context.stdio.write(shown)
    if names and code == 0 and {"f", "F"} & options.keys():
        await _follow(context, names[-1])
    return code


async def _follow(context: ContainerContext, name: str) -> None:
    seen = len(await _content(context, name) or b"")
    while True:
        await context.clock.sleep(_LOOK_S)
        content = await _content(context, name) or b""
        if len(content) > seen:
            context.stdio.write(content[seen:])
        seen = len(content)


async def _wc(context: ContainerContext) -> int:
    """Lines, words and bytes."""
    options, names = _asked(context.argv[1:], "lwc")
    code, rows = 0, []
    for name in names or [_STDIN]:
        content = await _content(context, name)
        if content is None:
            code = complain(context, f"{name}: {_MISSING}")
            continue
        words = sum(1 for _ in _WORD.finditer(content)) if "w" in options or not options else 0
        counts = {"l": content.count(b"\n"), "w": words, "c": len(content)}
        rows.append((name, counts))
    if len(rows) > 1:
        rows.append(("total", {key: sum(counts[key] for _, counts in rows) for key in "lwc"}))
    asked = [key for key in "lwc" if key in options or not options]
    width = _WIDE if not names else max((len(str(counts["c"])) for _, counts in rows), default=1)
    for name, counts in rows:
        shown = [str(counts[key]) for key in asked]
        if len(asked) > 1 or len(rows) > 1:
            shown = [one.rjust(width) for one in shown]
        say(context, " ".join([*shown, *([name] if names else [])]))
    return code


async def _sort(context: ContainerContext) -> int:
    """Lines in order."""
    options, names = _asked(context.argv[1:], "rnu")
    lines: list[str] = []
    for name in names or [_STDIN]:
        content = await _lined(context, name)
        if content is None:
            return complain(context, f"cannot read: {name}: {_MISSING}") + 1
        lines += _texts(content)
        if len(lines) > _MOST_LINES:
            raise _UsageError(f"the twin sorts up to {_MOST_LINES:,} lines")
    found = sorted(set(lines) if "u" in options else lines)
    if "n" in options:
        found.sort(key=_number)
    for line in reversed(found) if "r" in options else found:
        say(context, line)
    return 0


def _number(line: str) -> float:
    match = re.match(r"\s*(-?\d{1,300}(?:\.\d{1,300})?)", line)
    return float(match[1]) if match else 0.0


FILTERS: Final[Mapping[str, Program]] = MappingProxyType(
    {
        name: _filter(run)
        for name, run in {"grep": _grep, "head": _head, "tail": _tail, "wc": _wc, "sort": _sort}.items()
    }
)
