"""The configuration's file as a loop sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tonnage.adapters.config_file import MountedConfigFile
from tonnage.model.errors import Problem


async def test_the_stamp_is_another_once_the_file_comes_changes_and_goes(tmp_path: Path) -> None:
    place = tmp_path / "config.yaml"
    file = MountedConfigFile(place)
    stamps = [file.stamp()]
    place.write_text("a")
    stamps.append(file.stamp())
    assert file.stamp() == stamps[-1]
    (tmp_path / "new").write_text("b")
    (tmp_path / "new").replace(place)
    stamps.append(file.stamp())
    assert len(set(stamps)) == 3
    place.unlink()
    assert file.stamp() == stamps[0]


async def test_a_link_that_leads_elsewhere_is_another_file(tmp_path: Path) -> None:
    for name in ("before", "after"):
        (tmp_path / name).write_text(name)
    place = tmp_path / "config.yaml"
    place.symlink_to("before")
    file = MountedConfigFile(place)
    stamp = file.stamp()
    assert await file.read() == "before"
    (tmp_path / "link").symlink_to("after")
    (tmp_path / "link").replace(place)
    assert file.stamp() != stamp
    assert await file.read() == "after"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(
            None,
            "{}: the configuration file cannot be read\n  why: No such file or directory",
            id="a file that is not there",
        ),
        pytest.param(
            b"\xff",
            "{}: the file is not UTF-8\n  why: byte 1 is 0xff\n  remedy: save it as UTF-8",
            id="bytes that are no UTF-8",
        ),
        pytest.param(
            b" " * ((1 << 20) + 1),
            "{}: the configuration file is too large\n  why: the file is larger than 1 MiB",
            id="a text that is too long",
        ),
    ],
)
async def test_what_cannot_be_read_says_why(tmp_path: Path, content: bytes | None, text: str) -> None:
    place = tmp_path / "config.yaml"
    if content is not None:
        place.write_bytes(content)
    problem = await MountedConfigFile(place).read()
    assert isinstance(problem, Problem)
    assert str(problem) == text.format(place)


async def test_the_longest_text_is_read_whole(tmp_path: Path) -> None:
    place = tmp_path / "config.yaml"
    place.write_bytes(b" " * (1 << 20))
    assert await MountedConfigFile(place).read() == " " * (1 << 20)
