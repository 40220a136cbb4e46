"""Programs of the host: what they are given, how they fail, and that they end."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from support.looking import runs, until
from tonnage.adapters.host_programs import ChrootPrograms
from tonnage.model.errors import HardwareError

HERE = ChrootPrograms(Path("/"))


async def test_a_program_runs_in_its_folder_with_its_variables_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "x")
    said = await HERE.run(
        "sh", ["-c", "pwd; echo $A-$SECRET; cat"], variables={"A": "b"}, folder=str(tmp_path)
    )
    assert said == f"{tmp_path}\nb-\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="another root folder takes root")
async def test_another_root_is_entered() -> None:
    assert await ChrootPrograms(Path("/proc/self/root")).run("sh", ["-c", "cd /; pwd"]) == "/\n"


async def test_what_fails_says_how_and_what_it_said_last() -> None:
    with pytest.raises(HardwareError, match=r"sh failed \(3\)") as refused:
        await HERE.run("sh", ["-c", "yes before | head -n 100000; echo the end >&2; exit 3"])
    assert refused.value.problems[0].why.endswith("before the end")
    assert len(refused.value.problems[0].why) == 300
    with pytest.raises(HardwareError, match=r"/no/such failed \(127\)"):
        await HERE.run("/no/such")
    with pytest.raises(HardwareError, match=r"sh failed \(2\)|sh failed \(1\)"):
        await HERE.run("sh", folder="/no/such")


async def test_what_does_not_end_is_ended() -> None:
    with pytest.raises(HardwareError, match="sleep has not ended within 0 s"):
        await HERE.run("sleep", ["60"], timeout_s=0.3)


async def test_a_program_that_nobody_waits_for_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 60 & echo $! $$ > {pids}.new; mv {pids}.new {pids}; wait"
    run = asyncio.create_task(HERE.run("sh", ["-c", script]))
    await until(pids.exists)
    run.cancel()
    await asyncio.wait({run}, timeout=30)
    started = [int(pid) for pid in pids.read_text().split()]
    await until(lambda: not any(map(runs, started)))  # the killed take a moment to leave
