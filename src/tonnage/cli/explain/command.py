"""`tonnage explain`: why a pod is where it is, or what would become of a manifest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.access.unseen import lacks_objects, not_seen, say_unseen
from tonnage.cli.awaited import awaited
from tonnage.cli.cluster import connected, seen_of, snapshot_of, with_profiles
from tonnage.cli.explain.message import WORD, explain_message
from tonnage.cli.explain.targets import KINDS, explain_target, target_of
from tonnage.cli.options import Common, common_options, examples, profiles_option
from tonnage.cli.terminal.output import emit, line, lines, printable, say, styled
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.verdict import Explanation, Verdict
from tonnage.reading.custom_types import custom_type_of

if TYPE_CHECKING:
    from tonnage.cli.explain.file import ManifestFiles

_COLOURS = {
    Verdict.ENDED: "green",
    Verdict.RUNNING: "green",
    Verdict.FITS: "green",
    Verdict.NOT_NOW: "yellow",
    Verdict.NEVER: "red",
    Verdict.UNKNOWN: "magenta",
}


def _complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The kinds, for the shell."""
    words = ("pod", *KINDS, WORD)
    return [] if context.params.get("words") else [word for word in words if word.startswith(incomplete)]


@click.command(
    help="Explain why a pod is pending or where it would run, and what keeps pods off a node.",
    epilog=examples(
        "tonnage explain pod train -n ml",
        "tonnage explain deployment web -n ml      # or job, replicaset, statefulset, daemonset, cronjob",
        "tonnage explain jobset/llm -n ml          # or pytorchjob, rayjob, lws, vcjob and others",
        "tonnage explain node gpu-a                # what it runs, and which pods it rejects",
        "tonnage explain claim train-gpu-x7k2p     # the pod that uses it",
        "tonnage explain --all-pending             # all pending pods, grouped by cause",
        "tonnage explain -f job.yaml               # before you apply it",
        "tonnage explain -f deploy/ -f quota.yaml  # all of them together",
        "tonnage explain pod train -n ml --snapshot cluster.json -o json",
        "tonnage explain message '0/8 nodes are available: 8 Too many pods.'   # as kubectl printed it",
        "tonnage explain message 'CUDA error: out of memory'   # - for a log on stdin",
    ),
)
@click.argument("words", nargs=-1, metavar="[TYPE NAME]", shell_complete=_complete)
@click.option(
    "-f",
    "--filename",
    "filenames",
    type=click.Path(allow_dash=True),
    multiple=True,
    metavar="FILE",
    help="Explain manifests (YAML or JSON): a file, a folder, or - for stdin. Repeatable: all are created "
    "together.",
)
@click.option("-R", "--recursive", is_flag=True, help="Read the subfolders of folders given with -f, too.")
@click.option("--all-pending", is_flag=True, help="Explain all pending pods, grouped by cause.")
@profiles_option
@common_options(output=("text", "json", "yaml"), cluster=True, namespace=True, snapshot=True)
def command(
    common: Common,
    words: tuple[str, ...],
    filenames: tuple[str, ...],
    scheduler_config: Path | None,
    *,
    recursive: bool,
    all_pending: bool,
) -> int:
    """Exit status 1 when a verdict is anything but FITS, RUNNING or ENDED."""
    if words[:1] == (WORD,) and not filenames and not all_pending:
        return explain_message(words[1:], common.output)
    if [bool(words), bool(filenames), all_pending].count(True) != 1:
        raise click.UsageError("give exactly one of TYPE NAME, -f FILE and --all-pending")
    if "-" in filenames and str(common.snapshot) == "-":
        raise click.UsageError("stdin cannot be both -f and --snapshot")
    target = target_of(words) if words else None
    files = _read_together(filenames, recursive=recursive) if filenames else None
    from tonnage.adapters.snapshots.objects import collector_paused

    with collector_paused():  # nothing that is made goes in circles
        snapshot, namespace, objects = awaited(_ask(common, target, files))
        snapshot = with_profiles(snapshot, scheduler_config)
        version = common.server_version or ""
        if all_pending:
            return _all_pending(common, snapshot, version)
        explanations: tuple[Explanation, ...] = ()
        if target is not None:
            explanations = (explain_target(target, snapshot, namespace, version, objects),)
        elif files is not None:
            from tonnage.cli.explain.file import explain_files

            explanations = explain_files(files, snapshot, namespace, version)
    if any(lacks_objects(explanation) for explanation in explanations):
        say_unseen(snapshot, "explain")
    _show(explanations, common.output, whole=common.verbose)
    return 0 if all(explanation.verdict.good for explanation in explanations) else 1


def _read_together(names: tuple[str, ...], *, recursive: bool) -> ManifestFiles:
    try:
        from tonnage.cli.explain.file import read_together
    except ModuleNotFoundError as error:
        raise _left_out("explain -f", error) from None
    return read_together(names, recursive=recursive)


def _all_pending(common: Common, snapshot: Snapshot, version: str) -> int:
    try:
        from tonnage.diagnose.explain.pending import pending_lines, pending_pods
    except ModuleNotFoundError as error:
        raise _left_out("explain --all-pending", error) from None
    if "Pod" in snapshot.missing and "Pod" not in snapshot.scopes:
        raise not_seen("Pod", snapshot, "the list of pods", "explain")
    say_unseen(snapshot, "explain")
    pending = pending_pods(snapshot, namespace=common.namespace or "", version=version)
    if common.output != "text":
        emit(pending.to_json(), common.output)
    else:
        say(lines(pending_lines(pending, whole=common.verbose)))
    return 0 if pending.good else 1


def _left_out(command_name: str, error: ModuleNotFoundError) -> ConfigError:
    """The agent's image has nothing that thinks about a whole cluster."""
    why = f"{error.name} is not installed"
    return ConfigError(
        Problem(f"{command_name} cannot run here", "", why, "run it where Tonnage is installed completely")
    )


async def _ask(
    common: Common, target: tuple[str, str] | None, files: ManifestFiles | None
) -> tuple[Snapshot, str, tuple[JsonObject, ...]]:
    """(the snapshot, of a live cluster with Events about the target; the namespace that is meant; the target
    and what it takes its pods from, where its kind is a custom one).
    """
    if common.snapshot is not None:
        return await snapshot_of(common, "explain"), common.namespace or "default", ()
    async with connected(common) as api:
        namespace = common.namespace or api.namespace or "default"
        if target is None:
            namespaces = (namespace,) if files is None else files.namespaces(namespace)
            return await seen_of(api, "explain", namespaces), namespace, ()
        kind, name = target
        of_pod = f"involvedObject.kind=Pod,involvedObject.name={name}"
        by_kind = {"Pod": of_pod, "ResourceClaim": "reason=FailedPrepareDynamicResources"}
        selector = by_kind.get(kind, "reason=FailedCreate")
        custom = custom_type_of(kind)
        objects: tuple[JsonObject, ...] = ()
        if custom is not None:
            from tonnage.cli.explain.custom import read_custom

            objects = await read_custom(api, custom, name, namespace)
        return await seen_of(api, "explain", (namespace,), (namespace, selector)), namespace, objects


def _show(explanations: tuple[Explanation, ...], output: str, *, whole: bool) -> None:
    from tonnage.diagnose.explain.text import explanation_lines

    if output != "text":
        bodies = [explanation.to_json() for explanation in explanations]
        emit(bodies[0] if len(bodies) == 1 else {"items": [*bodies]}, output)
        return
    for number, explanation in enumerate(explanations):
        if number:
            say()
        text = lines(explanation_lines(explanation, whole=whole))
        before, word, after = text.partition(explanation.verdict.value)
        say(line(printable(before), styled(word, fg=_COLOURS[explanation.verdict]), printable(after)))
