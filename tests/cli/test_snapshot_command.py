"""`tonnage snapshot` and `--snapshot` as a person meets them: files, streams, refusals, damage."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tonnage.cli.main import run

HEADER = {
    "apiVersion": "tonnage.dev/v1alpha1", "kind": "Snapshot", "format": 1, "serverVersion": "v1.35.8",
    "takenAt": "2026-01-02T03:04:05Z", "redact": "values", "program": "tonnage 1",
}  # fmt: skip
AMOUNTS = {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "4"}
NODE = {
    "apiVersion": "v1", "kind": "Node", "metadata": {"name": "a100-0"},
    "status": {"capacity": AMOUNTS, "allocatable": AMOUNTS},
}  # fmt: skip
POD = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train", "namespace": "ml"},
    "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]},
    "status": {"phase": "Pending"},
}  # fmt: skip
FOOTER = {
    "apiVersion": "tonnage.dev/v1alpha1", "kind": "SnapshotEnd",
    "objects": {"Node": {"objects": 1}, "Pod": {"objects": 1}},
}  # fmt: skip


def content(**header: object) -> bytes:
    lines = ({**HEADER, **header}, NODE, POD, FOOTER)
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


QUESTION = ["explain", "pod", "train", "-n", "ml", "-o", "json", "--snapshot"]


@pytest.mark.parametrize("name", ["c.jsonl", "c.jsonl.gz", "no-suffix"])
def test_a_snapshot_is_read_whatever_its_name(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(content() if name == "c.jsonl" else gzip.compress(content()))
    assert run([*QUESTION, str(path)], "tonnage") == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["verdict"], answer["nodes"][0]["reasons"][0]["code"]) == ("NEVER", "resource-too-large")


def test_a_list_may_be_packed_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "list.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"kind": "List", "items": [NODE, POD]}).encode()))
    assert run([*QUESTION, str(path)], "tonnage") == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "NEVER"


def test_a_snapshot_may_come_from_a_pipe() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "tonnage", *QUESTION, "-"],
        input=gzip.compress(content()),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert json.loads(process.stdout)["verdict"] == "NEVER", process.stderr


def test_what_was_not_read_makes_the_answer_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(content(missing=[{"kind": "Node", "apiVersion": "v1", "reason": "Forbidden"}]))
    assert run([*QUESTION, str(path)], "tonnage") == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdict"] == "UNKNOWN"
    assert answer["reasons"][0]["code"] == "kind-not-read"
    assert "Node" in answer["message"]


def test_a_fleet_without_its_pods_is_told_with_that_gap(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(content(missing=[{"kind": "Pod", "apiVersion": "v1", "reason": "Forbidden"}]))
    assert run(["status", "--snapshot", str(path)], "tonnage") == 0
    said = capsys.readouterr().err
    assert said.startswith("The API server does not let you read: pods.\n")
    assert "resources: [pods]" in said, "the role grants what is lacking, and no more"
    run(["status", "--snapshot", str(path), "-o", "json"], "tonnage")
    assert json.loads(capsys.readouterr().out)["unread"] == ["Pod"]


@pytest.mark.parametrize(
    ("damaged", "told"),
    [
        pytest.param(content()[:-30], "truncated", id="without its end"),
        pytest.param(gzip.compress(content() * 50)[:120], "truncated", id="packed and cut"),
        pytest.param(content(format=9), "another version (made by tonnage 1)", id="a later format"),
        pytest.param(content().replace(b'"a100-0"}', b'"a100-0"'), "x.jsonl:2", id="broken JSON"),
        pytest.param(
            content().replace(b'"objects": 1}}', b'"objects": 2}}'), "1 of 2 Pod", id="objects gone"
        ),
        pytest.param(content(missing=7), ":1", id="a header of another shape"),
        pytest.param(content(serverVersion="none"), "no Kubernetes version", id="a server of no version"),
        pytest.param(b"\x1f\x8b\x08\x00", "x.jsonl", id="hardly gzip"),
    ],
)
def test_a_damaged_snapshot_is_refused_with_its_place(
    tmp_path: Path, damaged: bytes, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(damaged)
    assert run([*QUESTION, str(path)], "tonnage") == 2
    shown = capsys.readouterr().err
    assert told in shown
    assert "Traceback" not in shown


def test_a_line_without_end_is_not_read_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(json.dumps(HEADER).encode() + b'\n{"kind":"')
        for _ in range(20):
            file.write(b"x" * (1 << 20))
    assert run([*QUESTION, str(path)], "tonnage") == 2
    assert "x.jsonl.gz:2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "told"),
    [("/nowhere/at/all.gz", "cannot write the file"), ("/dev/null", "not a regular file")],
    ids=["no folder", "a device"],
)
def test_a_target_that_cannot_be_written_is_told_before_the_cluster_is_asked(
    target: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config"
    config.write_text("apiVersion: v1\nkind: Config\n")
    assert run(["snapshot", "-o", target, "--kubeconfig", str(config)], "tonnage") == 2
    assert told in capsys.readouterr().err


def test_nothing_is_left_when_the_cluster_cannot_be_reached(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: c, user: c}}]\nusers: [{name: c, user: {}}]\n"
        'clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]\n'
    )
    (tmp_path / "kept").write_text("before")
    arguments = ["snapshot", "-o", str(tmp_path / "kept"), "--kubeconfig", str(config)]
    assert run(arguments, "tonnage") == 3
    assert sorted(file.name for file in tmp_path.iterdir()) == ["config", "kept"]
    assert (tmp_path / "kept").read_text() == "before"
    assert "127.0.0.1" in capsys.readouterr().err


def test_stdin_that_is_no_snapshot_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a: [")))
    assert run(["status", "--snapshot", "-"], "tonnage") == 2
    assert "-:2:1" in capsys.readouterr().err
