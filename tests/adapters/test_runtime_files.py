"""Files of a runtime's configuration: read as they are, written only if they still are so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tonnage.adapters.runtime_files import RuntimeConfigFiles
from tonnage.model.errors import HardwareError
from tonnage.model.node.runtime_change import ConfigFile, FileEdit

MAIN = "/etc/containerd/config.toml"


@pytest.fixture
def main(tmp_path: Path) -> Path:
    file = tmp_path / MAIN.lstrip("/")
    file.parent.mkdir(parents=True)
    file.write_text("version = 2\n")
    return file


@pytest.mark.parametrize("before", [None, "version = 1\n"], ids=["was not there", "said something else"])
@pytest.mark.parametrize("after", [None, "version = 3\n"], ids=["to go", "to change"])
def test_a_file_that_somebody_changed_meanwhile_stays(
    tmp_path: Path, main: Path, before: str | None, after: str | None
) -> None:
    with pytest.raises(HardwareError, match="another program changed it meanwhile"):
        RuntimeConfigFiles(tmp_path).apply([FileEdit(MAIN, before, after)])
    assert main.read_text() == "version = 2\n"


def test_imports_come_after_the_main_file_in_the_order_of_their_names(tmp_path: Path, main: Path) -> None:
    main.write_text('imports = ["conf.d/*.toml"]\n')
    for name in ("9.toml", "10.toml", "a.conf"):
        place = main.parent / "conf.d" / name
        place.parent.mkdir(exist_ok=True)
        place.write_text("")
    found = RuntimeConfigFiles(tmp_path).read([MAIN, "/somewhere/else"], imports=True)
    assert [file.path for file in found[1:]] == [f"/etc/containerd/conf.d/{name}.toml" for name in (10, 9)]


def test_a_file_that_is_imported_twice_or_by_itself_is_read_once(tmp_path: Path, main: Path) -> None:
    """As containerd does, which knows what it has read."""
    main.write_text('imports = ["/etc/containerd/*.toml", "a.toml", "../containerd/a.toml", "config.toml"]\n')
    (main.parent / "a.toml").write_text("")
    found = RuntimeConfigFiles(tmp_path).read([MAIN], imports=True)
    assert [file.path for file in found] == [MAIN, "/etc/containerd/a.toml"]


def test_what_is_no_text_and_what_leads_elsewhere_is_told(tmp_path: Path, main: Path) -> None:
    main.write_bytes(b"a = 1\xff")
    (main.parent / "b.toml").symlink_to("config.toml")
    (main.parent / "c.toml").symlink_to("/gone")
    files = RuntimeConfigFiles(tmp_path)
    assert files.read([MAIN], imports=False) == (ConfigFile(MAIN, trouble="byte 6 is not UTF-8"),)
    main.write_text("")
    assert files.read(["/etc/containerd/b.toml"], imports=False)[0].link == "config.toml"
    assert files.read(["/etc/containerd/c.toml"], imports=False)[0].trouble == "its links are broken"
    assert files.read(["/etc/containerd/d.toml"], imports=False)[0].trouble == ""
