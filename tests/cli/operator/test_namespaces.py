"""A namespace that a command line names and the cluster does not have is an error before anything is done."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tonnage.cli.main import run
from tonnage.cli.operator.namespaces import require_namespaces
from tonnage.model.errors import ApiError
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import NAMESPACE

COMMANDS = {
    "status": ("policy_view", []),
    "plan": ("policy_view", ["FILE"]),
    "rollback": ("drivers", []),
    "adopt": ("adopt", []),
    "adopt --finish": ("adopt", []),
    "release": ("adopt", []),
    "bundle": ("bundle", ["--file", "BUNDLE"]),
}
POLICY = "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: a}\nspec: {}\n"


OPTIONS = ("--operator-namespace", "--agents-namespace")
CASES = [
    (command, option)
    for command in COMMANDS
    for option in OPTIONS
    if (command, option) != ("rollback", "--agents-namespace")  # which asks nothing of the agents
]


@pytest.mark.parametrize(("command", "option"), CASES)
def test_a_namespace_that_does_not_exist_is_an_error(
    command: str,
    option: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    module, more = COMMANDS[command]
    files = {"FILE": str(tmp_path / "policy.yaml"), "BUNDLE": str(tmp_path / "bundle.tar")}
    monkeypatch.setattr(f"tonnage.cli.operator.{module}.connected", connected)
    words = [*command.split(), *(files.get(word, word) for word in more), option, "gpu-opertor"]
    assert run(["operator", *words], "tonnage") == 2
    shown = capsys.readouterr().err
    assert "error: the namespace gpu-opertor does not exist" in shown
    assert f"where: {option}" in shown
    assert "remedy: use gpu-operator if you meant that" in shown
    assert not (tmp_path / "bundle.tar").exists()


def test_what_is_no_name_is_refused_before_the_cluster_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["operator", "status", "--operator-namespace", "a b"], "tonnage") == 2
    assert "'a b' is not the name of a namespace" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("adopt", "No node has a device plugin of NVIDIA's operator."),
        ("adopt --finish", "No node is adopted. There is nothing to finish."),
        ("release", "No node is adopted."),
    ],
)
def test_where_there_is_nothing_to_do_that_is_said(
    command: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tonnage.cli.operator.adopt.connected", connected)
    assert run(["operator", *command.split()], "tonnage") == 0
    assert capsys.readouterr().out == f"{words}\n"


async def test_who_may_not_list_namespaces_is_believed_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    class _Forbids:
        async def list(self, _: object) -> None:
            raise ApiError(403, "Forbidden", "no")

    api: Any = _Forbids()
    await require_namespaces(api, {"--operator-namespace": "nv"})
    said = "not checked, since you may not list namespaces: --operator-namespace nv\n"
    assert capsys.readouterr().err == said


@asynccontextmanager
async def connected(_: object) -> AsyncIterator[Any]:
    api = ApiServer(VirtualClock(), random=Random(7)).local()
    await api.create(NAMESPACE, {"metadata": {"name": "gpu-operator"}})
    yield api
