"""`tonnage runtime`: what the container runtime of this node needs for CDI, doing it, and taking it back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

import click

from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.runtime.report import RESTART, nri_json, plan_json, tell, tell_nri
from tonnage.cli.terminal.output import emit
from tonnage.model.errors import ConfigError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from tonnage.adapters.runtime_files import RuntimeConfigFiles
    from tonnage.model.node.facts import RuntimeFacts
    from tonnage.model.node.runtime_change import RuntimePlan, RuntimeSeen


_DETECTED: Final = "found"


class RuntimeOptions(TypedDict, total=False):
    """Which machine, what is known of its runtime, and what is wanted: a handler, else CDI."""

    root: Path
    config: str | None
    runtime: str | None
    nvidia_runtime: str | None


@click.group(help="Show, apply and undo the container runtime's configuration for CDI.")
def command() -> None:
    pass


def _node_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options by which all of its commands find the runtime."""
    root = click.option(
        "--root",
        type=click.Path(path_type=Path),
        default=Path("/"),
        show_default=True,
        help="Folder where the node's root file system is mounted.",
    )
    config = click.option(
        "--config", metavar="FILE", help="The runtime's main configuration file [default: its usual path]."
    )
    runtime = click.option(
        "--runtime",
        metavar="NAME://VERSION",
        help="Name and version of the runtime, as in its Node [default: ask the runtime, else its package].",
    )
    return root(config(runtime(function)))


_HANDLER: Final = click.option(
    "--nvidia-runtime",
    is_flag=False,
    flag_value=_DETECTED,
    metavar="[FILE]",
    help="Add a handler nvidia with this program instead of CDI [default: find it].",
)
_RESTART: Final = click.option(
    "--restart", is_flag=True, help=f"Restart the runtime after a change: {RESTART}."
)
_DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Show the change without writing it.")


@command.command(
    "plan",
    help="Show what must change for CDI or for NVIDIA's runtime, and why, without changing it.\n\n"
    "Exit status 1 if something must change or cannot be changed.",
    epilog=examples(
        "tonnage runtime plan                      # on the node, as root",
        "tonnage runtime plan --root /host         # in a pod with the host's / mounted there",
        "tonnage runtime plan --root ./copy --runtime containerd://1.7.24",
        "tonnage runtime plan --nvidia-runtime     # a handler for pods without CDI",
    ),
)
@_node_options
@_HANDLER
@common_options(output=("text", "json", "yaml"))
def plan(common: Common, **arguments: Unpack[RuntimeOptions]) -> int:
    _, state, planned = _planned(arguments)
    return _show(common, state, planned)


@command.command(
    "apply",
    help="Configure the runtime for CDI: write a drop-in if that is enough, else one marked block.\n\n"
    "The runtime restarts only with --restart. Exit status 1 if the change fails.",
    epilog=examples(
        "tonnage runtime apply --dry-run           # what plan shows",
        "tonnage runtime apply",
        "tonnage runtime apply --restart           # and restart the runtime",
    ),
)
@_node_options
@_HANDLER
@_DRY_RUN
@_RESTART
@common_options(output=("text", "json", "yaml"))
def apply(common: Common, *, dry_run: bool, restart: bool, **arguments: Unpack[RuntimeOptions]) -> int:
    _check_restart(arguments["root"], restart=restart)
    files, state, planned = _planned(arguments)
    return _show(common, state, planned) if dry_run else _done(common, files, state, planned, restart=restart)


@command.command(
    "undo",
    help="Undo what apply changed, and leave later edits alone.\n\n"
    "The runtime restarts only with --restart. Exit status 1 if the change fails.",
    epilog=examples("tonnage runtime undo --dry-run", "tonnage runtime undo --restart"),
)
@_node_options
@_DRY_RUN
@_RESTART
@common_options(output=("text", "json", "yaml"))
def undo(common: Common, *, dry_run: bool, restart: bool, **arguments: Unpack[RuntimeOptions]) -> int:
    from tonnage.decide.node.runtime.change import undo_plan

    _check_restart(arguments["root"], restart=restart)
    files, state, _ = _runtime_state(arguments)
    planned = undo_plan(state)
    return _show(common, state, planned) if dry_run else _done(common, files, state, planned, restart=restart)


@command.command(
    "nri",
    help="Check whether NVIDIA's NRI plugin works with this node's runtime, and what enables it.\n\n"
    "Tonnage does not need it. Exit status 1 if it does not work here.",
    epilog=examples("tonnage runtime nri", "tonnage runtime nri --runtime cri-o://1.31.5"),
)
@_node_options
@common_options(output=("text", "json", "yaml"))
def nri(common: Common, **arguments: Unpack[RuntimeOptions]) -> int:
    from tonnage.decide.node.runtime.nri import nri_answer

    _, state, facts = _runtime_state(arguments)
    answer = nri_answer(state, facts.nri_plugins)
    if common.output != "text":
        emit(nri_json(state, answer), common.output)
    else:
        tell_nri(state, answer)
    return 1 if answer.refusals else 0


def _check_restart(root: Path, *, restart: bool) -> None:
    """Raises ConfigError: the runtime of another root is out of reach."""
    if restart and root != Path("/"):
        why = f"systemd of the machine below {root} is not reached from here"
        raise ConfigError(
            Problem("--restart is for --root /", "--restart", why, "restart the runtime on that machine")
        )


def _done(
    common: Common, files: RuntimeConfigFiles, state: RuntimeSeen, plan: RuntimePlan, *, restart: bool
) -> int:
    """Carry the plan out and show it. Raises HardwareError."""
    from tonnage.adapters.systemd_units import restart_unit
    from tonnage.model.node.runtime_change import ChangeState

    changes = plan.standing is ChangeState.CHANGE
    if changes:
        files.apply(plan.edits)
    if changes and restart:
        restart_unit(state.unit)
    _show(common, state, plan, written=changes, restarted=changes and restart)
    return 1 if plan.standing is ChangeState.REFUSED else 0


def _planned(arguments: RuntimeOptions) -> tuple[RuntimeConfigFiles, RuntimeSeen, RuntimePlan]:
    """Raises ConfigError."""
    from tonnage.decide.node.runtime.change import cdi_plan
    from tonnage.decide.node.runtime.handler import HostProgram, handler_plan, nvidia_program

    files, state, facts = _runtime_state(arguments)
    runtime = arguments["nvidia_runtime"]
    if runtime is None:
        return files, state, cdi_plan(state)
    program = nvidia_program(facts.programs, "" if runtime == _DETECTED else runtime, files.there)
    if not isinstance(program, HostProgram):
        raise ConfigError(program.problem)
    return files, state, handler_plan(state, program.path, facts.programs)


def _runtime_state(arguments: RuntimeOptions) -> tuple[RuntimeConfigFiles, RuntimeSeen, RuntimeFacts]:
    """Raises ConfigError."""
    from dataclasses import replace

    from tonnage.adapters.runtime_files import RuntimeConfigFiles
    from tonnage.decide.node.runtime.containerd_files import templates_of
    from tonnage.decide.node.runtime.detection import runtime_seen
    from tonnage.model.node.runtime_config import RuntimeKind

    root, config, runtime = arguments["root"], arguments["config"] or "", arguments["runtime"] or ""
    if not root.is_dir():
        raise ConfigError(Problem(f"folder not found: {root}", "--root", remedy="mount the host's / there"))
    if config and not config.startswith("/"):
        raise ConfigError(
            Problem(
                f"{config[:200]} is not an absolute path",
                "--config",
                remedy="write a path that begins with /",
            )
        )
    files = RuntimeConfigFiles(root)
    facts = asyncio.run(files.facts(ask=not runtime))
    state = runtime_seen(facts, files.units(), runtime=runtime, config=config)
    if state.files:
        imports = state.kind is RuntimeKind.CONTAINERD
        templates = files.read(templates_of(state.files[0].path), imports=False)
        there = tuple(file for file in templates if file.text is not None or file.trouble)
        read = files.read([file.path for file in state.files], imports=imports)
        state = replace(state, files=read, templates=there)
    return files, state, facts


def _show(
    common: Common, state: RuntimeSeen, plan: RuntimePlan, *, written: bool = False, restarted: bool = False
) -> int:
    """The plan, and the exit status that belongs to it while it is one."""
    from tonnage.model.node.runtime_change import ChangeState

    if common.output != "text":
        emit(plan_json(state, plan, restarted=restarted), common.output)
    else:
        tell(state, plan, written=written, restarted=restarted)
    return 0 if plan.standing is ChangeState.NOTHING else 1
