"""Who but root may put something at a path of the host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tonnage.adapters.host_paths import HostPaths, open_to_others

PROGRAM = "/usr/local/toolkit/nvidia-ctk"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host with a program, and a folder in which everybody writes."""
    made = tmp_path / "host"
    for name in ("usr/local/toolkit", "var/volume"):
        (made / name).mkdir(parents=True)
    for folder in (made, *(each for each in made.rglob("*") if each.is_dir())):
        folder.chmod(0o755)
    for name in (PROGRAM, "/var/volume/nvidia-ctk"):
        (made / name[1:]).write_text("#!")
        (made / name[1:]).chmod(0o755)
    (made / "var/volume").chmod(0o777)
    return made


def test_a_program_in_roots_folders_is_roots_alone(host: Path) -> None:
    assert open_to_others(host, PROGRAM) == ""
    assert open_to_others(host, "/usr/local/toolkit/not-there") == "", "only root can make it"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/usr", "/usr is writable by others than root (mode 0757)"),
        ("/usr/local/toolkit", "/usr/local/toolkit is writable by others than root (mode 0757)"),
        (PROGRAM, f"{PROGRAM} is writable by others than root (mode 0757)"),
    ],
    ids=["the first folder", "the last folder", "the program"],
)
def test_what_others_may_write_is_told_by_the_first_on_the_way(host: Path, path: str, said: str) -> None:
    (host / path[1:]).chmod(0o757)
    assert open_to_others(host, PROGRAM) == said


def test_a_folder_of_a_group_is_its_members_too(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (host / "usr/local").chmod(0o775)
    monkeypatch.setattr(os, "getegid", lambda: -1)
    assert open_to_others(host, PROGRAM) == "/usr/local is writable by others than root (mode 0775)"


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("usr/linked", "/var/volume"),
        ("usr/linked", "../var/volume"),
        ("usr/linked", "/usr/again/../../var/volume"),
    ],
    ids=["absolute", "relative", "with a detour"],
)
def test_a_link_counts_for_where_it_leads(host: Path, link: str, target: str) -> None:
    (host / "usr/again").mkdir()
    (host / "usr/again").chmod(0o755)
    (host / link).symlink_to(target)
    assert "/var/volume is writable by others" in open_to_others(host, "/usr/linked/nvidia-ctk")


def test_links_end_below_the_hosts_root(host: Path) -> None:
    """As the host sees them, and not this process: its own /usr is none of the host's."""
    (host / "usr/linked").symlink_to("../../../../usr/local/toolkit")
    assert open_to_others(host, "/usr/linked/nvidia-ctk") == ""


def test_links_in_a_circle_are_refused(host: Path) -> None:
    (host / "usr/a").symlink_to("b")
    (host / "usr/b").symlink_to("a")
    assert "is part of a loop of links" in open_to_others(host, "/usr/a/nvidia-ctk")


def test_what_belongs_to_another_user_is_that_users(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid():
        pytest.skip("needs the right to give files away")
    os.lchown(host / "usr/local", 1000, -1)
    assert open_to_others(host, PROGRAM) == "/usr/local belongs to user 1000"
    os.lchown(host / "usr/local", 0, -1)
    (host / "usr/linked").symlink_to("local/toolkit")
    os.lchown(host / "usr/linked", 1000, -1)
    assert open_to_others(host, "/usr/linked/nvidia-ctk") == "/usr/linked belongs to user 1000"


@pytest.mark.parametrize(
    ("driver_root", "mounted", "seen"),
    [("/", True, True), ("/run/nvidia/driver", True, False), ("/run/nvidia/driver", False, True)],
    ids=["the host is mounted", "the driver's container is mounted", "on the host itself"],
)
def test_the_host_is_seen_where_the_drivers_root_is_its_own(
    host: Path, driver_root: str, mounted: bool, seen: bool
) -> None:
    paths = HostPaths(host, host if mounted else None)
    assert paths.open_to_others(PROGRAM, driver_root) == ("" if seen else None)
