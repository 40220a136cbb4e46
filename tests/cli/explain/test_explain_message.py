"""`tonnage explain message`: words from a log or a status, and what they mean."""

from __future__ import annotations

import io
import json
import sys

import pytest

from tonnage.cli.main import run

XID = "NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus."


def test_a_message_is_explained_without_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    """APP-2."""
    assert (
        run(
            ["explain", "message", "CUDA error: no kernel image is available for execution on the device"],
            "tonnage",
        )
        == 1
    )
    shown = capsys.readouterr().out
    assert shown.startswith("cuda-no-kernel-image (layer: application)")
    assert "compute capability" in shown


def test_an_xid_is_looked_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "message", *XID.split()], "tonnage") == 1
    assert "Xid 79: " in (shown := capsys.readouterr().out)
    assert "it asks for reboot" in shown


def test_a_log_comes_on_stdin_and_its_end_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = b"CUDA out of memory\n" + b"step \xff\n" * 400_000 + XID.encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(log)))
    assert run(["explain", "message", "-", "-o", "json"], "tonnage") == 1
    [found] = json.loads(capsys.readouterr().out)["messages"]
    assert (found["code"], found["facts"]["xid"], found["rows"]) == ("gpu-xid", "79", [76])


def test_what_nobody_knows_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "message", "all", "is", "well"], "tonnage") == 0
    assert capsys.readouterr().out == "Tonnage does not know any part of this message\n"


def test_a_message_without_words_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "message"], "tonnage") == 2
    assert "the message is missing" in capsys.readouterr().err


def test_a_text_of_the_scheduler_is_explained_part_by_part(capsys: pytest.CaptureFixture[str]) -> None:
    text = "0/3 nodes are available: 1 CardTypeMismatch, 2 Insufficient nvidia.com/gpu."
    assert run(["explain", "message", text], "tonnage") == 1
    shown = capsys.readouterr().out
    assert shown.startswith("no node of 3 takes the pod (layer: scheduler)\n  1 of 3: CardTypeMismatch\n")
    assert "not understood: no scheduler of Kubernetes 1.31 to 1.37 says so" in shown
    assert (
        "  2 of 3: Insufficient nvidia.com/gpu  [insufficient-resource]\n     means: the nodes have" in shown
    )
    assert "the counts add up to 3 of 3 nodes" in shown
    assert run(["explain", "message", text, "-o", "json"], "tonnage") == 1
    [message] = json.loads(capsys.readouterr().out)["scheduling"]
    assert [(part["count"], part["understood"]) for part in message["parts"]] == [(1, False), (2, True)]
    assert message["parts"][1]["facts"] == {"resource": "nvidia.com/gpu"}
    assert (message["nodes"], message["counted"], message["releases"]) == (3, 3, None)


def test_a_refusal_by_quota_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    text = 'pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2'
    assert run(["explain", "message", text, "-o", "json"], "tonnage") == 1
    answer = json.loads(capsys.readouterr().out)
    [message] = answer["messages"]
    assert (message["code"], message["layer"], message["facts"]["quota"]) == ("quota-exceeded", "quota", "q")
    assert answer["scheduling"] == []


def test_a_text_of_parts_of_different_releases_is_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    parts = "1 node(s) had untolerated taint {team: ml}, 1 node(s) had untolerated taint(s)"
    assert run(["explain", "message", f"0/2 nodes are available: {parts}."], "tonnage") == 1
    shown = capsys.readouterr().out
    assert "no release of Kubernetes writes all of its parts" in shown
    assert "written by" not in shown
