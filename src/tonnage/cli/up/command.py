"""`tonnage up`: the embedded cluster, in the foreground until Ctrl-C or in the background."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TypedDict, Unpack

import click

from tonnage.cli.locations.folders import state_folder
from tonnage.cli.locations.labs_and_scenarios import DEFAULT_SCENARIO, load_lab
from tonnage.cli.locations.state import EngineName, StateFolder
from tonnage.cli.options import (
    NO_PAUSE_HELP,
    Common,
    common_options,
    complete_lab,
    complete_scenario,
    examples,
)
from tonnage.cli.terminal.output import say
from tonnage.cli.up.options import UpOptions, asked_scenario
from tonnage.cli.up.quick_dataclasses import shared_dataclass_methods
from tonnage.model.errors import ConfigError, Problem


class UpFlags(TypedDict):
    """The options of the command line, as click hands them over."""

    scenario: str | None
    nodes: int | None
    light_nodes: int | None
    port: int | None
    state: Path | None
    engine: EngineName
    audit_log: Path | None
    feature_gates: str
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
@click.option(
    "--feature-gates",
    default="",
    metavar="NAME=BOOL,...",
    help="Turn Kubernetes' feature gates on or off [default: those of its release].",
)
@click.option("--detach", is_flag=True, help="Run in the background; stop the cluster with tonnage down.")
@click.option(
    "--lab",
    shell_complete=complete_lab,
    metavar="NAME",
    help="Run this lab once the fleet is up; without a terminal, end after the lab.",
)
@click.option("--no-pause", is_flag=True, help=f"{NO_PAUSE_HELP} With --lab.")
@common_options()
def command(common: Common, detach: bool, no_pause: bool, **arguments: Unpack[UpFlags]) -> int:
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
    options = replace(options, pauses=not no_pause, feature_gates=arguments["feature_gates"])
    _ = options.serving  # a gate that cannot be chosen is said before anything is started
    if detach:
        from tonnage.cli.up.announcement import say_where
        from tonnage.cli.up.detach import start_detached

        say_where(start_detached(options, verbose=common.verbose))
        return 0
    with shared_dataclass_methods():
        scenario = asked_scenario(options)

        import asyncio

        from tonnage.cli.up.foreground import run_until_ended

        return asyncio.run(run_until_ended(options, scenario, common))
