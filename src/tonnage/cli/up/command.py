"""`tonnage up`: the embedded cluster, in the foreground until Ctrl-C or in the background."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack

import click

from tonnage.cli.locations.folders import state_folder
from tonnage.cli.locations.labs_and_scenarios import DEFAULT_SCENARIO, load_lab, load_scenario
from tonnage.cli.locations.state import EngineName, Running, StateFolder
from tonnage.cli.options import Common, common_options, complete_lab, complete_scenario, examples
from tonnage.cli.terminal.output import line, progress, say, shell_word
from tonnage.cli.up.options import UpOptions
from tonnage.cli.up.readiness import Readiness
from tonnage.documents.scenario import Scenario
from tonnage.model.errors import ConfigError, Problem

_WATCH_S: Final = 0.5
_COLLECT_AFTER: Final = (10_000, 10, 50)
"""Of new objects, young ones are looked at after so many; all of them after the product."""


class UpFlags(TypedDict):
    """The options of the command line, as click hands them over."""

    scenario: str | None
    nodes: int | None
    light_nodes: int | None
    port: int | None
    state: Path | None
    engine: EngineName
    audit_log: Path | None
    lab: str | None


@click.command(
    help="Start the embedded cluster with a GPU fleet.",
    epilog=examples(
        "tonnage up                                # until Ctrl-C",
        'eval "$(tonnage up --detach)"             # in the background, KUBECONFIG set',
        "tonnage up --scenario my-fleet.yaml --nodes 100",
        "tonnage up --light-nodes 2000             # and nodes that are only objects",
        "tonnage up --state ~/my-cluster           # saved for the next start",
        "tonnage up --lab time-slicing             # run a lab on it",
        "tonnage up --engine kubernetes            # with a real control plane",
    ),
)
@click.option(
    "--scenario",
    shell_complete=complete_scenario,
    metavar="NAME|FILE",
    help=f"Scenario of the fleet [default: {DEFAULT_SCENARIO}, or the lab's].",
)
@click.option("--nodes", type=int, metavar="N", help="Scale the fleet to N nodes.")
@click.option(
    "--light-nodes",
    type=int,
    metavar="N",
    help="Add N nodes without kubelets, where pods only appear to run.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Port of the API server; 0: any free port [default: the saved cluster's port, else any].",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Save the cluster in this folder, or resume the one saved there [default: save nothing].",
)
@click.option(
    "--engine",
    type=click.Choice(["twin", "kubernetes"]),
    default="twin",
    help="Control plane: twin simulates it, kubernetes runs the real programs [default: twin].",
)
@click.option(
    "--audit-log",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write an audit log of the API server (audit.k8s.io events) to this file [default: none].",
)
@click.option("--detach", is_flag=True, help="Run in the background; stop the cluster with tonnage down.")
@click.option(
    "--lab",
    shell_complete=complete_lab,
    metavar="NAME",
    help="Run this lab once the fleet is up; without a terminal, end after the lab.",
)
@common_options()
def command(common: Common, detach: bool, **arguments: Unpack[UpFlags]) -> int:
    """Foreground: until Ctrl-C or SIGTERM. `--detach`: the same in a process of its own."""
    lab = arguments["lab"]
    if detach and lab:
        raise ConfigError(
            Problem(
                "--detach and --lab cannot be combined",
                remedy="run tonnage up --detach, then tonnage lab run",
            )
        )
    state = (arguments["state"] or state_folder(os.environ)).expanduser().absolute()
    keeps = arguments["state"] is not None and arguments["engine"] == "twin"
    if arguments["state"] is not None and not keeps:
        say("note: --engine kubernetes saves nothing for the next start", err=True)
    stored = StateFolder(state).scenario
    resumes = keeps and arguments["nodes"] is arguments["light_nodes"] is None and stored.exists()
    last = str(stored) if resumes else DEFAULT_SCENARIO
    fleet = arguments["scenario"] or (load_lab(lab).lab.scenario if lab else last)
    audit_log = arguments["audit_log"] and arguments["audit_log"].expanduser().absolute()
    options = UpOptions(fleet, arguments["nodes"], arguments["port"], state, lab, arguments["engine"])
    options = replace(options, light_nodes=arguments["light_nodes"], keeps=keeps, audit_log=audit_log)
    scenario = load_scenario(options.scenario)
    scenario = scenario if options.nodes is None else scenario.scaled(options.nodes)
    scenario = scenario if options.light_nodes is None else scenario.with_light(options.light_nodes)
    if detach:
        from tonnage.cli.up.detach import start_detached

        running = start_detached(options, verbose=common.verbose)
        say_where(running)
        return 0
    with _few_collections():
        return asyncio.run(_run(options, scenario, common))


@contextmanager
def _few_collections() -> Iterator[None]:
    """Look for garbage in cycles seldom: a fleet's objects are in none, and a look at all is a pause."""
    before = gc.get_threshold()
    gc.set_threshold(*_COLLECT_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)


async def _run(options: UpOptions, scenario: Scenario, common: Common) -> int:
    from tonnage.cli.up.embedded import embedded_cluster, wait_until_ready

    ended = _end_on_signals()
    folder = StateFolder(options.state)
    async with embedded_cluster(scenario, folder, options.serving) as cluster:
        waiting = asyncio.create_task(wait_until_ready(cluster, scenario, Progress().tell))
        if not await _before(waiting, ended):
            return 0
        waiting.result()
        say_where(cluster.running)
        if options.lab is not None:
            from tonnage.cli.lab.command import run_on

            lab = asyncio.create_task(run_on(load_lab(options.lab), cluster.kubeconfig, common, keep=False))
            if not await _before(lab, ended):
                return 1
            if not sys.stdin.isatty() or not sys.stdout.isatty():
                return lab.result()
            say()
            say("The cluster stays up. Ctrl-C ends it.")
        watching = asyncio.create_task(_until_broken(cluster.check))
        if await _before(watching, ended):
            watching.result()
        say("Stopping.", err=True)
    return 0


async def _until_broken(check: Callable[[], None]) -> None:
    """Look after the cluster's processes; raises what `check` raises."""
    while True:
        check()
        await asyncio.sleep(_WATCH_S)


async def _before(task: asyncio.Task[Any], ended: asyncio.Event) -> bool:
    """Wait for the task; False when the cluster is to end first, the task then cancelled and over."""
    end = asyncio.create_task(ended.wait())
    await asyncio.wait({task, end}, return_when=asyncio.FIRST_COMPLETED)
    end.cancel()
    if task.done():
        return True
    task.cancel()
    await asyncio.wait({task})
    return False


def _end_on_signals() -> asyncio.Event:
    """An event that Ctrl-C and SIGTERM set, so that the cluster ends in order; a second one is not caught."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def end() -> None:
        ended.set()
        for number in numbers:
            loop.remove_signal_handler(number)

    for number in numbers:
        loop.add_signal_handler(number, end)
    return ended


class Progress:
    """Nodes coming up: one line that changes on a terminal, nothing elsewhere until all are there."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()

    def tell(self, now: Readiness) -> None:
        """Show how far the fleet is."""
        if self._terminal:
            progress(str(now), end="\n" if now.complete else "")
        elif now.complete:
            say(str(now), err=True)


def say_where(running: Running) -> None:
    """What a person types next."""
    nodes = "1 node" if running.nodes == 1 else f"{running.nodes} nodes"
    say(f"Cluster of {nodes} (scenario {running.scenario}) at {running.server}", err=True)
    say(line("export KUBECONFIG=", shell_word(running.kubeconfig)))
