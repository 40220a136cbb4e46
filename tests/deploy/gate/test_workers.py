"""Tests in several processes: nothing is lost, whatever becomes of a process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CONFIG = f"[pytest]\npythonpath = {ROOT / 'tests'}\nfilterwarnings = error\nmarkers = sampled: a row\n"
USUAL = """\
import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def note():
    yield Path("notes") / str(os.getpid())


@pytest.fixture(scope="module")
def module(note):
    with note.open("a") as file:
        file.write("made\\n")
    yield
    with note.open("a") as file:
        file.write("taken down\\n")


@pytest.mark.parametrize("number", range(5))
def test_it_passes(module, number, tmp_path):
    print("not shown")


def test_it_fails(module):
    print("what it printed")
    assert os.getpid() < 0


@pytest.mark.skip(reason="so be it")
def test_it_is_skipped():
    pass
"""
DYING = """\
import os


def test_before():
    pass


def test_the_end_of_its_process():
    os.kill(os.getpid(), 9)


def test_after():
    pass
"""
HANGING = """\
import threading

from support import workers

workers.GRACE = 0.5


def test_before():
    pass


def test_that_never_ends():
    threading.Event().wait()


def test_after():
    pass
"""
UNSTEADY = """\
from pathlib import Path

import pytest


@pytest.mark.parametrize("number", range(3))
def test_that_fails_the_first_time(number):
    note = Path("notes", f"tried-{number}")
    assert note.exists() or note.touch(), "too early"


def test_that_fails_always():
    assert Path("notes", "tried-0").exists() and False, "never"
"""
WAITING = """\
import os
import signal
from pathlib import Path

import pytest


@pytest.fixture
def waiting():
    yield
    Path("notes", "taken-down").touch()


def test_it_waits(waiting):
    os.kill(os.getppid(), signal.SIGINT)
    threading.Event().wait()
"""


def _run(folder: Path, modules: Sequence[str], *options: str) -> subprocess.CompletedProcess[str]:
    for number, text in enumerate(modules):
        (folder / f"test_{number}.py").write_text(text)
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (folder / "pytest.ini").write_text(CONFIG)
    (folder / "notes").mkdir()
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-ra",
        "-p",
        "no:cacheprovider",
        "--workers",
        "2",
        *options,
    ]
    environment = {"PATH": os.environ["PATH"], "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def test_every_test_has_its_outcome_though_a_process_dies(tmp_path: Path) -> None:
    done = _run(tmp_path, [USUAL, DYING, USUAL])
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.findall(r"(\d+) (failed|passed|skipped)", done.stdout.splitlines()[-1]) == [
        ("3", "failed"),
        ("12", "passed"),
        ("2", "skipped"),
    ]
    assert "test_the_end_of_its_process ___" in done.stdout
    assert "the process of this test ended by SIGKILL\n" in done.stdout
    assert done.stdout.count("what it printed\n") == 2
    assert "not shown" not in done.stdout
    assert done.stderr == ""
    notes = [line for note in (tmp_path / "notes").iterdir() for line in note.read_text().splitlines()]
    assert notes == ["made", "taken down"] * 2, "a module's tests stay together"


def test_a_test_that_never_ends_fails_and_the_others_go_on(tmp_path: Path) -> None:
    done = _run(tmp_path, [HANGING, USUAL], "--hung-after", "2")
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.findall(r"(\d+) (failed|passed|skipped)", done.stdout.splitlines()[-1]) == [
        ("2", "failed"),
        ("7", "passed"),
        ("1", "skipped"),
    ]
    assert "test_that_never_ends ___" in done.stdout
    assert "the process of this test ended because it hung: standard error says where\n" in done.stdout
    assert "in test_that_never_ends" in done.stderr


def test_what_fails_among_others_and_passes_alone_is_named(tmp_path: Path) -> None:
    done = _run(tmp_path, [UNSTEADY, USUAL], "--second-tries", "5")
    assert done.returncode == 1
    assert re.findall(r"(\d+) (failed|passed|skipped)", done.stdout.splitlines()[-1]) == [
        ("2", "failed"),
        ("8", "passed"),
        ("1", "skipped"),
    ]
    named = re.findall(
        r"^UNSTEADY test_0.py::(.*): it failed among others and passed alone$", done.stdout, re.MULTILINE
    )
    assert sorted(named) == [f"test_that_fails_the_first_time[{number}]" for number in range(3)]
    assert done.stdout.count("AssertionError: too early") == 3
    assert done.stdout.count("test_that_fails_always ___") == 1


def test_a_run_whose_only_failures_are_unsteady_succeeds(tmp_path: Path) -> None:
    done = _run(tmp_path, [UNSTEADY], "--second-tries", "3", "-k", "first_time")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("UNSTEADY") == 3


def test_more_failures_than_second_tries_all_count(tmp_path: Path) -> None:
    done = _run(tmp_path, [UNSTEADY], "--second-tries", "2", "-k", "first_time")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("3 failed")
    assert "UNSTEADY" not in done.stdout


def test_it_stops_where_one_failure_is_enough(tmp_path: Path) -> None:
    done = _run(tmp_path, [USUAL, *["def test_it():\n    assert False\n"] * 40], "--maxfail=1")
    assert done.returncode == 1
    assert "stopping after" in done.stdout
    assert done.stdout.count("FAILED") < 20


def test_a_run_that_is_interrupted_tears_down_what_its_tests_have_set_up(tmp_path: Path) -> None:
    done = _run(tmp_path, [WAITING, USUAL])
    assert done.returncode == 2, done.stdout + done.stderr
    assert "KeyboardInterrupt" in done.stdout
    assert (tmp_path / "notes" / "taken-down").exists()


def test_files_that_are_begun_first_are_there(pytestconfig: pytest.Config) -> None:
    conftest = pytestconfig.pluginmanager.get_plugin(str(ROOT / "tests/conftest.py"))
    assert conftest is not None
    assert [path for path in conftest.EARLY if not (ROOT / path).is_file()] == []
