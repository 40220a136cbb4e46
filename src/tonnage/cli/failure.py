"""How an error reaches a person: one block on stderr (what, where, why, remedy), no traceback but with -v."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping
from typing import Final, TextIO

import click

from tonnage.cli.output import printable
from tonnage.model.errors import Problem, TonnageError

USAGE: Final = 2
INTERNAL: Final = 70
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141
"""What a shell reports for a program that its reader left (128 + SIGPIPE)."""


def colour_wanted(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether to colour `stream`: a terminal, and nobody said no (`NO_COLOR`, `TERM=dumb`)."""
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def render_problem(problem: Problem, *, colour: bool = False) -> str:
    """The block that a person reads.

    >>> print(render_problem(Problem("no such lab: infrence", remedy="did you mean inference?")))
    error: no such lab: infrence
      remedy: did you mean inference?
    """
    head = click.style("error:", fg="red", bold=True) if colour else "error:"
    lines = [f"{head} {printable(problem.what)}"]
    facts = (("where", problem.where), ("why", problem.why), ("remedy", problem.remedy))
    lines += [f"  {label}: {_indented(text)}" for label, text in facts if text]
    return "\n".join(lines)


def _indented(text: str) -> str:
    return printable(text).replace("\n", "\n    ")


def report(error: BaseException, *, verbose: bool, program: str) -> int:
    """Write the error to stderr and return the exit status that belongs to it."""
    colour = colour_wanted(sys.stderr, os.environ)
    if verbose and not isinstance(error, click.ClickException):
        traceback.print_exception(error)
    for problem in problems_of(error, program):
        click.echo(render_problem(problem, colour=colour), err=True, color=colour)
    if isinstance(error, TonnageError):
        return error.exit_status
    if isinstance(error, click.ClickException):
        return USAGE
    return 1 if isinstance(error, OSError) else INTERNAL


def problems_of(error: BaseException, program: str) -> tuple[Problem, ...]:
    """Any exception as problems."""
    if isinstance(error, TonnageError):
        return error.problems
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx else program
        return (Problem(error.format_message(), remedy=f"{path} --help"),)
    if isinstance(error, click.ClickException):
        return (Problem(error.format_message()),)
    if isinstance(error, OSError):
        return (Problem(error.strerror or str(error), where=str(error.filename or "")),)
    return (
        Problem(
            f"{type(error).__name__}: {error}",
            why="this is a defect of Tonnage, not of what you typed",
            remedy="run the command again with -v and report what it prints",
        ),
    )
