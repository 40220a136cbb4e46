"""`tonnage runtime`: what the container runtime of this node needs for CDI, doing it, and taking it back."""

from __future__ import annotations

import asyncio
import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

import click

from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.output import emit, printable
from tonnage.model.errors import ConfigError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from tonnage.adapters.runtime_files import RuntimeConfigFiles
    from tonnage.model.json import JsonObject, JsonValue
    from tonnage.model.runtime_change import FileEdit, RuntimePlan, RuntimeSeen

RESTART: Final = (
    "containers go on running; for some seconds no pod starts or ends on the node, and it may be NotReady"
)


class Asked(TypedDict):
    """Which machine, and what is known of its runtime."""

    root: Path
    config: str | None


@click.group(help="See, switch on and take back what the container runtime needs for CDI.")
def command() -> None:
    pass


def _node_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options by which all of its commands find the runtime."""
    root = click.option(
        "--root",
        type=click.Path(path_type=Path),
        default=Path("/"),
        show_default=True,
        help="Stands before every path of the node.",
    )
    config = click.option(
        "--config", metavar="FILE", help="The runtime's main file [default: where it usually is]."
    )
    return root(config(function))


_RUNTIME: Final = click.option(
    "--runtime",
    metavar="NAME://VERSION",
    help="The runtime, as its Node says it [default: it is asked, else its package].",
)
_DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Show the change, and leave the files alone.")


@command.command(
    "plan",
    help="Show what has to change for CDI, and why. Nothing is changed.\n\n"
    "Exit status 1 when something has to change, or it cannot be done.",
    epilog=examples(
        "tonnage runtime plan                      # on the node, as root",
        "tonnage runtime plan --root /host         # in a pod that has the host's / mounted there",
        "tonnage runtime plan --root ./copy --runtime containerd://1.7.24",
    ),
)
@_node_options
@_RUNTIME
@common_options(output=("text", "json", "yaml"))
def plan(common: Common, runtime: str | None, **asked: Unpack[Asked]) -> int:
    _, seen, planned = _planned(asked, runtime or "")
    return _show(common, seen, planned)


@command.command(
    "apply",
    help="Change what has to change for CDI: a drop-in where that is enough, else one marked block.\n\n"
    "No runtime is restarted. Exit status 1 when it cannot be done.",
    epilog=examples(
        "tonnage runtime apply --dry-run           # what plan shows",
        "tonnage runtime apply",
    ),
)
@_node_options
@_RUNTIME
@_DRY_RUN
@common_options(output=("text", "json", "yaml"))
def apply(common: Common, runtime: str | None, *, dry_run: bool, **asked: Unpack[Asked]) -> int:
    files, seen, planned = _planned(asked, runtime or "")
    return _done(common, files, seen, planned, dry_run=dry_run)


@command.command(
    "undo",
    help="Take back what apply put in, and nothing that somebody changed since.\n\n"
    "No runtime is restarted. Exit status 1 when it cannot be done.",
    epilog=examples("tonnage runtime undo --dry-run", "tonnage runtime undo"),
)
@_node_options
@_RUNTIME
@_DRY_RUN
@common_options(output=("text", "json", "yaml"))
def undo(common: Common, runtime: str | None, *, dry_run: bool, **asked: Unpack[Asked]) -> int:
    from tonnage.decide.node.runtime_change import undo_plan

    files, seen = _seen(asked, runtime or "")
    return _done(common, files, seen, undo_plan(seen), dry_run=dry_run)


def _done(
    common: Common, files: RuntimeConfigFiles, seen: RuntimeSeen, plan: RuntimePlan, *, dry_run: bool
) -> int:
    """Carry the plan out and show it. Raises HardwareError."""
    from tonnage.model.runtime_change import Standing

    if dry_run:
        return _show(common, seen, plan)
    if plan.standing is Standing.CHANGE:
        files.apply(plan.edits)
    _show(common, seen, plan)
    return 1 if plan.standing is Standing.REFUSED else 0


def _planned(asked: Asked, runtime: str) -> tuple[RuntimeConfigFiles, RuntimeSeen, RuntimePlan]:
    from tonnage.decide.node.runtime_change import cdi_plan

    files, seen = _seen(asked, runtime)
    return files, seen, cdi_plan(seen)


def _seen(asked: Asked, runtime: str) -> tuple[RuntimeConfigFiles, RuntimeSeen]:
    """Raises ConfigError."""
    from dataclasses import replace

    from tonnage.adapters.runtime_files import RuntimeConfigFiles
    from tonnage.decide.node.runtime_seen import runtime_seen
    from tonnage.model.runtime_config import RuntimeKind

    root, config = asked["root"], asked["config"] or ""
    if not root.is_dir():
        raise ConfigError(Problem(f"no such folder: {root}", "--root", remedy="mount the host's / there"))
    if config and not config.startswith("/"):
        raise ConfigError(Problem(f"{config[:200]} is no path from /", "--config", remedy="write it from /"))
    files = RuntimeConfigFiles(root)
    facts = asyncio.run(files.facts(ask=not runtime))
    seen = runtime_seen(facts, files.units(), runtime=runtime, config=config)
    if not seen.files:
        return files, seen
    imports = seen.kind is RuntimeKind.CONTAINERD
    return files, replace(seen, files=files.read([file.path for file in seen.files], imports=imports))


def _show(common: Common, seen: RuntimeSeen, plan: RuntimePlan) -> int:
    """The plan, and the exit status that belongs to it."""
    from tonnage.model.runtime_change import Standing

    if common.output != "text":
        emit(_json(seen, plan), common.output)
    else:
        _tell(seen, plan)
    return 0 if plan.standing is Standing.NOTHING else 1


def _tell(seen: RuntimeSeen, plan: RuntimePlan) -> None:
    from tonnage.cli.failure import render_problem

    for problem in plan.problems:
        click.echo(render_problem(problem), err=True)
    if not plan.problems:
        click.echo(printable(plan.why))
    for edit in plan.edits:
        click.echo(printable(_diff(edit)), nl=False)
    if plan.edits and seen.unit:
        click.echo(f"It counts after: systemctl restart {seen.unit}  ({RESTART})")


def _json(seen: RuntimeSeen, plan: RuntimePlan) -> JsonObject:
    edits: list[JsonValue] = [
        {"path": edit.path, "action": _action(edit), "diff": _diff(edit)} for edit in plan.edits
    ]
    problems: list[JsonValue] = [
        {"what": each.what, "where": each.where, "why": each.why, "remedy": each.remedy}
        for each in plan.problems
    ]
    answer: JsonObject = {
        "runtime": {
            "name": seen.kind.value if seen.kind is not None else "",
            "version": seen.version,
            "toldBy": seen.told_by,
            "files": [file.path for file in seen.files if file.text is not None],
        },
        "standing": plan.standing.value,
        "message": plan.why,
        "edits": edits,
        "restart": f"systemctl restart {seen.unit}" if edits and seen.unit else "",
        "problems": problems,
    }
    if plan.inventory is not None:
        found = plan.inventory
        answer["cdi"] = {"state": found.cdi.value, "reason": found.cdi_reason}
        answer["nri"] = {"state": found.nri.value, "reason": found.nri_reason}
    return answer


def _action(edit: FileEdit) -> str:
    return "create" if edit.before is None else "delete" if edit.after is None else "edit"


def _diff(edit: FileEdit) -> str:
    """As `diff -u` writes it."""
    before, after = ((text or "").splitlines(keepends=True) for text in (edit.before, edit.after))
    old, new = (edit.path if text is not None else "/dev/null" for text in (edit.before, edit.after))
    cut = "\n\\ No newline at end of file\n"
    lines = difflib.unified_diff(before, after, old, new)
    return "".join(line if line.endswith("\n") else f"{line}{cut}" for line in lines)
