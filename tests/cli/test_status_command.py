"""`tonnage status` as a person meets it: which rows, how wide, and what it says of what was not seen."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tonnage.cli.main import run
from tonnage.cli.status import fleet_table, watch
from tonnage.diagnose.status import fleet
from tonnage.model.kubernetes.cluster import Node, Snapshot

GPU = "nvidia.com/gpu"


def node(name: str, product: str) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "8Gi", "pods": "110", GPU: "4"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": product}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def pod(name: str, namespace: str, on: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i:v1", "resources": {"limits": {GPU: "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"nodeName": on, "containers": [container]},
        "status": {"phase": "Running"},
    }


NODES = [node("a", "Tesla-T4"), node("b", "NVIDIA-L4")]
PODS = [pod("p", "ml", "a"), pod("q", "web", "a"), pod("r", "web", "b")]


@pytest.fixture
def written(tmp_path: Path) -> Any:
    def write(*objects: dict[str, Any]) -> str:
        path = tmp_path / "cluster.json"
        path.write_text(json.dumps({"kind": "List", "items": objects}))
        return str(path)

    return write


@pytest.mark.parametrize(
    ("words", "names"),
    [
        pytest.param([], ["a", "b"], id="all nodes"),
        pytest.param(["b"], ["b"], id="a node by name"),
        pytest.param(["-l", "nvidia.com/gpu.product in (Tesla-T4)"], ["a"], id="nodes by label"),
        pytest.param(["-n", "ml"], ["a"], id="nodes where a namespace holds something"),
        pytest.param(["-n", "nobody"], [], id="a namespace that holds nothing"),
    ],
)
def test_the_nodes_that_are_asked_for_are_named(
    words: list[str], names: list[str], written: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(*NODES, *PODS)
    assert run(["status", *words, "--snapshot", file, "-o", "name"], "tonnage") == 0
    assert capsys.readouterr().out.split() == [f"node/{name}" for name in names]
    assert run(["status", *words, "--snapshot", file, "-o", "json"], "tonnage") == 0
    assert [row["node"] for row in json.loads(capsys.readouterr().out)["items"]] == names


def test_a_total_stands_below_the_rows(written: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--snapshot", written(*NODES, *PODS)], "tonnage") == 0
    *_, total = capsys.readouterr().out.splitlines()
    assert total == "nvidia.com/gpu: 2 nodes, 8 of 8 allocatable, 3 allocated, 5 free"


@pytest.mark.parametrize(
    ("objects", "kind", "cells"),
    [
        pytest.param(NODES[:1], "Pod", ["4/4", "-"], id="nodes alone"),
        pytest.param(PODS[:1], "Node", ["-", "1"], id="pods alone"),
    ],
)
def test_what_was_not_seen_is_a_dash_and_a_word_on_it(
    objects: list[dict[str, Any]],
    kind: str,
    cells: list[str],
    written: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = written(*objects)
    assert run(["status", "--snapshot", file], "tonnage") == 0
    _, row, _, word = capsys.readouterr().out.splitlines()
    assert row.split()[5:7] == cells
    assert word.startswith(f"no {kind} was seen: ")
    assert run(["status", "--snapshot", file, "-o", "json"], "tonnage") == 0
    assert json.loads(capsys.readouterr().out)["unread"] == [kind]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["aa"], 'no node with GPUs is named "aa"'),
        (["-l", "a in"], "--selector: "),
        (["--watch"], "--watch shows a live cluster"),
    ],
)
def test_what_cannot_be_shown_is_said(
    words: list[str], problem: str, written: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["status", *words, "--snapshot", written(*NODES)], "tonnage") == 2
    assert problem in capsys.readouterr().err


def test_on_a_narrow_terminal_every_row_is_a_paragraph(
    written: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    assert run(["status", "--snapshot", written(*NODES, *PODS)], "tonnage") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "a"
    assert shown[1].startswith("  product Tesla-T4, resource nvidia.com/gpu")
    table = [row for row in shown if row.startswith(("a", "b", " "))]
    assert max(map(len, table)) <= 60


def test_what_fits_is_a_table() -> None:
    rows = fleet(Snapshot(nodes=(Node("a", capacity={GPU: 1}, allocatable={GPU: 1}),)))
    assert len(fleet_table(rows, wide=False, width=200).splitlines()) == 2
    assert fleet_table(rows, wide=False, width=60).startswith("a\n  resource nvidia.com/gpu, ")


async def test_what_is_watched_is_shown_again_when_it_differs(capsys: pytest.CaptureFixture[str]) -> None:
    texts = iter(["one", "one", "two"])

    async def read() -> Snapshot:
        return Snapshot(server_version=next(texts))

    async def wait() -> None:
        return None

    with pytest.raises(RuntimeError):  # no more texts
        await watch(read, lambda snapshot: snapshot.server_version, wait)
    assert capsys.readouterr().out == "one\ntwo\n"
