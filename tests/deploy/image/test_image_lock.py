"""A release takes the Debian packages that somebody has looked at, byte by byte."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.image.build import REPOSITORY
from scripts.image.debian import Package
from scripts.image.lock import NAME, differences, read_lock, require_locked, this_release, write_lock
from scripts.image.trees import Patterns, lines_of
from tonnage.model.errors import ConfigError

RECIPE = REPOSITORY / "deploy" / "image"
LIBC = Package("libc6", "2.36-9", "libc6_2.36-9_amd64.deb", 9, "a" * 64)
ZLIB = Package("zlib1g", "1:1.2", "zlib1g_1%3a1.2_amd64.deb", 9, "b" * 64)
LOCKED = {"libc6": ("2.36-9", "a" * 64), "zlib1g": ("1:1.2", "b" * 64)}


@pytest.mark.parametrize(
    ("packages", "texts"),
    [
        pytest.param([LIBC, ZLIB], (), id="the same ones"),
        pytest.param(
            [Package("libc6", "2.36-10", "", 9, "c" * 64), ZLIB],
            ("libc6: 2.36-9 is locked, 2.36-10 is offered",),
            id="another version",
        ),
        pytest.param(
            [Package("libc6", "2.36-9", "", 9, "c" * 64), ZLIB],
            ("libc6 2.36-9: another file than the one that is locked",),
            id="other bytes under the same version",
        ),
        pytest.param([LIBC], ("zlib1g: 1:1.2 is locked, none is taken",), id="one is gone"),
        pytest.param(
            [LIBC, ZLIB, Package("bash", "5", "", 9, "c" * 64)],
            ("bash: none is locked, 5 is offered",),
            id="one has come",
        ),
    ],
)
def test_what_is_not_as_locked(packages: list[Package], texts: tuple[str, ...]) -> None:
    assert differences(LOCKED, packages) == texts


def test_a_release_of_other_packages_is_refused_with_each_of_them(tmp_path: Path) -> None:
    write_lock(tmp_path / NAME, "debian-12 amd64", [LIBC, ZLIB])
    require_locked(tmp_path / NAME, "debian-12 amd64", [ZLIB, LIBC])
    with pytest.raises(ConfigError) as raised:
        require_locked(tmp_path / NAME, "debian-12 amd64", [Package("libc6", "2.37", "", 9, "a" * 64)])
    (problem,) = raised.value.problems
    assert problem.why == "libc6: 2.36-9 is locked, 2.37 is offered\nzlib1g: 1:1.2 is locked, none is taken"
    assert "--lock" in problem.remedy


def test_a_release_that_nobody_has_locked_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"libc6: none is locked, 2\.36-9 is offered"):
        require_locked(tmp_path / NAME, "debian-99 amd64", [LIBC])


def test_locking_one_release_keeps_the_others(tmp_path: Path) -> None:
    write_lock(tmp_path / NAME, "debian-12 amd64", [LIBC, ZLIB])
    write_lock(tmp_path / NAME, "debian-13 arm64", [ZLIB])
    write_lock(tmp_path / NAME, "debian-12 amd64", [LIBC])
    assert read_lock(tmp_path / NAME) == {
        "debian-12 amd64": {"libc6": LOCKED["libc6"]},
        "debian-13 arm64": {"zlib1g": LOCKED["zlib1g"]},
    }


@pytest.mark.parametrize("line", ["debian-12 amd64 libc6 2.36", f"debian-12 amd64 libc6 2.36 {'a' * 63}"])
def test_a_line_that_is_none_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / NAME).write_text(line)
    with pytest.raises(ConfigError, match="is not one of a lock"):
        read_lock(tmp_path / NAME)


def test_a_machine_is_named_by_release_and_architecture(tmp_path: Path) -> None:
    (tmp_path / "os-release").write_text('NAME="Debian"\nVERSION_ID="12"\nID=debian\n')
    assert re.fullmatch(r"debian-12 \S+", this_release(tmp_path / "os-release"))


def test_what_is_locked_is_what_the_recipe_takes() -> None:
    lock, wanted = read_lock(RECIPE / NAME), lines_of(RECIPE / "packages.txt")
    assert lock
    for packages in lock.values():
        assert [name for name in packages if not Patterns.of(wanted).match(name)] == []
        assert {"libc6", "ca-certificates", "base-files"} <= packages.keys()
