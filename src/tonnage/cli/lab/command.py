"""`tonnage lab`: list labs, run one."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path

import click

from tonnage.cli.lab.consent import agreed
from tonnage.cli.lab.environment import surroundings
from tonnage.cli.lab.pause import Pause, is_attended
from tonnage.cli.lab.report import (
    StepReport,
    render_command,
    render_head,
    render_outcome,
    render_summary,
)
from tonnage.cli.lab.runner import RunListener, run_lab
from tonnage.cli.lab.servers import lab_servers
from tonnage.cli.locations.folders import state_folder
from tonnage.cli.locations.labs_and_scenarios import LabFolder, lab_names, load_lab, load_scenario
from tonnage.cli.locations.state import StateFolder
from tonnage.cli.options import NO_PAUSE_HELP, Common, common_options, complete_lab, examples
from tonnage.cli.terminal.failure import INTERRUPTED
from tonnage.cli.terminal.output import emit, line, say, shell_word, terminal_width
from tonnage.cli.up.options import Serving
from tonnage.documents.lab.steps import LabStep
from tonnage.model.json import JsonValue


@click.group(help="List labs, or run one step by step.")
def command() -> None:
    """Labs show a case of the field as commands that a person could type."""


@command.command("list", help="List the labs that ship.", epilog=examples("tonnage lab list"))
@common_options(output=("text", "json", "yaml"))
def list_labs(common: Common) -> None:
    """Name, cases and title of each."""
    labs = [load_lab(name).lab for name in lab_names()]
    if common.output != "text":
        rows: list[JsonValue] = [
            {"name": lab.name, "title": lab.title, "scenario": lab.scenario, "covers": list(lab.covers)}
            for lab in labs
        ]
        emit({"items": rows}, common.output)
        return
    width = max((len(lab.name) for lab in labs), default=0)
    for lab in labs:
        say(f"{lab.name:{width}}  {lab.title}")
        say(f"{'':{width}}  covers {', '.join(lab.covers)}; scenario {lab.scenario}")


@command.command(
    "show",
    help="Show the steps of a lab without running them.",
    epilog=examples("tonnage lab show pending-pod", "tonnage lab show ./my-lab -o json"),
)
@click.argument("name", metavar="NAME", shell_complete=complete_lab)
@common_options(output=("text", "json", "yaml"))
def show(common: Common, name: str) -> None:
    """Each command with its reason, and the clean-up."""
    lab_folder = load_lab(name)
    lab = lab_folder.lab
    if common.output != "text":
        emit(lab.model_dump(mode="json", by_alias=True, exclude_defaults=True), common.output)
        return
    where = line("scenario ", lab.scenario)
    say(render_head(lab, shell_word(str(lab_folder.folder)), where, terminal_width()))
    for part in (lab.steps, lab.cleanup):
        for number, step in enumerate(part, start=1):
            say(render_command(step, number, len(part), terminal_width()))


@command.command(
    "run",
    help=(
        "Run a lab: NAME, or a folder or file of your own. Exit status 1 when a step fails.\n\n"
        "It runs on the cluster of --kubeconfig, which is never taken from KUBECONFIG: a lab changes things. "
        "Without that it runs on the embedded cluster that is up with the lab's scenario, or on one started "
        "for it alone.\n\n"
        "At worst, a lab from another author does with its cluster what the user of the kubeconfig may "
        "do: delete everything, run any image, read every Secret. It runs no program of this machine but "
        "kubectl, helm and tonnage, and of those only what the page on writing a lab lists; it reads no file "
        "outside its folder, writes none, and reaches no other cluster. So with --kubeconfig it first shows "
        "what it changes, and asks."
    ),
    epilog=examples(
        "tonnage lab run inference-sharing",
        "tonnage lab run inference-sharing --no-pause      # all steps at once",
        "tonnage lab run ./my-lab --keep           # your own folder; keep what it created",
        "tonnage lab run pending-pod --kubeconfig ~/.kube/test",
        "tonnage lab run pending-pod --kubeconfig ~/.kube/test --yes   # in a script",
    ),
)
@click.argument("name", metavar="NAME", shell_complete=complete_lab)
@click.option("--keep", is_flag=True, help="Keep what the lab created.")
@click.option("--no-pause", is_flag=True, help=NO_PAUSE_HELP)
@click.option("--yes", is_flag=True, help="Do not ask before changing the cluster of --kubeconfig.")
@click.option(
    "--state", type=click.Path(path_type=Path), metavar="DIR", help="State folder of the cluster to use."
)
@common_options(output=("text", "json", "yaml"), cluster=True)
def run(common: Common, name: str, keep: bool, no_pause: bool, yes: bool, state: Path | None) -> int:
    """On the cluster of --kubeconfig; else on the embedded one that runs; else on one started for it."""
    lab_folder = load_lab(name)
    running = StateFolder(state or state_folder(os.environ)).running()
    if common.kubeconfig:
        kubeconfig = common.kubeconfig.absolute()
        own = running is not None and Path(running.kubeconfig) == kubeconfig and not common.context
        if not own and not agreed(lab_folder, _cluster_name(kubeconfig, common.context), yes=yes):
            say("No step was run.", err=True)
            return 1
        return _until_signalled(
            run_on(lab_folder, kubeconfig, common, keep=keep, own=own, pauses=not no_pause)
        )
    if common.context:
        raise click.UsageError("--context needs --kubeconfig")
    if running and running.scenario == lab_folder.lab.scenario:
        return _until_signalled(
            run_on(lab_folder, Path(running.kubeconfig), common, keep=keep, pauses=not no_pause)
        )
    return _until_signalled(_on_its_own(lab_folder, common, keep=keep, pauses=not no_pause))


def _cluster_name(kubeconfig: Path, context: str | None) -> str:
    return f"{kubeconfig} (context {context})" if context else str(kubeconfig)


def _until_signalled(lab: Coroutine[None, None, int]) -> int:
    """Run the lab; Ctrl-C, SIGTERM and SIGHUP cut it off, and it cleans up; a second one is not caught."""
    received: list[signal.Signals] = []

    async def cancellable() -> int:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def end(number: signal.Signals) -> None:
            received.append(number)
            loop.remove_signal_handler(number)
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, end, number)
        return await lab

    try:
        return asyncio.run(cancellable())
    except asyncio.CancelledError:
        return 128 + received[0] if received else INTERRUPTED


async def _on_its_own(lab_folder: LabFolder, common: Common, *, keep: bool, pauses: bool) -> int:
    """Start a cluster for this lab alone, and end it afterwards."""
    import tempfile

    from tonnage.cli.up.embedded import embedded_cluster, wait_until_ready

    scenario = load_scenario(lab_folder.lab.scenario)
    say(f"Starting an embedded cluster for this lab: scenario {scenario.name}.", err=True)
    with tempfile.TemporaryDirectory(prefix="tonnage-lab-") as folder:
        async with embedded_cluster(
            scenario, StateFolder(Path(folder) / "state"), Serving(port=0)
        ) as cluster:
            await wait_until_ready(cluster, scenario, lambda _state: None)
            return await run_on(lab_folder, cluster.kubeconfig, common, keep=keep, pauses=pauses)


async def run_on(
    lab_folder: LabFolder,
    kubeconfig: Path,
    common: Common,
    *,
    keep: bool,
    own: bool = True,
    pauses: bool = False,
) -> int:
    """Run the lab against a cluster, telling how it goes; returns the exit status.

    `own`: the cluster is Tonnage's. `pauses`: wait for Enter before each step, if somebody can press it.
    """
    from tonnage.adapters.clock import SystemClock

    quiet = common.output != "text"
    inside = surroundings(
        lab_folder.lab,
        lab_folder.folder,
        kubeconfig,
        os.environ,
        context=common.context if not own else None,
        own=own,
    )
    with inside as programs:
        # What a server reads of a cluster are pages of Tonnage, and of an embedded one alone.
        async with lab_servers(lab_folder.lab.servers, os.environ, kubeconfig if own else None) as variables:
            place = replace(programs, environment={**programs.environment, **variables})
            if not quiet:
                where = line("export KUBECONFIG=", shell_word(str(kubeconfig)))
                say(render_head(lab_folder.lab, shell_word(str(lab_folder.folder)), where, terminal_width()))
            report = await run_lab(
                lab_folder.lab,
                place,
                SystemClock(),
                listener=RunListener() if quiet else _listener(pauses=pauses, whole=common.verbose),
                keep=keep,
                variables=variables,
            )
    if quiet:
        emit(report.as_json(), common.output)
    else:
        say(render_summary(report))
    return 0 if report.passed else 1


def _listener(*, pauses: bool, whole: bool) -> RunListener:
    def show_outcome(report: StepReport) -> None:
        say(render_outcome(report, whole=whole))

    if not pauses or not is_attended(os.environ):
        return RunListener(_show_command, show_outcome)
    return RunListener(_show_command, show_outcome, Pause(sys.stdin.fileno()))


def _show_command(step: LabStep, number: int, total: int) -> None:
    say(render_command(step, number, total, terminal_width()))
