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
    from tonnage.diagnose.messages import LONGEST_TEXT, match_lines, matches_in
    from tonnage.diagnose.pasted.refusals import refusal_json, refusals_in
    from tonnage.diagnose.pasted.scheduling import scheduling_texts
    from tonnage.diagnose.pasted.text import refusal_lines, scheduling_lines

    if not words:
        raise click.UsageError("the message is missing: give its text, or - to read a log from stdin")
    text = _end_of_stdin(LONGEST_TEXT) if words == ("-",) else " ".join(words)
    scheduling, refusals, matched = scheduling_texts(text), refusals_in(text), matches_in(text)
    if output != "text":
        messages: list[JsonValue] = [*map(refusal_json, refusals), *(entry.to_json() for entry in matched)]
        emit({"messages": messages, "scheduling": [message.to_json() for message in scheduling]}, output)
    else:
        blocks = [
            *map(scheduling_lines, scheduling),
            *map(refusal_lines, refusals),
            *map(match_lines, matched),
        ]
        rows = [row for block in blocks for row in (*block, "")]
        say(lines(rows[:-1] or ["Tonnage does not know any part of this message"]))
    return 1 if scheduling or refusals or matched else 0


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
