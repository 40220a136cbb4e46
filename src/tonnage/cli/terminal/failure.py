"""How an error reaches a person: one block on stderr (what, where, why, remedy), no traceback but with -v."""

from __future__ import annotations

import traceback
from typing import Final

import click

from tonnage.cli.terminal.output import SafeText, indented, line, lines, printable, say, styled
from tonnage.model.errors import Problem, TonnageError

USAGE: Final = 2
INTERNAL: Final = 70
INTERRUPTED: Final = 130
_MARGIN: Final = 4
PIPE_CLOSED: Final = 141
"""What a shell reports for a program that its reader left (128 + SIGPIPE)."""


def render_problem(problem: Problem, *, colour: bool = False) -> SafeText:
    """The block that a person reads.

    >>> print(render_problem(Problem("no such lab: infrence", remedy="use inference if you meant that")))
    error: no such lab: infrence
      remedy: use inference if you meant that
    """
    head = styled("error:", fg="red", bold=True) if colour else "error:"
    facts = (("where", problem.where), ("why", problem.why), ("remedy", problem.remedy))
    return lines(
        [
            line(head, " ", indented(problem.what, _MARGIN)),
            *(line(f"  {label}: ", indented(text, _MARGIN)) for label, text in facts if text),
        ]
    )


def report(error: BaseException, *, verbose: bool, program: str) -> int:
    """Write the error to stderr and return the exit status that belongs to it."""
    if verbose and not isinstance(error, click.ClickException):
        say(printable("".join(traceback.format_exception(error))), err=True, end="")
    for problem in problems_of(error, program):
        say(render_problem(problem, colour=True), err=True)
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
            why="this is a bug in Tonnage, not in your command",
            remedy="run the command again with -v and report what it prints",
        ),
    )
