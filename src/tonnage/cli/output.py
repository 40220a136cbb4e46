"""Answers for scripts, and tables for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import click

from tonnage.model.json import JsonValue


def emit(answer: JsonValue, output: str) -> None:
    """Print an answer as JSON or YAML."""
    if output == "yaml":
        import yaml

        click.echo(yaml.safe_dump(answer, sort_keys=False, allow_unicode=True), nl=False)
    else:
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))


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
