"""Sessions about the command line itself: help of every command, and words that no command takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from golden.sessions import Command, Session
from tonnage.cli.main import COMMANDS, tonnage

_WRONG = (
    "nope",
    "statsu",
    "status --nope",
    "status extra",
    "status -o xml",
    "status --snapshot",
    "status --server-version 1.20",
    "status --server-version new",
    "status --kubeconfig absent",
    "explain",
    "explain pod",
    "explain nothing x",
    "explain pod x",
    "explain message",
    "explain -f absent.yaml",
    "explain message nothing-that-is-known",
    "explain message CUDA-error:-out-of-memory",
    "lint",
    "lint absent.yaml",
    "lint --fix -o sarif absent.yaml",
    "topo --gpus 0",
    "topo --devices nothing",
    "mig plan",
    "mig plan --product A100-80",
    "mig plan --product A100-80 --layout nonsense",
    "mig plan --product A100-80 --demand nonsense",
    "mig plan --product A100-80 --gpus 65 --layout all-balanced",
    "simulate --set-mig nonsense",
    "simulate --add-nodes x",
    "simulate --add-nodes 999999999=x",
    "simulate trace absent.csv absent.csv",
    "hardware a100-0",
    "hardware a100-0 --gpu -1",
    "hardware a100-0 --xid 0",
    "down",
    "lab run absent",
    "lab run",
    "lab list",
    "lab list -o json",
    "up --nodes 0",
    "up --port 70000",
    "up --scenario absent",
    "up --engine other",
    "node",
    "node --node-name x --devices nothing",
    "metrics cluster",
    "metrics cluster --address 9411",
    "metrics query",
    "metrics query up --url http://127.0.0.1:1",
    "metrics query up --url nowhere",
    "metrics query up -o json --url http://127.0.0.1:1",
    "metrics rules",
    "metrics rules --operator -n monitoring",
    "metrics targets",
    "metrics targets --address 9411",
    "metrics scrape-config",
    "metrics scrape-config --targets-url nowhere",
    "metrics scrape-config --user jane",
    "access",
    "access explain --user jane --service-account ml:ci",
    "access status -n ml -o json",
    "access operator adopt --user jane",
    "access nope",
    "access --check",
    "operator",
    "operator status",
    "operator plan",
    "operator plan absent.yaml",
    "operator bundle",
    "operator rollback --node",
    "controller --once",
    "controller --webhook-configuration x",
    "controller --agents-divide",
    "controller --dry-run --once",
    "controller --withdraw --upgrade-definitions",
    "top --once",
    "top --view nothing",
    "top --once --sort nothing",
    "claims",
    "migrate",
    "migrate dra absent.yaml --no-cluster",
    "convert absent.yaml",
    "lab show absent",
    "snapshot",
    "snapshot --redact nothing",
    "version --client",
    "version --client -o json",
    "completion",
    "completion tcsh",
    "completion bash",
    "doctor --layer nothing",
    "doctor --node a100-0",
    "cdi validate absent",
    "cdi generate --vendor !",
    "runtime plan --runtime nonsense",
)


def usage_sessions() -> Iterator[Session]:
    """The help of every command and its subcommands; wrong words."""
    here = Path(__file__).parent
    for name in COMMANDS:
        yield Session(f"help/{name}", here, tuple(_help_of(name)))
    wrong = tuple(Command(tuple(line.split())) for line in _WRONG)
    yield Session("wrong-words", here, (Command(()), Command(("--help",)), *wrong))


def _help_of(name: str) -> Iterator[Command]:
    yield Command((name, "--help"))
    command = tonnage.get_command(click.Context(tonnage), name)
    if isinstance(command, click.Group):
        for subcommand in command.list_commands(click.Context(command)):
            yield Command((name, subcommand, "--help"))
