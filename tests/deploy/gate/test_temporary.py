"""Temporary files of tests are in memory where that is fit for them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from support.temporary import use_memory


@pytest.fixture(autouse=True)
def _room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.temporary._ROOM", 1)
    monkeypatch.setattr(tempfile, "tempdir", tempfile.gettempdir())


def test_a_folder_with_room_is_taken(tmp_path: Path) -> None:
    environment: dict[str, str] = {}
    use_memory(environment, tmp_path)
    assert environment == {"TMPDIR": str(tmp_path)}
    assert tempfile.tempdir is None


def test_what_the_environment_names_counts(tmp_path: Path) -> None:
    environment = {"TMPDIR": "/elsewhere"}
    use_memory(environment, tmp_path)
    assert environment == {"TMPDIR": "/elsewhere"}


def test_one_without_room_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.temporary._ROOM", 1 << 62)
    environment: dict[str, str] = {}
    use_memory(environment, tmp_path)
    assert environment == {}


def test_one_that_is_not_there_is_not_taken(tmp_path: Path) -> None:
    environment: dict[str, str] = {}
    use_memory(environment, tmp_path / "none")
    assert environment == {}


def test_one_where_no_program_may_run_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a container's is by default."""
    system = os.statvfs(tmp_path)
    without_programs = os.statvfs_result([*system[:8], system.f_flag | os.ST_NOEXEC, *system[9:]])
    monkeypatch.setattr(os, "statvfs", lambda _: without_programs)
    environment: dict[str, str] = {}
    use_memory(environment, tmp_path)
    assert environment == {}
