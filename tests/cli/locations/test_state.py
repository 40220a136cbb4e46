"""The state folder: one owner, nothing left, nobody else's files touched."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tonnage.cli.locations.folders import cache_folder, runtime_folder, state_folder
from tonnage.cli.locations.socket_folder import find_runtime, make_runtime
from tonnage.cli.locations.state import Running, StateFolder, private_folder
from tonnage.model.errors import ConfigError, HardwareError

RUNNING = Running(os.getpid(), "inference", 8, "https://127.0.0.1:6443", "/k", "2026-01-01T00:00:00Z")

HOLDER = """
import sys, time
from pathlib import Path
from tonnage.cli.locations.state import StateFolder
folder = StateFolder(Path(sys.argv[1]))
folder.hold()
(folder.path / "kubeconfig").write_text("x")
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that owns `tmp_path/state`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "state")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait(60)
    process.stdout.close()


def test_a_held_folder_says_who_and_where(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    assert (folder.owner(), folder.running(), folder.stale()) == (None, None, False)
    folder.hold()
    assert (folder.owner(), folder.running()) == (os.getpid(), None)
    folder.publish(RUNNING, "token")
    assert folder.running() == RUNNING
    assert stat.S_IMODE(folder.kubeconfig.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    folder.release()
    assert not (tmp_path / "state").exists()


def test_a_second_owner_is_told_who_the_first_is(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        StateFolder(tmp_path / "state").hold()
    (problem,) = caught.value.problems
    assert problem.what == "an embedded cluster already runs here"
    assert f"process {other.pid} " in problem.why
    assert "tonnage down" in problem.remedy
    assert (tmp_path / "state" / "kubeconfig").exists()


def test_what_a_killed_owner_left_is_removed(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    folder = StateFolder(tmp_path / "state")
    other.send_signal(signal.SIGKILL)
    other.wait(60)
    assert folder.stale()
    folder.hold()
    assert not folder.kubeconfig.exists()
    folder.release()
    assert not folder.stale()


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    (tmp_path / "kubeconfig").write_text("x")
    with pytest.raises(ConfigError, match=r"thesis\.tex"):
        StateFolder(tmp_path).hold()
    assert (tmp_path / "kubeconfig").exists()


def test_releasing_keeps_what_somebody_put_beside_it(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    folder.hold()
    (tmp_path / "state" / "note").write_text("x")
    folder.release()
    assert [entry.name for entry in (tmp_path / "state").iterdir()] == ["note"]


def test_releasing_twice_or_what_was_never_held_does_nothing(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    folder.release()
    folder.hold()
    folder.release()
    folder.release()
    assert not folder.stale()


def test_a_file_where_the_folder_should_be_is_an_error_with_a_place(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("x")
    with pytest.raises(HardwareError, match="the folder cannot be used") as caught:
        StateFolder(tmp_path / "state").hold()
    assert caught.value.problems[0].where == str(tmp_path / "state")


def test_unreadable_state_names_its_file_and_remedy(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    folder.hold()
    (folder.path / "cluster.json").write_text("{")
    with pytest.raises(ConfigError, match="tonnage down"):
        folder.running()
    folder.release()


def test_a_private_folder_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    assert stat.S_IMODE(private_folder(tmp_path / "open").stat().st_mode) == 0o700
    (tmp_path / "link").symlink_to(tmp_path / "open")
    with pytest.raises(HardwareError, match="is a link"):
        private_folder(tmp_path / "link")


@pytest.fixture
def held(tmp_path: Path) -> Iterator[StateFolder]:
    folder = StateFolder(tmp_path / "state")
    folder.hold()
    yield folder
    folder.release()


def _link(place: Path) -> None:
    (place.parent / "elsewhere").mkdir()
    (place.parent / "elsewhere/precious").touch()
    place.symlink_to("elsewhere")


def _circle(place: Path) -> None:
    place.symlink_to(place.name)


def _foreign(place: Path) -> None:
    if os.geteuid():
        pytest.skip("needs the right to give files away")
    place.mkdir(mode=0o777)
    (place / "precious").touch()
    os.chown(place, 12345, 12345)


@pytest.mark.parametrize(
    "take",
    [_link, _circle, Path.touch, os.mkfifo, _foreign],
    ids=["link", "circle", "file", "pipe", "folder"],
)
def test_where_somebody_else_has_the_name_the_sockets_lie_in_another_folder(
    tmp_path: Path, held: StateFolder, take: Callable[[Path], None]
) -> None:
    """As another user can who makes the usual folder below /tmp first."""
    usual = tmp_path / "tonnage-1000-abcdef"
    take(usual)
    before = usual.lstat()
    assert find_runtime(held, usual) is None
    made = make_runtime(held, usual)
    assert made.parent == tmp_path
    assert len(made.name) <= len(usual.name), "paths of sockets have little room"
    assert (stat.S_IMODE(made.lstat().st_mode), list(made.iterdir())) == (0o700, [])
    assert find_runtime(held, usual) == made, "down and others find it"
    assert usual.lstat() == before
    assert all(file.exists() for file in (tmp_path / "elsewhere/precious",) if take is _link)
    assert take is not _foreign or (usual / "precious").exists()


def test_the_folder_of_sockets_is_the_usual_one_and_new(tmp_path: Path, held: StateFolder) -> None:
    usual = tmp_path / "tonnage-1000-abcdef"
    usual.mkdir(mode=0o755)
    (usual / "left").touch()
    assert make_runtime(held, usual) == usual
    assert (stat.S_IMODE(usual.lstat().st_mode), list(usual.iterdir())) == (0o700, [])


def test_what_a_killed_cluster_left_in_another_folder_goes_with_the_next(tmp_path: Path) -> None:
    usual = tmp_path / "tonnage-1000-abcdef"
    usual.touch()
    folder = StateFolder(tmp_path / "state")
    folder.hold()
    first = make_runtime(folder, usual)
    assert folder._lock is not None
    os.close(folder._lock)  # as the kernel does when the process is killed
    again = StateFolder(tmp_path / "state")
    again.hold()
    assert make_runtime(again, usual) != first
    assert not first.exists()
    again.release()
    assert not again.path.exists()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({"HOME": "/h"}, "/h/.local/state/tonnage", id="the home folder"),
        pytest.param({"HOME": "/h", "XDG_STATE_HOME": "/s"}, "/s/tonnage", id="XDG"),
        pytest.param({"HOME": "/h", "XDG_STATE_HOME": "s"}, "/h/.local/state/tonnage", id="a relative XDG"),
        pytest.param({"HOME": "/h", "TONNAGE_STATE": "/t", "XDG_STATE_HOME": "/s"}, "/t", id="named"),
    ],
)
def test_the_state_folder_comes_from_the_environment(environment: dict[str, str], expected: str) -> None:
    assert str(state_folder(environment)) == expected


def test_sockets_have_room_for_their_names_however_long_the_state_folder_is() -> None:
    long = Path("/" + "/".join(["a" * 50] * 20))
    for environment in ({}, {"XDG_RUNTIME_DIR": "/run/user/1000"}, {"XDG_RUNTIME_DIR": "/" + "r" * 90}):
        assert len(str(runtime_folder(environment, long, 1000))) <= 60
    assert runtime_folder({}, Path("/a"), 1) != runtime_folder({}, Path("/b"), 1)


def test_the_cache_is_where_xdg_says() -> None:
    assert str(cache_folder({"HOME": "/h", "XDG_CACHE_HOME": "/c"})) == "/c/tonnage"
