"""Answers for scripts, and tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from tonnage.model.json import JsonValue


def emit(answer: JsonValue, output: str) -> None:
    """Print an answer as JSON or YAML."""
    if output == "yaml":
        import yaml

        click.echo(yaml.safe_dump(answer, sort_keys=False, allow_unicode=True), nl=False)
    else:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())


def printable(text: str) -> str:
    """The text without what steers a terminal: names out of a cluster or a file are not trusted.

    >>> printable("a\\x1b[2Jb\\n")
    'a\\\\x1b[2Jb\\n'
    """
    if text.isprintable():
        return text
    return "".join(c if c == "\n" or c.isprintable() else ascii(c)[1:-1] for c in text)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as kubectl prints them: three blanks between, nothing after the last.

    >>> print(table(["NODE", "GPUS"], [["a100-0", "4"]]))
    NODE     GPUS
    a100-0   4
    """
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
