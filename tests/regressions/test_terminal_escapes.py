"""Names in a snapshot could steer the terminal of whoever asked about it: they were printed as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tonnage.cli.main import run

NAME = "n\x1b[2J\x1b]0;title\x07"
OBJECTS = [
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NAME},
        "status": {
            "capacity": {"nvidia.com/gpu": "1", "pods": "9"},
            "allocatable": {"nvidia.com/gpu": "1", "pods": "9"},
        },
    },
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
    },
]


@pytest.mark.parametrize(
    "question",
    [["explain", "pod", "p"], ["status"], ["status", "-o", "wide"], ["explain", "pod", NAME]],
    ids=["explain", "status", "wide", "error"],
)
def test_nothing_out_of_a_cluster_steers_the_terminal(
    question: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": OBJECTS}))
    run([*question, "--snapshot", str(path)], "tonnage")
    shown = "".join(capsys.readouterr())
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert r"n\x1b[2J" in shown
