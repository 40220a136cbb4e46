"""`tonnage explain message`: what a text out of a log or a status means. Asks no cluster."""

from __future__ import annotations

import sys
from collections import deque

import click

from tonnage.cli.terminal.output import emit, lines, say
from tonnage.model.json import JsonValue

WORD = "message"
_CHUNK = 1 << 16


def explain_message(words: tuple[str, ...], output: str) -> int:
    """Exit status 1 when something known to be wrong is in the text, 0 when nothing is."""
    from tonnage.diagnose.messages import LONGEST_TEXT, heard_in, heard_lines

    if not words:
        raise click.UsageError("which message? Give its text, or - for a log on stdin")
    text = _end_of_stdin(LONGEST_TEXT) if words == ("-",) else " ".join(words)
    heard = heard_in(text)
    if output != "text":
        messages: list[JsonValue] = [entry.to_json() for entry in heard]
        emit({"messages": messages}, output)
    else:
        rows = [row for entry in heard for row in (*heard_lines(entry), "")]
        say(lines(rows[:-1] or ["nothing in it is known here"]))
    return 1 if heard else 0


def _end_of_stdin(most: int) -> str:
    """The last bytes of stdin, however much comes; what is no UTF-8 is replaced."""
    chunks: deque[bytes] = deque()
    size = 0
    while chunk := sys.stdin.buffer.read(_CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        while size - len(chunks[0]) >= most:
            size -= len(chunks.popleft())
    return b"".join(chunks)[-most:].decode("utf-8", "replace")
