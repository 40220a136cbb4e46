"""The boot's id: what the kernel says, and what may stand in its place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tonnage.adapters.boot import boot_id
from tonnage.adapters.vendors.nvml_reader import incarnation_of

FILE = "proc/sys/kernel/random/boot_id"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b"5b2f-0c\n", "5b2f-0c", id="what the kernel says"),
        pytest.param(b"", "", id="an empty file"),
        pytest.param(b"a" * 1000, "a" * 64, id="far too long"),
        pytest.param(b"\xff", "\ufffd", id="no text"),
        pytest.param(None, "", id="no file"),
    ],
)
def test_the_boot_has_the_name_that_the_kernel_gives_it(
    tmp_path: Path, content: bytes | None, expected: str
) -> None:
    if content is not None:
        (tmp_path / FILE).parent.mkdir(parents=True)
        (tmp_path / FILE).write_bytes(content)
    assert boot_id(tmp_path) == expected
    assert incarnation_of(tmp_path) == (f"{expected}/" if expected else "")


def test_a_pipe_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / FILE).parent.mkdir(parents=True)
    os.mkfifo(tmp_path / FILE)
    assert boot_id(tmp_path) == ""


def test_the_program_between_agent_and_driver_loads_no_event_loop() -> None:
    code = "import sys; import tonnage.adapters.vendors.nvml_reader; print('asyncio' in sys.modules)"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert shown.stdout == "False\n"
