"""`tonnage simulate`: what would be with other nodes or workloads; traces are in `cli.simulate.trace`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tonnage.cli.awaited import awaited
from tonnage.cli.options import Common, common_options, examples, profiles_option
from tonnage.cli.simulate.changes import ChangeFlags, alternatives_of, with_manifests
from tonnage.cli.simulate.trace import command as trace
from tonnage.cli.terminal.output import emit, progress, say
from tonnage.cli.terminal.tables import table
from tonnage.model.errors import ConfigError, Problem

if TYPE_CHECKING:
    from tonnage.diagnose.simulate.outcomes import WhatIf

_FILE: Final = click.Path(dir_okay=False, path_type=Path)
_FLAGS: Final = (
    ("--add-nodes", "N=LIKE", "Add N nodes like an existing one, or PRODUCTxGPUS,cpu=N,memory=N."),
    (
        "--set-mig",
        "NODES=LAYOUT",
        "Set the MIG layout of nodes: all-1g.10gb, all-balanced, 3g.40gb:1,1g.10gb:3 …",
    ),
    ("--set-sharing", "NODES=N[,rename]", "Offer each GPU of nodes N times; 1 is exclusive."),
    ("--uncordon", "NODES", "Make nodes schedulable again."),
    ("--cordon", "NODES", "Make nodes unschedulable."),
    ("--drain", "NODES", "Cordon nodes and evict their pods."),
    ("--remove-nodes", "NODES", "Remove nodes."),
    ("--add-workload", "FILE[=N]", "Add the pods of a manifest, N times or as often as it says."),
    ("--scale", "[[NS/]KIND/]NAME=N", "Scale a workload to N pods; 0 removes it."),
)


def _what_if_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for flag, form, help_text in reversed(_FLAGS):
        function = click.option(flag, multiple=True, metavar=form, help=f"{help_text} Repeatable.")(function)
    return function


@click.group(
    invoke_without_command=True,
    help="Predict how other nodes, layouts or workloads would change the cluster, or replay a trace.\n\n"
    "The output compares the changed cluster with the present one; nothing is changed. NODES is a pattern "
    "of names (a100-*) or labels (pool=a100). Changes are made in the order in which their flags stand; "
    "with -f they come before those of each alternative.",
    epilog=examples(
        "tonnage simulate --set-mig 'a100-*=all-1g.10gb'",
        "tonnage simulate --drain a100-3 --add-nodes 1=a100-0 --snapshot cluster.jsonl.gz",
        "tonnage simulate -f layouts.yaml -o json         # several alternatives side by side",
    ),
)
@click.option(
    "-f", "--filename", type=_FILE, metavar="FILE", help="Alternatives to compare (YAML, - for stdin)."
)
@_what_if_options
@profiles_option
@click.option("--replay", is_flag=True, help="Schedule every pod again, in order of creation.")
@common_options(output=("text", "json", "yaml"), cluster=True, namespace=True, snapshot=True)
@click.pass_context
def command(
    context: click.Context,
    /,
    common: Common,
    filename: Path | None,
    scheduler_config: Path | None,
    **flags: Any,
) -> int | None:
    """Exit status 1 when, in any alternative, a pod that ran or was added has no place, or may have none."""
    if context.invoked_subcommand is not None:
        if any(flags.values()) or filename is not None:
            raise click.UsageError(f"{context.invoked_subcommand} takes its options after its name")
        return None
    if filename is None and not any(flags.values()):
        raise click.UsageError("no change given: give one (--set-mig, --drain …) or -f FILE")
    answer = _answer(common, ChangeFlags(**flags), filename, scheduler_config)
    _show(answer, common)
    return 1 if answer.worse else 0


command.add_command(trace)


def _answer(common: Common, flags: ChangeFlags, filename: Path | None, profiles: Path | None) -> WhatIf:
    from tonnage.adapters.snapshots.objects import collector_paused
    from tonnage.cli.access.unseen import not_seen, say_unseen
    from tonnage.cli.cluster import snapshot_of, with_profiles

    try:
        from tonnage.diagnose.simulate.what_if import what_if
    except ModuleNotFoundError as error:  # the agent's image leaves it out
        why = f"{error.name} is not installed"
        raise ConfigError(
            Problem("simulate cannot run here", "", why, "run it where Tonnage is installed completely")
        ) from None
    namespace = common.namespace or "default"
    alternatives = alternatives_of(flags, filename, namespace)
    folder = filename.parent if filename is not None else Path()
    snapshot = with_profiles(awaited(snapshot_of(common, "simulate")), profiles)
    if "Node" in snapshot.missing:
        raise not_seen("Node", snapshot, "the fleet", "simulate")
    say_unseen(snapshot, "simulate")
    alternatives, snapshot = with_manifests(alternatives, snapshot, namespace, folder)
    try:
        with collector_paused():  # nothing that is made goes in circles
            return what_if(snapshot, alternatives, version=common.server_version or "", tell=_tell)
    finally:
        progress("")


def _tell(alternative: str, done: int, of: int) -> None:
    progress(f"{alternative}: {done} of {of} pods tried")


def _show(answer: WhatIf, common: Common) -> None:
    from tonnage.diagnose.simulate.text import paragraphs_of, rows_of

    if common.output != "text":
        emit(answer.to_json(), common.output)
        return
    head, *rows = rows_of(answer)
    say(table(head, rows))
    for line in paragraphs_of(answer, whole=common.verbose):
        say(line)
