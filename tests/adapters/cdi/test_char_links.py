"""Links to the driver's nodes by their numbers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tonnage.adapters.cdi.char_links import make_links, missing_links
from tonnage.cli.main import run
from tonnage.model.errors import HardwareError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Nodes of two numbers, one of them twice; a file that is called like a node."""
    (tmp_path / "dev/nvidia-caps").mkdir(parents=True)
    for name, node in {"nvidia0": "null", "nvidia1": "null", "nvidia-caps/nvidia-cap1": "zero"}.items():
        (tmp_path / "dev" / name).symlink_to(f"/dev/{node}")
    (tmp_path / "dev/nvidia7").touch()
    (tmp_path / "dev/null").symlink_to("/dev/null")
    return tmp_path


def links(root: Path) -> dict[str, str]:
    return {entry.name: str(entry.readlink()) for entry in (root / "dev/char").iterdir()}


def test_each_number_gets_one_link_and_what_is_there_stays(root: Path) -> None:
    missing = missing_links(root)
    assert missing == {"/dev/char/1:5": "../nvidia-caps/nvidia-cap1", "/dev/char/1:3": "../nvidia0"}
    (root / "dev/char").mkdir()
    (root / "dev/char/1:3").symlink_to("../null")
    make_links(root, missing)
    assert links(root) == {"1:5": "../nvidia-caps/nvidia-cap1", "1:3": "../null"}
    assert missing_links(root) == {}


def test_a_folder_that_is_none_is_told(root: Path) -> None:
    (root / "dev/char").touch()
    with pytest.raises(HardwareError, match="cannot be created"):
        make_links(root, {"/dev/char/1:3": "../nvidia0"})


def test_by_hand_they_are_shown_and_made(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["cdi", "char-links", "--root", str(root)]
    told = "/dev/char/1:3 -> ../nvidia0\n/dev/char/1:5 -> ../nvidia-caps/nvidia-cap1\n"
    assert run([*words, "--dry-run"], "tonnage") == 1
    assert capsys.readouterr().out == told
    assert not os.path.lexists(root / "dev/char")
    assert run(words, "tonnage") == 0
    assert capsys.readouterr().out == told
    assert run([*words, "--dry-run"], "tonnage") == 0
    assert capsys.readouterr().out == "No link is missing.\n"
