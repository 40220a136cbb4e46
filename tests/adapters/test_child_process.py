"""Programs that are started: watched, ended, and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.looking import runs, until, wait_until
from tonnage.adapters.child_process import ChildProcess
from tonnage.model.errors import ClusterError, Problem

SHELL = Path("/bin/sh")
PARENT = """
import os, sys, time
from pathlib import Path
from tonnage.adapters.child_process import ChildProcess
script = "echo up; exec sleep 600"
child = ChildProcess(Path("/bin/sh"), ["-c", script], log=Path(sys.argv[1]), environment=os.environ)
while b"up" not in child.log.read_bytes():
    pass
print(child.pid, flush=True)
time.sleep(600)
"""


def _child(log: Path, script: str) -> ChildProcess:
    return ChildProcess(
        SHELL, ["-c", script], log=log, environment={"PATH": os.environ["PATH"], "SAID": "hello"}
    )


def _until_said(child: ChildProcess, text: str) -> None:
    wait_until(lambda: text in child.last_words())


async def test_it_runs_as_the_process_that_was_started_and_ends_when_asked(tmp_path: Path) -> None:
    child = _child(tmp_path / "log", 'echo "$SAID $$"; exec sleep 600')
    _until_said(child, f"hello {child.pid}")
    child.check()
    await child.end(60)
    with pytest.raises(ClusterError, match=f"signal {int(signal.SIGTERM)}"):
        child.check()


async def test_one_that_will_not_end_is_made_to(tmp_path: Path) -> None:
    child = _child(tmp_path / "log", "trap '' TERM; echo ready; while :; do sleep 600; done")
    _until_said(child, "ready")
    await child.end(0)
    with pytest.raises(ClusterError, match=f"signal {int(signal.SIGKILL)}"):
        child.check()
    await child.end(0)


async def test_one_that_ended_by_itself_is_told_with_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = _child(log, 'for i in 1 2 3 4 5 6 7; do echo "line $i"; done; exit 3')
    problems: list[Problem] = []

    def has_ended() -> bool:
        try:
            child.check()
        except ClusterError as error:
            problems.append(error.problems[0])
        return bool(problems)

    await until(has_ended)
    [problem] = problems
    assert (problem.what, problem.where) == ("sh has ended", str(log))
    assert problem.why.splitlines() == ["exit status 3", *(f"line {i}" for i in range(2, 8))]
    await child.end(0)


def test_it_dies_with_its_parent_however_that_dies(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait(60)
    parent.stdout.close()
    wait_until(lambda: not runs(pid))


def test_a_log_of_somebody_else_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic"):
        _child(tmp_path / "log", "echo")
