"""`tonnage explain`: why a pod is where it is, or what would become of a manifest."""

from __future__ import annotations

import asyncio
from difflib import get_close_matches
from pathlib import Path

import click

from tonnage.cli.cluster import connected, snapshot_of, with_profiles
from tonnage.cli.explain.message import WORD, explain_message
from tonnage.cli.options import Common, common_options, examples, profiles_option
from tonnage.cli.terminal.output import emit, line, lines, printable, say, styled
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.verdict import Explanation, Verdict

_TYPES = {
    "Pod": ("pod", "pods", "po"),
    "Deployment": ("deployment", "deployments", "deploy", "deployment.apps", "deployments.apps"),
    "ReplicaSet": ("replicaset", "replicasets", "rs", "replicaset.apps", "replicasets.apps"),
    "StatefulSet": ("statefulset", "statefulsets", "sts", "statefulset.apps", "statefulsets.apps"),
    "DaemonSet": ("daemonset", "daemonsets", "ds", "daemonset.apps", "daemonsets.apps"),
    "Job": ("job", "jobs", "job.batch", "jobs.batch"),
    "CronJob": ("cronjob", "cronjobs", "cj", "cronjob.batch", "cronjobs.batch"),
}
"""What each kind may be called; the names are kubectl's."""
_KINDS = tuple(names[0] for kind, names in _TYPES.items() if kind != "Pod")
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
    words = ("pod", *_KINDS, WORD)
    return [] if context.params.get("words") else [word for word in words if word.startswith(incomplete)]


@click.command(
    help="Say why a pod is where it is, or would be, or why a workload has not the pods it should have.",
    epilog=examples(
        "tonnage explain pod train -n ml",
        "tonnage explain deployment web -n ml      # or job, replicaset, statefulset, daemonset, cronjob",
        "tonnage explain -f job.yaml               # before it is applied; any kind that makes pods",
        "tonnage explain pod train -n ml --snapshot cluster.json -o json",
        "tonnage explain message '0/8 nodes are available: 8 Too many pods.'   # what kubectl showed",
        "tonnage explain message 'CUDA error: out of memory'   # - for a log on stdin",
    ),
)
@click.argument("words", nargs=-1, metavar="[TYPE NAME]", shell_complete=_complete)
@click.option(
    "-f",
    "--filename",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Explain a manifest (YAML or JSON, - for stdin).",
)
@profiles_option
@common_options(output=("text", "json", "yaml"), cluster=True, namespace=True, snapshot=True)
def command(
    common: Common, words: tuple[str, ...], filename: Path | None, scheduler_config: Path | None
) -> int:
    """Exit status 1 when a verdict is anything but FITS, RUNNING or ENDED."""
    if words[:1] == (WORD,) and filename is None:
        return explain_message(words[1:], common.output)
    target = _target(words, filename)
    from tonnage.adapters.snapshots.objects import collector_paused

    with collector_paused():  # nothing that is made goes in circles
        explanations = _explanations(common, target, filename, scheduler_config)
    _show(explanations, common.output)
    return 0 if all(explanation.verdict.good for explanation in explanations) else 1


def _explanations(
    common: Common, target: tuple[str, str] | None, filename: Path | None, scheduler_config: Path | None
) -> tuple[Explanation, ...]:
    snapshot, namespace = asyncio.run(_ask(common, target))
    snapshot = with_profiles(snapshot, scheduler_config)
    version = common.server_version or ""
    if filename is not None:
        from tonnage.cli.explain.file import explain_file

        return explain_file(filename, snapshot, namespace, version)
    if target is not None and target[0] != "Pod":
        return (_workload(target, snapshot, namespace, version),)
    return (_pod(target[1] if target else "", snapshot, namespace, version),)


def _target(words: tuple[str, ...], filename: Path | None) -> tuple[str, str] | None:
    """Kind and name of what `TYPE NAME` or `TYPE/NAME` names, types as kubectl has them; None with a file."""
    if (filename is None) == (not words):
        raise click.UsageError("give either pod NAME or -f FILE, or the NAME of another TYPE")
    if not words:
        return None
    kind, _, name = words[0].partition("/")
    parts = [kind, *([name] if name else []), *words[1:]]
    canonical = next((k for k, names in _TYPES.items() if parts[0].lower() in names), None)
    if canonical is None:
        raise click.UsageError(
            f"pod NAME is expected, not {' '.join(words)[:100]}: name one of the pods (kubectl get pods), "
            f"another of {', '.join(_KINDS)}, or the manifest with -f FILE"
        )
    if len(parts) != 2:
        raise click.UsageError(f"which {canonical.lower()}? Give one name: {canonical.lower()} NAME")
    return canonical, parts[1]


async def _ask(common: Common, target: tuple[str, str] | None) -> tuple[Snapshot, str]:
    """(the snapshot, of a live cluster with Events about the target; the namespace that is meant)."""
    if common.snapshot is not None:
        return await snapshot_of(common), common.namespace or "default"
    from tonnage.adapters.snapshots.live import read_live

    async with connected(common) as api:
        namespace = common.namespace or api.namespace or "default"
        if target is None:
            return await read_live(api), namespace
        kind, name = target
        of_pod = f"involvedObject.kind=Pod,involvedObject.name={name}"
        selector = of_pod if kind == "Pod" else "reason=FailedCreate"
        return await read_live(api, (namespace, selector)), namespace


def _pod(name: str, snapshot: Snapshot, namespace: str, version: str) -> Explanation:
    from tonnage.diagnose.explain.explain import explain, find_pod

    pod = find_pod(snapshot, namespace, name)
    if pod is not None:
        return explain(pod, snapshot, version=version)
    names = [other.name for other in snapshot.pods if other.namespace == namespace]
    elsewhere = [other.namespace for other in snapshot.pods if other.name == name]
    near = get_close_matches(name, names, n=1)
    remedy = f"did you mean {near[0]}?" if near else "kubectl get pods -A"
    raise ConfigError(
        Problem(
            f'pod "{name}" not found',
            f"namespace {namespace}",
            remedy=f"it is in {elsewhere[0]}: -n {elsewhere[0]}" if elsewhere else remedy,
        )
    )


def _workload(target: tuple[str, str], snapshot: Snapshot, namespace: str, version: str) -> Explanation:
    from tonnage.diagnose.explain.workloads.missing_pods import explain_workload, find_workload
    from tonnage.model.kubernetes.workloads import WorkloadKey
    from tonnage.reading.documents import manifest_of

    kind, name = target
    key = WorkloadKey(kind, namespace, name)
    workload = find_workload(snapshot, key)
    if workload is not None:
        manifest = manifest_of(workload, snapshot.priority_classes)
        return explain_workload(workload, manifest, snapshot, version=version)
    keys = [other.key for other in snapshot.workloads if other.key.kind == kind]
    near = get_close_matches(name, [other.name for other in keys if other.namespace == namespace], n=1)
    elsewhere = [other.namespace for other in keys if other.name == name]
    remedy = f"did you mean {near[0]}?" if near else f"kubectl get {kind.lower()}s -A"
    if kind in snapshot.missing:
        remedy = f"{kind} objects may not be listed: ask with the right to do so"
    raise ConfigError(
        Problem(
            f'{kind.lower()} "{name}" not found',
            f"namespace {namespace}",
            remedy=f"it is in {elsewhere[0]}: -n {elsewhere[0]}" if elsewhere else remedy,
        )
    )


def _show(explanations: tuple[Explanation, ...], output: str) -> None:
    from tonnage.diagnose.explain.text import explanation_lines

    if output != "text":
        bodies = [explanation.to_json() for explanation in explanations]
        emit(bodies[0] if len(bodies) == 1 else {"items": [*bodies]}, output)
        return
    for number, explanation in enumerate(explanations):
        if number:
            say()
        before, word, after = lines(explanation_lines(explanation)).partition(explanation.verdict.value)
        say(line(printable(before), styled(word, fg=_COLOURS[explanation.verdict]), printable(after)))
