"""Every lab and every command is in the records; what is not stands here, with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

import click
import pytest

from golden.clusters import lab_clusters
from golden.records import NAMES, RECORDS, path_of
from golden.served import served_clusters
from tonnage.cli.locations.labs_and_scenarios import lab_names
from tonnage.cli.main import tonnage

NEVER_WELL: Final[Mapping[str, str]] = {
    "metrics query": "asks a Prometheus; its answers are compared in tests/cli/metrics/test_query.py",
    "node": "runs until a signal; tests/cli/node",
    "lab run": "what it prints has durations; tests/cli/lab",
    "doctor": "asks a node; its states are in tests/diagnose and tests/cli/doctor",
    "cdi generate": "needs a driver's files; tests/cli/cdi",
    "runtime nri": "asks the runtime of a node; tests/cli/runtime",
    "runtime undo": "takes back what was written to a node; tests/cli/runtime",
    "operator bundle": "a server without kubelets has no logs for it; tests/kubernetes/controller",
    "operator rollback": "a driver has had another image only under a controller; lab driver-upgrade",
}
"""Command -> why no record shows it end with status 0."""


def _leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield " ".join(path)
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from _leaves(below, (*path, name))


LEAVES: Final = tuple(_leaves(tonnage))


@pytest.fixture(scope="module")
def recorded() -> Mapping[str, set[int]]:
    """Command line -> the statuses it ended with; help is no answer."""
    statuses: dict[str, set[int]] = {}
    for path in RECORDS.rglob("*.txt"):
        lines = path.read_text().splitlines()
        for line, following in pairwise(lines):
            if (
                line.startswith("$ tonnage ")
                and following.startswith("exit status ")
                and "--help" not in line
            ):
                statuses.setdefault(line.removeprefix("$ tonnage "), set()).add(int(following.split()[-1]))
    return statuses


@pytest.mark.parametrize("leaf", LEAVES)
def test_each_command_is_recorded(recorded: Mapping[str, set[int]], leaf: str) -> None:
    of_it = [ends for line, ends in recorded.items() if f"{line} ".startswith(f"{leaf} ")]
    assert of_it, f"no record has tonnage {leaf}: add it to a session of tests/golden"
    succeeds = any(0 in ends for ends in of_it)
    assert succeeds != (leaf in NEVER_WELL), "a command that never ends well has its reason, and no other"


def test_each_lab_has_its_clusters() -> None:
    captured = {name.rpartition(".")[0] for name in lab_clusters()}
    assert captured == set(lab_names())
    served = {name.rpartition(".")[0] for name in served_clusters(lab_clusters())}
    assert served == captured
    for name in (
        *(f"labs/{name}" for name in lab_clusters()),
        *(f"served/{name}" for name in served_clusters(lab_clusters())),
    ):
        assert name in NAMES, name
        assert path_of(name).exists(), name


def test_exceptions_are_of_commands() -> None:
    assert set(NEVER_WELL) <= set(LEAVES)
