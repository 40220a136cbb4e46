"""Days on which the machine does not give: signals in the middle of a lab, full disks, low limits."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tonnage.cli.locations.state import StateFolder, unusable
from tonnage.cli.up.embedded import allow_many_files, last_complaints
from tonnage.model.errors import HardwareError

LAB = """\
name: endless
title: Waits until it is ended
scenario: inference
steps:
- run: NS=$(kubectl create namespace endless -o name)
- run: kubectl get namespace endless -o name
- run: kubectl wait namespace/endless --for=condition=Never --timeout=300s
  timeout: 300
cleanup:
- run: kubectl delete $NS
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as name:
        yield Path(name)


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=str
)
def test_a_lab_that_is_ended_cleans_up(folder: Path, number: signal.Signals, status: int) -> None:
    for name in ("run", "tmp", "lab"):
        (folder / name).mkdir()
    (folder / "lab" / "lab.yaml").write_text(LAB)
    places = {
        "XDG_RUNTIME_DIR": str(folder / "run"),
        "TMPDIR": str(folder / "tmp"),
        "TONNAGE_STATE": str(folder / "state"),
        "PYTHONUNBUFFERED": "1",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "tonnage", "lab", "run", str(folder / "lab")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **places},
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "kubectl wait" in line:
            break
    process.send_signal(number)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == status, rest
    assert 'namespace "endless" deleted' in rest
    assert list((folder / "run").iterdir()) == []
    assert list((folder / "tmp").iterdir()) == []


def test_a_state_folder_that_cannot_be_written_is_left_as_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(HardwareError) as caught:
        StateFolder(folder / "state").hold()
    assert caught.value.exit_status == 3
    assert caught.value.problems[0].remedy == "free some space, or choose another folder"
    assert not (folder / "state").exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO])
def test_every_refusal_of_a_folder_has_a_remedy(number: int) -> None:
    problem = unusable(Path("/x"), OSError(number, os.strerror(number))).problems[0]
    assert (problem.where, bool(problem.why), bool(problem.remedy)) == ("/x", True, True)


def test_a_limit_of_open_files_that_is_too_low_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 64))
    with pytest.raises(HardwareError, match="the limit of open files is too low"):
        allow_many_files(8)


def test_a_soft_limit_of_open_files_is_raised_as_far_as_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: raised.append((which, limits)))
    allow_many_files(8)
    assert len(raised) == 1
    assert 64 < raised[0][1][0] <= 4096
    assert raised[0][1][1] == 4096


def test_a_fleet_that_does_not_come_up_quotes_its_last_complaints(folder: Path) -> None:
    lines = [
        "T INFO fine",
        *(f"T ERROR no {n}: node=x" for n in range(5)),
        "T ERROR no 4: node=x",
        "T INFO ok",
    ]
    (folder / "up.log").write_text("\n".join(lines))
    expected = ("ERROR no 2: node=x", "ERROR no 3: node=x", "ERROR no 4: node=x")
    assert last_complaints(folder / "up.log") == expected
    assert last_complaints(folder / "none") == ()
