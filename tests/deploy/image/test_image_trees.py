"""Trees of files: unpacked, cut, named by their contents; layers kept by what they were made from."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.image.archive import Layer, pack_layer
from scripts.image.store import Assembly, LayerStore
from scripts.image.trees import Patterns, fingerprint, lines_of, remove_matching, unpack_tar
from tonnage.model.errors import ConfigError


def entry(name: str, kind: bytes = tarfile.REGTYPE, *, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    """An entry without content."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    return info


def unpack(root: Path, *entries: tarfile.TarInfo, place: Callable[[str], str | None] = str) -> list[str]:
    """Unpack an archive of these; the files and links that are there then."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for info in entries:
            tar.addfile(info)
    packed.seek(0)
    with tarfile.open(fileobj=packed) as tar:
        unpack_tar(tar, root, place)
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_symlink() or not p.is_dir())


def test_files_links_and_empty_folders_are_unpacked_and_setuid_is_not(tmp_path: Path) -> None:
    found = unpack(
        tmp_path,
        entry("./proc", tarfile.DIRTYPE),
        entry("./bin/su", mode=0o4755),
        entry("./bin/same", tarfile.LNKTYPE, link="./bin/su"),
        entry("./bin/sh", tarfile.SYMTYPE, link="su"),
        entry("./dev/null", tarfile.CHRTYPE),
    )
    assert found == ["bin/same", "bin/sh", "bin/su"]
    assert (tmp_path / "proc").is_dir()
    assert oct((tmp_path / "bin/su").stat().st_mode & 0o7777) == "0o755"


def test_place_renames_and_leaves_out(tmp_path: Path) -> None:
    places = {"lib/libc.so.6": "usr/lib/libc.so.6"}
    assert unpack(tmp_path, entry("./lib/libc.so.6"), entry("./etc/motd"), place=places.get) == [
        "usr/lib/libc.so.6"
    ]


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([entry("../outside")], id="a path climbs"),
        pytest.param([entry("a/../../outside")], id="a path climbs in its middle"),
        pytest.param([entry("/outside")], id="a path is absolute"),
        pytest.param(
            [entry("door", tarfile.SYMTYPE, link=".."), entry("door/outside")],
            id="a path goes through a link",
        ),
        pytest.param([entry("a"), entry("b", tarfile.LNKTYPE, link="../outside")], id="a hard link climbs"),
    ],
)
def test_nothing_is_written_outside(tmp_path: Path, entries: list[tarfile.TarInfo]) -> None:
    (root := tmp_path / "root").mkdir()
    (tmp_path / "outside").write_text("mine")
    with pytest.raises(ConfigError, match="leads out of its root"):
        unpack(root, *entries)
    assert (tmp_path / "outside").read_text() == "mine"


def test_what_matches_goes_with_the_folders_it_leaves_empty(tmp_path: Path) -> None:
    for name in ("keep/module.py", "typed/only.pyi", "typed/sub/more.pyi", "link.pyi"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "folder.pyi").symlink_to("keep")
    remove_matching(tmp_path, tmp_path, Patterns.of(["*.pyi"]))
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")) == ["keep", "keep/module.py"]


def test_a_list_file_has_comments_and_blank_lines(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("# all\n\nlibc6   # the C library\n  zlib1g\n")
    assert lines_of(tmp_path / "list") == ("libc6", "zlib1g")


CHANGES: dict[str, Callable[[Path], object]] = {
    "another content": lambda tree: (tree / "a").write_text("2"),
    "another name": lambda tree: (tree / "a").rename(tree / "b"),
    "it may be run now": lambda tree: (tree / "a").chmod(0o755),
    "a link leads elsewhere": lambda tree: (tree / "l2").rename(tree / "l"),
    "one file more": lambda tree: (tree / "c").touch(),
    "a file took a link's place": lambda tree: (tree / "a").rename(tree / "l"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_differs_in_anything_has_another_fingerprint(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    (tree := tmp_path / "tree").mkdir()
    (tree / "a").write_text("1")
    (tree / "a").chmod(0o644)
    (tree / "l").symlink_to("a")
    (tree / "l2").symlink_to("b")
    before = fingerprint(tree, "text")
    os.utime(tree / "a", (1, 1))
    assert fingerprint(tree, "text") == before
    change(tree)
    assert fingerprint(tree, "text") != before
    assert fingerprint("te", "xt") != fingerprint("text")


def make(name: str, log: list[str]) -> Callable[[Path], None]:
    """A step that notes what it found and adds a file."""

    def step(root: Path) -> None:
        log.append(f"{name} on {sorted(p.name for p in root.iterdir())}")
        (root / name).write_text(name)

    return step


def assemble(folder: Path, log: list[str], *, upper_key: str = "k2", anew: bool = False) -> list[Layer]:
    """Two layers, as a build makes them."""
    number = len(list(folder.glob("root-*")))
    (root := folder / f"root-{number}").mkdir(parents=True)
    assembly = Assembly(LayerStore(folder / "store"), root, lambda _: None)
    assembly.add("lower", "k1", make("lower", log))
    assembly.add("upper", upper_key, make("upper", log), anew=anew)
    return assembly.layers


def test_layers_of_an_earlier_build_are_taken_as_they_are(tmp_path: Path) -> None:
    log: list[str] = []
    first = assemble(tmp_path, log)
    assert log == ["lower on []", "upper on ['lower']"]
    assert assemble(tmp_path, log) == first
    assert len(log) == 2


@pytest.mark.parametrize(
    ("key", "anew"), [pytest.param("k3", False, id="changed"), pytest.param("k2", True, id="made anew")]
)
def test_a_new_upper_layer_is_made_on_the_kept_lower_one(tmp_path: Path, key: str, anew: bool) -> None:
    log: list[str] = []
    first = assemble(tmp_path, log)
    second = assemble(tmp_path, log, upper_key=key, anew=anew)
    assert log[2:] == ["upper on ['lower']"]
    assert second[0] == first[0]
    assert second[1].digest == first[1].digest


def test_a_kept_layer_that_was_damaged_is_made_again(tmp_path: Path) -> None:
    log: list[str] = []
    lower, _ = assemble(tmp_path, log)
    lower.path.write_bytes(b"not what it was")
    again, _ = assemble(tmp_path, log)
    assert log[2:] == ["lower on []"]
    assert again.digest == lower.digest


def test_a_store_does_not_grow_for_ever(tmp_path: Path) -> None:
    store = LayerStore(tmp_path / "store")
    (tree := tmp_path / "tree").mkdir()
    for number in range(20):
        (tree / "number").write_text(str(number))
        store.keep(f"k{number}", pack_layer(tree, tmp_path / "layer", made_by=""))
        os.utime(tmp_path / "store" / f"k{number}.json", (number, number))
    kept = {path.name.partition(".")[0] for path in (tmp_path / "store").iterdir()}
    assert kept == {f"k{number}" for number in range(8, 20)}
    assert len(list((tmp_path / "store").iterdir())) == 24
