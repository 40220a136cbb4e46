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

from tonnage.twin.kubelet.containers.runtime_port import ContainerContext, Program
from tonnage.twin.kubelet.programs.basic import complain, read_all, say

_STDIN: Final = "-"
_NOWHERE: Final = "/dev/null"
_MISSING: Final = "No such file or directory"
_MOST_LINES: Final = 200_000
_LONGEST_PATTERN: Final = 256
_LONGEST_LINE: Final = 64 << 10
_PATTERN_BYTES: Final = 64 << 10
_LOOK_S: Final = 0.5
_BASIC: Final = re.compile(r"\\([(){}+?|])|([(){}+?|])")
"""What a basic expression writes with a backslash and an extended one without, and the other way round."""


class _UsageError(Exception):
    """Options that the twin does not know."""


def _options(words: Iterable[str], letters: str) -> tuple[dict[str, str], list[str]]:
    """Options with their values, and the other words."""
    try:
        options, others = gnu_getopt(list(words), letters)
    except GetoptError as error:
        raise _UsageError(str(error)) from None
    return {name[1:]: value for name, value in options}, others


async def _content(context: ContainerContext, name: str) -> bytes | None:
    """Raises _UsageError for many lines, which take far more memory than what they are made of."""
    if name == _STDIN:
        content: bytes | None = await read_all(context)
    else:
        content = b"" if name == _NOWHERE else await context.files.read(name)
    if content is not None and content.count(b"\n") > _MOST_LINES:
        raise _UsageError(f"{name}: the twin reads up to {_MOST_LINES:,} lines")
    return content


def _lines(content: bytes) -> list[str]:
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
    """Lines with the pattern, of one file or of standard input."""
    options, words = _options(context.argv[1:], "ivEFq")
    if not words or len(words) > 2:
        raise _UsageError("the twin takes a pattern and at most one file")
    has_pattern = _pattern(words[0], options)
    content = await _content(context, words[1] if len(words) > 1 else _STDIN)
    if content is None:
        return complain(context, f"{words[1]}: {_MISSING}") + 1
    code, read_bytes = 1, 0
    for line in _lines(content):
        read_bytes += len(line)
        if read_bytes > _LONGEST_LINE:
            read_bytes = 0
            await asyncio.sleep(0)
        if has_pattern(line) != ("v" in options):
            code = 0
            if "q" not in options:
                say(context, line)
    return code


def _pattern(text: str, options: Mapping[str, str]) -> Callable[[str], bool]:
    """Whether a line has the pattern. RE2 searches, which no pattern keeps for long."""
    if len(text) > _LONGEST_PATTERN:
        raise _UsageError(f"the twin takes patterns of up to {_LONGEST_PATTERN} letters")
    if "F" in options:
        text = re2.escape(text)
    elif "E" not in options:
        text = _BASIC.sub(lambda match: match[1] or f"\\{match[2]}", text)
    settings = re2.Options()
    settings.log_errors = False
    settings.max_mem = _PATTERN_BYTES
    settings.case_sensitive = "i" not in options
    try:
        compiled = re2.compile(text, settings)
    except re2.error:
        raise _UsageError("Invalid regular expression") from None
    return lambda line: compiled.search(line[:_LONGEST_LINE]) is not None


async def _head(context: ContainerContext) -> int:
    """The first so many lines."""
    return await _part(context, "n:", lambda lines, count: lines[:count])


async def _tail(context: ContainerContext) -> int:
    """The last so many lines; those of a file may be followed."""
    return await _part(context, "n:fF", lambda lines, count: lines[-count:] if count else [])


async def _part(
    context: ContainerContext, letters: str, chosen: Callable[[list[bytes], int], list[bytes]]
) -> int:
    words = list(context.argv[1:])
    words[:1] = [re.sub(r"^-(\d+)$", r"-n\1", word) for word in words[:1]]
    options, names = _options(words, letters)
    count = options.get("n", "10")
    if re.fullmatch(r"\d{1,9}", count) is None or len(names) > 1:
        raise _UsageError(f"the twin takes a number of lines (not ‘{count}’) and at most one file")
    name = names[0] if names else _STDIN
    content = await _content(context, name)
    if content is None:
        code = complain(context, f"cannot open '{name}' for reading: {_MISSING}")
        if "F" not in options:
            return code
        content = b""
    context.stdio.write(b"".join(chosen(BytesIO(content).readlines(), int(count))))
    if not {"f", "F"}.isdisjoint(options) and names:
        await _follow(context, name, len(content))
    return 0


async def _follow(context: ContainerContext, name: str, position: int) -> None:
    while True:
        await context.clock.sleep(_LOOK_S)
        content = await _content(context, name) or b""
        if len(content) > position:
            context.stdio.write(content[position:])
        elif len(content) < position:  # it begins anew
            context.stdio.write(content)
        position = len(content)


FILTERS: Final[Mapping[str, Program]] = MappingProxyType(
    {name: _filter(run) for name, run in {"grep": _grep, "head": _head, "tail": _tail}.items()}
)
