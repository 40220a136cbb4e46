"""What `tonnage cdi validate` says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tonnage.adapters.cdi.files import spec_files
from tonnage.cli.terminal.failure import render_problem
from tonnage.cli.terminal.output import say
from tonnage.decide.node.cdi.runtime_verdicts import spec_verdicts
from tonnage.model.devices.cdi import SpecVerdict
from tonnage.model.errors import Problem
from tonnage.model.json import JsonObject, JsonValue


def check_specs(paths: Sequence[Path]) -> tuple[SpecVerdict, ...]:
    """Every spec of the folders and files, or of runtimes' folders, each with all its problems."""
    return spec_verdicts(spec_files(paths))


def status(checked: Sequence[SpecVerdict]) -> int:
    """The exit status."""
    if any(verdict.unreadable for verdict in checked):
        return 2
    return 1 if any(verdict.problems for verdict in checked) else 0


def show_text(checked: Sequence[SpecVerdict]) -> None:
    """What is valid on stdout, what is not on stderr."""
    if not checked:
        say("No CDI spec was found.")
    for verdict in checked:
        if not verdict.problems:
            say(f"{verdict.path}: valid")
        for problem in verdict.problems:
            say(render_problem(problem), err=True)
        for remark in verdict.remarks:
            say(f"warning: {remark.where}: {remark.what}: {remark.why}", err=True)


def verdicts(checked: Sequence[SpecVerdict]) -> list[JsonValue]:
    """The same for programs."""
    return [
        {
            "file": verdict.path,
            "valid": not verdict.problems,
            "problems": [_shown(problem) for problem in verdict.problems],
            "warnings": [_shown(remark) for remark in verdict.remarks],
        }
        for verdict in checked
    ]


def _shown(problem: Problem) -> JsonObject:
    return {
        "what": problem.what,
        "where": problem.where,
        "why": problem.why,
        "remedy": problem.remedy,
    }
