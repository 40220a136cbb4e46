"""`tonnage` and `kubectl gpu`: the group of commands. A command's module is imported when it runs."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from difflib import get_close_matches
from pathlib import PurePath
from typing import Any, Final, NoReturn

import click
from click.shell_completion import CompletionItem

from tonnage import __version__ as version
from tonnage.cli.terminal.failure import INTERRUPTED, PIPE_CLOSED, USAGE, report
from tonnage.cli.terminal.output import printable, say

COMMANDS: Final = {
    "up": ("tonnage.cli.up.command", "Start the embedded cluster with a GPU fleet."),
    "down": ("tonnage.cli.up.down", "Stop the embedded cluster and remove what it left."),
    "lab": ("tonnage.cli.lab.command", "List labs, or run one step by step."),
    "status": (
        "tonnage.cli.status",
        "Show the fleet or some of its nodes: a row for each GPU resource of a node, and totals.",
    ),
    "top": ("tonnage.cli.top.command", "Watch what runs on the GPUs now, by node, device and pod."),
    "explain": (
        "tonnage.cli.explain.command",
        "Explain why a pod is pending or where it would run, and what keeps pods off a node.",
    ),
    "claims": (
        "tonnage.cli.claims",
        "Show which devices each ResourceClaim has, who uses it, and what those without wait for.",
    ),
    "lint": ("tonnage.cli.lint.command", "Check manifests and GPU configuration before they are applied."),
    "migrate": (
        "tonnage.cli.migrate.command",
        "Bring manifests to another form: GPU requests to claims.",
    ),
    "convert": (
        "tonnage.cli.convert",
        "Convert ResourceClaims, templates, DeviceClasses and ResourceSlices of v1beta1 and v1beta2 to v1.",
    ),
    "topo": (
        "tonnage.cli.topo",
        "Show how the GPUs of a node are linked, and how a set of GPUs compares with the best one.",
    ),
    "snapshot": (
        "tonnage.cli.snapshot",
        "Save the cluster's state to a file, redacted, for --snapshot and for bug reports.",
    ),
    "simulate": (
        "tonnage.cli.simulate.command",
        "Predict how other nodes, layouts or workloads would change the cluster, or replay a trace.",
    ),
    "doctor": (
        "tonnage.cli.doctor.command",
        "Find what is wrong with a node, beginning with the first layer that fails.",
    ),
    "access": (
        "tonnage.cli.access.command",
        "Print the ClusterRole that the commands need, or check your own rights.",
    ),
    "metrics": (
        "tonnage.cli.metrics.command",
        "Serve metrics of the cluster; print scrape settings, targets and alerts for Prometheus.",
    ),
    "mig": ("tonnage.cli.mig.command", "Plan MIG layouts and check mig-parted configurations."),
    "hardware": ("tonnage.cli.hardware", "Show, break, repair or partition GPUs of the embedded cluster."),
    "node": ("tonnage.cli.node.command", "Run the node agent, as the DaemonSet does."),
    "controller": (
        "tonnage.cli.controller",
        "Run the cluster controller, as its Deployment does: NVIDIA's ClusterPolicy for Tonnage's agents.",
    ),
    "operator": (
        "tonnage.cli.operator.command",
        "Show what a ClusterPolicy does on each node, or would do once it is applied.",
    ),
    "cdi": ("tonnage.cli.cdi.command", "Generate and check CDI specs for container runtimes."),
    "runtime": (
        "tonnage.cli.runtime.command",
        "Show, apply and undo the container runtime's configuration for CDI.",
    ),
    "version": ("tonnage.cli.version", "Print the versions of this program and of the cluster."),
    "completion": ("tonnage.cli.completion", "Print the completion script for a shell."),
}
"""Command -> (module that holds it as `command`, its line in the help)."""
_COLLECT_AFTER: Final = (10_000, 10, 50)
"""As in `gc.set_threshold`: what is loaded at start is no garbage, and looking for some takes time."""


class LazyGroup(click.Group):
    """Commands out of a table; `--help` and misspelt names import none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = COMMANDS[cmd_name][0]
        try:
            command = importlib.import_module(module).command
        except ModuleNotFoundError as error:
            if not f"{module}.".startswith(f"{error.name}."):
                raise
            # The agent's image has no twin, and nothing that needs arithmetic over a whole cluster.
            raise click.UsageError(
                f"{cmd_name} is not in this image: run it where Tonnage is installed completely", ctx
            ) from None
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            near = get_close_matches(name, COMMANDS, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"unknown command: {name}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [name for name in COMMANDS if name.startswith(incomplete)]
        items = [CompletionItem(name, help=COMMANDS[name][1]) for name in names]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        from tonnage.adapters.logging import make_last_resort_printable

        make_last_resort_printable()
        try:
            status = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _discard_output()
            return PIPE_CLOSED
        return status


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Put options after the command: tonnage explain --help lists them.",
)
@click.version_option(version, message="tonnage %(version)s")
def tonnage() -> None:
    """GPUs on Kubernetes: what is there, who holds it, and why a pod does not get it."""


def main() -> NoReturn:
    """Entry point of both programs."""
    gc.set_threshold(*_COLLECT_AFTER)
    sys.exit(run(sys.argv[1:], program_name(sys.argv[0])))


def run(arguments: list[str], program: str) -> int:
    """Run one command line; returns the exit status."""
    verbose = bool({"-v", "--verbose"} & set(arguments))
    try:
        status = tonnage.main(arguments, prog_name=program, standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        say(printable(error.format_message()), err=True)
        return USAGE
    except Exception as error:
        return report(error, verbose=verbose, program=program)
    return status if isinstance(status, int) else 0


def program_name(path: str) -> str:
    """What the person typed, as the help shows it.

    >>> program_name("/usr/bin/kubectl-gpu"), program_name("/src/tonnage/__main__.py")
    ('kubectl gpu', 'tonnage')
    """
    return "kubectl gpu" if PurePath(path).stem == "kubectl-gpu" else "tonnage"


def _discard_output() -> None:
    """The reader has left: keep the interpreter from complaining when it flushes at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
