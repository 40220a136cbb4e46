"""The kernel's table of processes: this machine's, and trees as other kernels show them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tonnage.adapters.process_table import ProcFiles


async def test_a_process_of_this_machine_is_found_with_its_start() -> None:
    files = ProcFiles(Path("/"))
    table = await files.read([os.getpid(), 1 << 21], 5.0)
    (process,) = table.processes.values()
    assert (process.pid, process.user) == (os.getpid(), os.geteuid())
    assert 0 < process.started_s <= table.uptime_s
    assert process.cgroup
    assert table.now_s == 5


def tree(root: Path, pid: int, *, stat: str = "", cgroup: str = "0::/x", status: str = "") -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True)
    (folder / "stat").write_text(stat or f"{pid} (a) b) c) S 1 1 " + "0 " * 16 + "4200 0 0\n")
    (folder / "cgroup").write_text(cgroup)
    (folder / "status").write_text(status or "Name:\tnvidia-cuda-mps\nUid:\t0\t1000\t0\t0\n")


async def test_a_name_with_blanks_and_brackets_does_not_move_the_start(tmp_path: Path) -> None:
    tree(tmp_path, 7)
    (tmp_path / "proc" / "uptime").write_text("50.5 10.0\n")
    table = await ProcFiles(tmp_path).read([7], 0)
    process = table.processes[7]
    assert process.started_s == 4200 / os.sysconf("SC_CLK_TCK")
    assert (process.user, process.program, process.cgroup) == (1000, "nvidia-cuda-mps", "0::/x")
    assert (table.uptime_s, table.is_host) == (50.5, True)


@pytest.mark.parametrize("stat", ["", "7 (a", "7 (a) S 1 2 3", "7 (a) " + "x " * 30, "\0" * 100])
async def test_a_table_that_makes_no_sense_has_no_processes(tmp_path: Path, stat: str) -> None:
    tree(tmp_path, 7, stat=stat or ")")
    table = await ProcFiles(tmp_path).read([7], 0)
    assert table.processes == {}
    assert not table.is_host


async def test_a_machine_is_told_by_its_kernels_threads(tmp_path: Path) -> None:
    (tmp_path / "proc/2").mkdir(parents=True)
    (tmp_path / "proc/2/comm").write_text("kthreadd\n")
    assert (await ProcFiles(tmp_path).read([7], 0)).is_host
    (tmp_path / "proc/2/comm").write_text("sleep\n")
    assert not (await ProcFiles(tmp_path).read([7], 0)).is_host
