"""`tonnage hardware`: what is done to pretended GPUs, and what is refused before a file is touched."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tonnage.cli.hardware import layout, profiles
from tonnage.cli.locations.state import Running, StateFolder
from tonnage.cli.locations.twin_nodes import asked_state
from tonnage.cli.main import run
from tonnage.model.errors import ConfigError
from tonnage.twin.machines import HardwareFile

CARDS = """\
boot: "1"
devices:
- {uuid: GPU-a, model: A100-80, rowRemap: failed}
- {uuid: GPU-b, model: A100-80, index: 3, xids: [31]}
- {uuid: GPU-c, model: T4, index: 1}
"""


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HardwareFile:
    """The only node of a cluster whose folders lie there: a100-0."""
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("TONNAGE_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr("tonnage.cli.locations.twin_nodes.runtime_folder", lambda *_: tmp_path / "run")
    root = tmp_path / "run/0"
    (root / "etc").mkdir(parents=True)
    (root / "etc/hostname").write_text("a100-0\n")
    (root / "hardware.yaml").write_text(CARDS)
    return HardwareFile(root)


def told(*words: str) -> int:
    return run(["hardware", *words], "tonnage")


def test_the_driver_reports_an_error_of_one_gpu(
    node: HardwareFile, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told("a100-0", "--gpu", "3", "--xid", "79") == 0
    assert [device.xids for device in node.read().devices] == [(), (31, 79), ()]
    shown = capsys.readouterr().out
    assert re.search(r"^3 +A100-80 +GPU-b +unhealthy +31,79 +off .*Xid 79: ", shown, re.MULTILINE)
    assert re.search(r"^1 +T4 +GPU-c +healthy +- +off .* -$", shown, re.MULTILINE)
    assert told("a100-0", "-o", "json") == 0
    devices = json.loads(capsys.readouterr().out)["devices"]
    assert [device["health"] for device in devices] == ["healthy"] * 3
    assert [bool(device["fault"]) for device in devices] == [True, False, True]


def test_a_reboot_heals_what_a_reboot_heals(node: HardwareFile) -> None:
    assert told("a100-0", "--health", "lost") == 0
    assert {device.health for device in node.read().devices} == {"lost"}
    assert told("a100-0", "--reboot") == 0
    after = node.read()
    assert after.boot == "2"
    assert [(device.health, device.xids) for device in after.devices] == [("healthy", ())] * 3
    assert after.devices[0].row_remap == "failed"


def test_a_gpu_is_divided_and_made_whole(node: HardwareFile, capsys: pytest.CaptureFixture[str]) -> None:
    assert told("a100-0", "--gpu", "0", "--mig", "3g.40gb,1g.10gb:2") == 0
    assert node.read().devices[0].mig == ("3g.40gb", "1g.10gb", "1g.10gb")
    assert "3g.40gb,1g.10gb:2" in capsys.readouterr().out
    assert told("a100-0", "--gpu", "0", "--mig", "off") == 0
    assert node.read().devices[0].mig is None


def test_without_a_deed_it_only_shows(node: HardwareFile, capsys: pytest.CaptureFixture[str]) -> None:
    assert told("a100-0", "-o", "json") == 0
    assert [device["index"] for device in json.loads(capsys.readouterr().out)["devices"]] == [0, 1, 3]
    assert node.path.read_text() == CARDS


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["t4-9"], "its nodes: a100-0"),
        (["a100-0", "--gpu", "2", "--xid", "79"], "a100-0 has no GPU 2"),
        (["a100-0", "--gpu", "1", "--mig", "1g.10gb:7"], "T4 cannot be divided"),
        (["a100-0", "--gpu", "0", "--mig", "seven"], "devices[0].mig[0]"),
        (["a100-0", "--gpu", "0", "--mig", ",,"], "is not a MIG layout"),
        (["a100-0", "--gpu", "0", "--mig", "1g.10gb:99"], "at most 56"),
        (["a100-0", "--xid", "79", "--reboot"], "give only one of --xid"),
        (["a100-0", "--gpu", "0", "--reboot"], "remove --gpu"),
    ],
)
def test_what_cannot_happen_is_refused_and_changes_nothing(
    node: HardwareFile, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(*words) == 2
    assert said in capsys.readouterr().err
    assert node.path.read_text() == CARDS


def test_where_kubectl_asks_another_cluster_nothing_is_touched(
    node: HardwareFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config").write_text("apiVersion: v1\n")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert told("a100-0", "--xid", "79") == 2
    assert "only an embedded cluster simulates" in capsys.readouterr().err
    assert node.path.read_text() == CARDS


def test_the_cluster_is_the_one_that_kubectl_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = StateFolder(tmp_path / "other")
    state.hold()
    try:
        here = Running(1, "inference", 1, "https://127.0.0.1:1", str(state.kubeconfig), "2026-01-01")
        state.publish(here, "apiVersion: v1\n")
        monkeypatch.setenv("KUBECONFIG", str(state.kubeconfig))
        assert asked_state(os.environ) == state.path
    finally:
        state.release()


@pytest.mark.parametrize("text", ["1g.10gb:7", "3g.40gb", "3g.40gb,2g.20gb,1g.10gb:2"])
def test_a_layout_is_written_as_it_was_read(text: str) -> None:
    assert layout(profiles(text)) == text


@pytest.mark.parametrize("text", ["", "a:b", "1g.10gb:", ",1g.10gb"])
def test_no_layout(text: str) -> None:
    with pytest.raises(ConfigError):
        profiles(text)
