"""Ending the embedded cluster: politely, then not; and never twice."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tonnage.cli.locations.state import StateFolder
from tonnage.cli.main import run
from tonnage.cli.up.down import stop
from tonnage.model.errors import HardwareError

HOLDER = """
import signal, sys, time
from pathlib import Path
from tonnage.cli.locations.state import StateFolder
folder = StateFolder(Path(sys.argv[1]))
folder.hold()
def end(*_):
    folder.release()
    sys.exit()
signal.signal(signal.SIGTERM, end if sys.argv[2] == "polite" else signal.SIG_IGN)
print("held", flush=True)
while True:
    time.sleep(600)
"""


def owner(path: Path, manners: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), manners], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    process.stdout.close()
    return process


class Hand:
    """Sends signals for real and waits for their effect instead of sleeping."""

    def __init__(self, process: subprocess.Popen[str], *, deaf_to: int = 0) -> None:
        self.process = process
        self.deaf_to = deaf_to
        self.sent: list[int] = []

    def kill(self, pid: int, number: int) -> None:
        assert pid == self.process.pid
        self.sent.append(number)
        self.process.send_signal(number)
        if number != self.deaf_to:
            self.process.wait(60)

    def sleep(self, _: float) -> None:
        """No time passes."""


def test_a_polite_owner_is_asked_once(tmp_path: Path) -> None:
    hand = Hand(owner(tmp_path / "state", "polite"))
    assert stop(StateFolder(tmp_path / "state"), kill=hand.kill, sleep=hand.sleep)
    assert hand.sent == [signal.SIGTERM]
    assert not (tmp_path / "state").exists()


def test_an_owner_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    hand = Hand(owner(tmp_path / "state", "rude"), deaf_to=signal.SIGTERM)
    assert stop(StateFolder(tmp_path / "state"), kill=hand.kill, sleep=hand.sleep)
    assert hand.sent == [signal.SIGTERM, signal.SIGKILL]


def test_nothing_to_stop_is_no_error(tmp_path: Path) -> None:
    def kill(*_: int) -> None:
        pytest.fail("nobody to kill")

    assert not stop(StateFolder(tmp_path / "state"), kill=kill, sleep=lambda _: None)


def test_an_owner_that_may_not_be_ended_is_an_error(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    folder.hold()

    def kill(*_: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    with pytest.raises(HardwareError, match="another user"):
        stop(StateFolder(tmp_path / "state"), kill=kill, sleep=lambda _: None)
    folder.release()


def test_down_cleans_up_after_a_killed_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    process = owner(tmp_path / "state", "polite")
    process.kill()
    process.wait(60)
    assert (tmp_path / "state").exists()
    assert run(["down", "--state", str(tmp_path / "state")], "tonnage") == 0
    assert not (tmp_path / "state").exists()
    assert run(["down", "--state", str(tmp_path / "state")], "tonnage") == 0
    assert capsys.readouterr().out.splitlines() == [
        f"Cleaned up {tmp_path / 'state'}.",
        f"No embedded cluster runs in {tmp_path / 'state'}.",
    ]


def test_down_leaves_other_peoples_folders_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    assert run(["down", "--state", str(tmp_path)], "tonnage") == 0
    assert (tmp_path / "thesis.tex").exists()
