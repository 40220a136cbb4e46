"""The writer of OCI archives, held against a reading that shares no code with it."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.image.archive import (
    LAYER_TIME,
    DamagedLayerError,
    ImageConfig,
    Layer,
    pack_layer,
    write_archive,
)
from support.oci_reader import read_image

NAME = "registry.example/platform/agent:1.0"


def make_tree(folder: Path) -> Path:
    """Some of everything that a layer may hold."""
    tree = folder / "tree"
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "tmp").mkdir()
    (tree / "usr/bin/program").write_bytes(b"\x7fELF")
    (tree / "usr/bin/program").chmod(0o4775)
    (tree / "usr/bin/alias").symlink_to("program")
    (tree / "usr/notes").write_text("text\n")
    (tree / "usr/notes").chmod(0o666)
    return tree


def test_an_archive_reads_as_the_image_that_was_written(tmp_path: Path) -> None:
    tree = make_tree(tmp_path)
    layer = pack_layer(tree, tmp_path / "layer", made_by="a test")
    archive = tmp_path / "image.tar"
    config = ImageConfig(
        entrypoint=("tonnage",),
        command=("node",),
        user="65532:65532",
        environment={"PATH": "/bin"},
        labels={"b": "2", "a": "1"},
        created=86_400,
    )
    digest = write_archive(archive, name=NAME, layers=[layer], config=config)

    image = read_image(archive)
    written = image.config
    assert image.digest == digest
    assert image.names == {NAME}
    assert written["created"] == "1970-01-02T00:00:00Z"
    assert written["config"] == {
        "Env": ["PATH=/bin"],
        "Entrypoint": ["tonnage"],
        "Cmd": ["node"],
        "User": "65532:65532",
        "WorkingDir": "/",
        "Labels": {"a": "1", "b": "2"},
    }
    assert [step["created_by"] for step in written["history"]] == ["a test"]
    assert archive.stat().st_mode & 0o777 == 0o644


def test_a_layer_keeps_contents_and_links_and_gives_all_to_root(tmp_path: Path) -> None:
    layer = pack_layer(make_tree(tmp_path), tmp_path / "layer", made_by="")
    write_archive(tmp_path / "image.tar", name=NAME, layers=[layer], config=ImageConfig())
    (packed,) = read_image(tmp_path / "image.tar").layers

    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        members = list(tar)
        assert {m.name: (m.type, oct(m.mode), m.linkname) for m in members} == {
            "tmp": (tarfile.DIRTYPE, "0o1777", ""),
            "usr": (tarfile.DIRTYPE, "0o755", ""),
            "usr/bin": (tarfile.DIRTYPE, "0o755", ""),
            "usr/bin/alias": (tarfile.SYMTYPE, "0o777", "program"),
            "usr/bin/program": (tarfile.REGTYPE, "0o755", ""),
            "usr/notes": (tarfile.REGTYPE, "0o644", ""),
        }
        program = tar.extractfile("usr/bin/program")
        assert program is not None
        assert program.read() == b"\x7fELF"
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members} == {(0, 0, "", "", LAYER_TIME)}
    assert not any(m.pax_headers for m in members)


@settings(max_examples=20)
@given(
    order=st.permutations(["a", "b/c", "b/d", "é"]),
    mask=st.sampled_from([0, 0o22, 0o77]),
    time=st.integers(0, 2**31),
)
def test_a_tree_packs_to_the_same_bytes_however_it_was_made(
    tmp_path_factory: pytest.TempPathFactory, order: list[str], mask: int, time: int
) -> None:
    folder = tmp_path_factory.mktemp("made")
    before = os.umask(mask)
    try:
        for name in order:
            path = folder / "tree" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
            os.utime(path, (time, time))
    finally:
        os.umask(before)
    layer = pack_layer(folder / "tree", folder / "layer", made_by="")
    assert layer.diff_id == "sha256:100fbc6e5331c5aeaffc44148d6460cafef445d681b0891c223aeb746018bc9b"


def test_what_lower_layers_have_is_not_packed_again(tmp_path: Path) -> None:
    tree = make_tree(tmp_path)
    layer = pack_layer(tree, tmp_path / "layer", made_by="", already={"usr", "usr/bin", "usr/bin/program"})
    with tarfile.open(layer.path) as tar:
        assert tar.getnames() == ["tmp", "usr/bin/alias", "usr/notes"]


def test_a_socket_or_pipe_is_no_part_of_an_image(tmp_path: Path) -> None:
    tree = make_tree(tmp_path)
    os.mkfifo(tree / "pipe")
    with pytest.raises(ValueError, match="pipe: no folder, file or symbolic link"):
        pack_layer(tree, tmp_path / "layer", made_by="")


def damaged(layer: Layer) -> Layer:
    layer.path.write_bytes(layer.path.read_bytes()[:-1] + b"!")
    return layer


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(damaged, id="a byte changed"),
        pytest.param(lambda layer: replace(layer, size=layer.size + 1), id="another size was noted"),
        pytest.param(lambda layer: replace(layer, digest="sha256:0"), id="another digest was noted"),
    ],
)
def test_a_layer_that_is_not_what_was_packed_leaves_the_old_archive(
    tmp_path: Path, spoil: Callable[[Layer], Layer]
) -> None:
    layer = pack_layer(make_tree(tmp_path), tmp_path / "layer", made_by="")
    (out := tmp_path / "out").mkdir()
    (out / "image.tar").write_text("the old one")
    with pytest.raises(DamagedLayerError):
        write_archive(out / "image.tar", name=NAME, layers=[spoil(layer)], config=ImageConfig())
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [("image.tar", "the old one")]


def test_a_layer_used_twice_is_stored_once(tmp_path: Path) -> None:
    layer = pack_layer(make_tree(tmp_path), tmp_path / "layer", made_by="")
    write_archive(tmp_path / "image.tar", name=NAME, layers=[layer, layer], config=ImageConfig())
    image = read_image(tmp_path / "image.tar")
    assert len(image.layers) == 2
    assert image.config["rootfs"]["diff_ids"] == [layer.diff_id] * 2
    with tarfile.open(tmp_path / "image.tar") as tar:
        assert len(tar.getnames()) == len(set(tar.getnames()))
