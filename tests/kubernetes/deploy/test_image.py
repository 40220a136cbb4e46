"""The image of this checkout, built for real. Every build imports all of Tonnage inside it."""

from __future__ import annotations

import io
import os
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from scripts.image.build import IMAGE, REPOSITORY, Built, Wish, build_image
from scripts.image.wheels import SOURCES
from scripts.licences import Licences, lying_in_the_image
from support.images import agent_archive
from support.oci_reader import Image, read_image
from support.own_network import is_own_network
from tonnage.cli.locations.folders import cache_folder
from tonnage.model.errors import ConfigError

pytestmark = pytest.mark.kubernetes

SIZE_LIMIT: Final = 40_000_000
"""Compressed. It is 37 MB: Python and its libraries 14, gRPC 7, cryptography 5, pydantic 3. Whoever takes it
over this should think first: every node fetches it."""
UPGRADE_LIMIT: Final = 6_000_000
"""What a node fetches for the next version of Tonnage with the same dependencies: 5.0 MB."""
VERSION: Final = "0.0.1"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy that nobody edits meanwhile, and that is no git checkout."""
    copy = tmp_path_factory.mktemp("repository")
    for name in (*SOURCES, "uv.lock", "deploy/image"):
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, copy / name)
    return copy


def build(repository: Path, output: Path, *, anew: bool = False) -> Built:
    cache = cache_folder(os.environ) / "images"
    wish = Wish(output, cache, repository, version=VERSION, anew=anew, offline=is_own_network())
    return build_image(wish, print, {"SOURCE_DATE_EPOCH": "86400"})


@pytest.fixture(scope="module")
def built(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Built, Image, Path]:
    """Layers of earlier builds are used where they are the same."""
    archive = tmp_path_factory.mktemp("out") / "image.tar"
    built = build(repository, archive)
    return built, read_image(archive), archive


def entries(image: Image) -> Iterator[tarfile.TarInfo]:
    """Of all layers."""
    for layer in image.layers:
        with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
            yield from tar


def test_it_starts_the_agent_as_a_user_without_rights(built: tuple[Built, Image, Path]) -> None:
    _, image, _ = built
    assert image.names == {f"{IMAGE}:{VERSION}"}
    config = image.config["config"]
    assert (config["User"], config["Entrypoint"], config["Cmd"]) == ("65532:65532", ["tonnage"], ["node"])
    assert config["Labels"]["org.opencontainers.image.version"] == VERSION
    assert image.config["created"] == "1970-01-02T00:00:00Z"


def test_it_is_small(built: tuple[Built, Image, Path]) -> None:
    _, _, archive = built
    assert archive.stat().st_size < SIZE_LIMIT


def test_a_build_from_nothing_gives_the_same_bytes(
    repository: Path, built: tuple[Built, Image, Path], tmp_path: Path
) -> None:
    first, _, archive = built
    before = os.umask(0o077)
    try:
        second = build(repository, tmp_path / "image.tar", anew=True)
    finally:
        os.umask(before)
    assert second == first
    assert (tmp_path / "image.tar").read_bytes() == archive.read_bytes()


def test_an_upgrade_moves_the_last_layer_alone(tmp_path: Path) -> None:
    versions = ("0.2.0", "0.2.1")
    old, new = (
        read_image(tmp_path / f"agent-{version}.tar")
        for version in versions
        if agent_archive(tmp_path, version=version) == f"{IMAGE}:{version}"
    )
    assert new.layer_digests[:-1] == old.layer_digests[:-1]
    assert new.layer_digests[-1] != old.layer_digests[-1]
    assert new.layer_sizes[-1] < UPGRADE_LIMIT


def test_nothing_in_it_can_be_changed_but_by_root_nor_makes_root(built: tuple[Built, Image, Path]) -> None:
    _, image, _ = built
    for entry in entries(image):
        assert (entry.uid, entry.gid) == (0, 0), entry.name
        if entry.issym() or entry.name == "tmp":
            continue
        assert entry.mode & ~0o755 == 0, entry.name
        assert entry.isreg() or entry.isdir(), entry.name


def test_python_is_the_only_program_beside_what_follows_logs(built: tuple[Built, Image, Path]) -> None:
    _, image, _ = built
    programs = {e.name for e in entries(image) if re.match(r"(usr/)?(local/)?s?bin/", e.name)}
    assert programs == {
        "usr/bin/python3",
        "usr/bin/tail",
        *(name for name in programs if re.fullmatch(r"usr/bin/python3\.\d+", name)),
    } | {name for name in programs if name.startswith("usr/local/bin/")}
    assert {name for name in programs if name.startswith("usr/local/bin/")} == {
        "usr/local/bin/tonnage",
        "usr/local/bin/kubectl-gpu",
    }


def test_all_python_is_compiled_for_good(built: tuple[Built, Image, Path]) -> None:
    """Unchecked hashes (PEP 552: flags 0b01): no look at times, no compilation at each start."""
    _, image, _ = built
    sources, compiled = set(), set()
    for layer in image.layers:
        with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
            for entry in tar:
                if entry.name.endswith(".pyc"):
                    file = tar.extractfile(entry)
                    assert file is not None
                    assert int.from_bytes(file.read(8)[4:], "little") == 0b01, entry.name
                    compiled.add(re.sub(r"__pycache__/(.*)\.cpython-\d+\.pyc$", r"\1.py", entry.name))
                elif entry.name.endswith(".py"):
                    sources.add(entry.name)
    assert sources == compiled


def test_scanners_find_what_it_is_made_of(built: tuple[Built, Image, Path]) -> None:
    _, image, _ = built
    names = {entry.name for entry in entries(image)}
    packages = {name.rpartition("/")[2] for name in names if name.startswith("var/lib/dpkg/status.d/")}
    assert {"libc6", "libssl3"} <= {name.removesuffix("t64") for name in packages}
    wheels = {match[1] for name in names if (match := re.search(r"([^/]+)-[^/]+\.dist-info/METADATA$", name))}
    assert {"tonnage", "grpcio", "protobuf", "cryptography", "httpx2"} <= wheels
    assert not {"rich", "pycparser", "pip"} & wheels


def test_all_that_it_holds_may_be_shipped(built: tuple[Built, Image, Path]) -> None:
    """By the licences of what lies in it; Debian's copyright files may be newer than those that were read."""
    _, _, archive = built
    rows = list(lying_in_the_image(Licences.read(), archive, read=False))
    assert {"libc6", "grpcio"} <= {row.name for row in rows}
    assert [f"{row.name}: {row.refusal}" for row in rows if row.refusal] == []


def test_an_image_that_lacks_what_a_function_imports_is_refused(repository: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(repository, broken, symlinks=True)
    with (broken / "src/tonnage/cli/version.py").open("a") as file:
        file.write("\n\ndef draw() -> None:\n    import rich.table\n")
    with pytest.raises(ConfigError, match=r"(?s)the imports failed inside it.*No module named 'rich'"):
        build(broken, tmp_path / "image.tar")
    assert not (tmp_path / "image.tar").exists()
