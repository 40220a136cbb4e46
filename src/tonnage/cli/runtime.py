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
    from tonnage.model.node_facts import RuntimeFacts
    from tonnage.model.runtime_change import FileEdit, RuntimePlan, RuntimeSeen

RESTART: Final = (
    "containers go on running; for some seconds no pod starts or ends on the node, and it may be NotReady"
)


_FOUND: Final = "found"
_PROGRAM: Final = "nvidia-container-runtime"


class Asked(TypedDict, total=False):
    """Which machine, what is known of its runtime, and what is wanted: a handler, else CDI."""

    root: Path
    config: str | None
    runtime: str | None
    nvidia_runtime: str | None


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
    runtime = click.option(
        "--runtime",
        metavar="NAME://VERSION",
        help="The runtime, as its Node says it [default: it is asked, else its package].",
    )
    return root(config(runtime(function)))


_HANDLER: Final = click.option(
    "--nvidia-runtime",
    is_flag=False,
    flag_value=_FOUND,
    metavar="[FILE]",
    help="Instead of CDI: a handler nvidia that runs this program [default: the one that is found].",
)
_DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Show the change, and leave the files alone.")


@command.command(
    "plan",
    help="Show what has to change for CDI, or for NVIDIA's runtime, and why. Nothing is changed.\n\n"
    "Exit status 1 when something has to change, or it cannot be done.",
    epilog=examples(
        "tonnage runtime plan                      # on the node, as root",
        "tonnage runtime plan --root /host         # in a pod that has the host's / mounted there",
        "tonnage runtime plan --root ./copy --runtime containerd://1.7.24",
        "tonnage runtime plan --nvidia-runtime     # a handler for pods that do without CDI",
    ),
)
@_node_options
@_HANDLER
@common_options(output=("text", "json", "yaml"))
def plan(common: Common, **asked: Unpack[Asked]) -> int:
    _, seen, planned = _planned(asked)
    return _show(common, seen, planned)


@command.command(
    "apply",
    help="Change what has to change: a drop-in where that is enough, else one marked block.\n\n"
    "No runtime is restarted. Exit status 1 when it cannot be done.",
    epilog=examples(
        "tonnage runtime apply --dry-run           # what plan shows",
        "tonnage runtime apply",
    ),
)
@_node_options
@_HANDLER
@_DRY_RUN
@common_options(output=("text", "json", "yaml"))
def apply(common: Common, *, dry_run: bool, **asked: Unpack[Asked]) -> int:
    files, seen, planned = _planned(asked)
    return _done(common, files, seen, planned, dry_run=dry_run)


@command.command(
    "undo",
    help="Take back what apply put in, and nothing that somebody changed since.\n\n"
    "No runtime is restarted. Exit status 1 when it cannot be done.",
    epilog=examples("tonnage runtime undo --dry-run", "tonnage runtime undo"),
)
@_node_options
@_DRY_RUN
@common_options(output=("text", "json", "yaml"))
def undo(common: Common, *, dry_run: bool, **asked: Unpack[Asked]) -> int:
    from tonnage.decide.node.runtime_change import undo_plan

    files, seen, _ = _seen(asked)
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


def _planned(asked: Asked) -> tuple[RuntimeConfigFiles, RuntimeSeen, RuntimePlan]:
    """Raises ConfigError."""
    from tonnage.decide.node.runtime_change import cdi_plan
    from tonnage.decide.node.runtime_handler import handler_plan

    files, seen, facts = _seen(asked)
    wanted = asked["nvidia_runtime"]
    if wanted is None:
        return files, seen, cdi_plan(seen)
    return files, seen, handler_plan(seen, _program(files, facts, wanted))


def _program(files: RuntimeConfigFiles, facts: RuntimeFacts, wanted: str) -> str:
    """NVIDIA's runtime on the node. Raises ConfigError: it is not there."""
    found = [path for path in facts.programs if path.endswith(f"/{_PROGRAM}")]
    if wanted == _FOUND and found:
        return found[0]
    if wanted == _FOUND or (wanted.startswith("/") and not files.there(wanted)):
        what = f"no {_PROGRAM} is found" if wanted == _FOUND else f"no such program: {wanted[:200]}"
        why = "every container with that handler would stay in ContainerCreating"
        remedy = "install nvidia-container-toolkit, or do without it: deviceListStrategy cdi-cri"
        raise ConfigError(Problem(what, "--nvidia-runtime", why, remedy))
    return wanted


def _seen(asked: Asked) -> tuple[RuntimeConfigFiles, RuntimeSeen, RuntimeFacts]:
    """Raises ConfigError."""
    from dataclasses import replace

    from tonnage.adapters.runtime_files import RuntimeConfigFiles
    from tonnage.decide.node.runtime_seen import runtime_seen
    from tonnage.model.runtime_config import RuntimeKind

    root, config, runtime = asked["root"], asked["config"] or "", asked["runtime"] or ""
    if not root.is_dir():
        raise ConfigError(Problem(f"no such folder: {root}", "--root", remedy="mount the host's / there"))
    if config and not config.startswith("/"):
        raise ConfigError(Problem(f"{config[:200]} is no path from /", "--config", remedy="write it from /"))
    files = RuntimeConfigFiles(root)
    facts = asyncio.run(files.facts(ask=not runtime))
    seen = runtime_seen(facts, files.units(), runtime=runtime, config=config)
    if seen.files:
        imports = seen.kind is RuntimeKind.CONTAINERD
        seen = replace(seen, files=files.read([file.path for file in seen.files], imports=imports))
    return files, seen, facts


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
