"""A lab waits between steps where a person can press Enter, and nowhere else."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from tonnage.cli.lab.pause import Pause, is_attended


@pytest.fixture
def pty() -> Iterator[tuple[int, int]]:
    """(the end of a person, the end of a program) of a terminal."""
    person, program = os.openpty()
    yield person, program
    os.close(person)
    os.close(program)


async def test_enter_ends_the_pause_while_the_loop_goes_on(
    pty: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    person, program = pty
    waiting = asyncio.create_task(Pause(program)("Enter runs it "))
    await asyncio.sleep(0)
    assert capsys.readouterr().out == "Enter runs it "
    assert not waiting.done()
    os.write(person, b"\n")
    await waiting


async def test_after_the_end_of_input_nothing_waits(pty: tuple[int, int]) -> None:
    person, program = pty
    pause = Pause(program)
    os.write(person, b"\x04")
    await pause("first")
    await pause("second")


async def test_ctrl_c_ends_the_pause(pty: tuple[int, int]) -> None:
    waiting = asyncio.create_task(Pause(pty[1])("Enter runs it "))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not asyncio.get_running_loop().remove_reader(pty[1])


@pytest.mark.parametrize(
    ("stdin", "stdout", "foreground", "environment", "expected"),
    [
        pytest.param(True, True, True, {}, True, id="a terminal"),
        pytest.param(False, True, True, {}, False, id="input from a file"),
        pytest.param(True, False, True, {}, False, id="output to a pipe"),
        pytest.param(True, True, False, {}, False, id="a job in the background"),
        pytest.param(True, True, True, {"CI": "true"}, False, id="a terminal in CI"),
    ],
)
def test_somebody_can_press_enter(
    stdin: bool,
    stdout: bool,
    foreground: bool,
    environment: dict[str, str],
    expected: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: stdin)
    monkeypatch.setattr("sys.stdin.fileno", lambda: 0)
    monkeypatch.setattr("sys.stdout.isatty", lambda: stdout)
    monkeypatch.setattr("os.tcgetpgrp", lambda _: os.getpgrp() if foreground else 1)
    assert is_attended(environment) is expected
