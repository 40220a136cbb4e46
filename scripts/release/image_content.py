"""What lies in an image's archive, by what its own files say: Debian's control files, wheels' metadata."""

from __future__ import annotations

import json
import posixpath
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from typing import Final

_CONTROL: Final = re.compile(r"var/lib/dpkg/status\.d/(?P<name>[^/]+)")
_COPYRIGHT: Final = re.compile(r"usr/share/doc/(?P<name>[^/]+)/copyright")
_METADATA: Final = re.compile(r"(?P<folder>usr/local/lib/.+)/[^/]+\.dist-info/METADATA")
_RELEASE: Final = "usr/lib/os-release"
_LIBRARIES: Final = re.compile(r"/(?P<name>[^/]+)\.libs/")


@dataclass(frozen=True, slots=True, order=True)
class DebianPart:
    """A package of Debian; `copyright_text` is empty when the image has none of it."""

    name: str
    version: str
    architecture: str
    copyright_text: bytes


@dataclass(frozen=True, slots=True)
class PythonPart:
    """An installed wheel; `bundles`: it carries shared libraries of others."""

    metadata: Message
    bundles: bool


@dataclass(frozen=True, slots=True)
class ImageContent:
    """`digest` is the manifest's, `release` such as `debian-12`."""

    name: str
    digest: str
    release: str
    debian: tuple[DebianPart, ...]
    python: tuple[PythonPart, ...]


def read_content(archive: Path) -> ImageContent:
    """Look through all layers of the only image of an OCI archive."""
    with tarfile.open(archive) as outer:
        (descriptor,) = json.loads(_read(outer, "index.json"))["manifests"]
        manifest = json.loads(_read(outer, _blob(descriptor["digest"])))
        found: dict[str, bytes] = {}
        links: dict[str, str] = {}
        paths: set[str] = set()
        for layer in manifest["layers"]:
            blob = outer.extractfile(_blob(layer["digest"]))
            with tarfile.open(fileobj=blob, mode="r:gz") as tar:
                _look_through(tar, found, links, paths)
    return ImageContent(
        descriptor["annotations"]["org.opencontainers.image.ref.name"],
        descriptor["digest"],
        _release(found.get(_RELEASE, b"")),
        tuple(sorted(_debian(found, links))),
        tuple(_python(found, paths)),
    )


def _look_through(
    tar: tarfile.TarFile, found: dict[str, bytes], links: dict[str, str], paths: set[str]
) -> None:
    wanted = (_CONTROL, _COPYRIGHT, _METADATA)
    for member in tar:
        paths.add(member.name)
        if member.issym():
            links[member.name] = posixpath.join(posixpath.dirname(member.name), member.linkname)
        elif member.name == _RELEASE or any(pattern.fullmatch(member.name) for pattern in wanted):
            file = tar.extractfile(member)
            found[member.name] = file.read() if file else b""


def _debian(found: dict[str, bytes], links: dict[str, str]) -> Iterator[DebianPart]:
    for path, content in found.items():
        if _CONTROL.fullmatch(path):
            control = BytesParser().parsebytes(content)
            folder = f"usr/share/doc/{control['Package']}"
            text = found.get(f"{links.get(folder, folder)}/copyright", b"")
            yield DebianPart(control["Package"], control["Version"], control["Architecture"], text)


def _python(found: dict[str, bytes], paths: set[str]) -> Iterator[PythonPart]:
    carriers = {match["name"] for path in paths if (match := _LIBRARIES.search(path))}
    for path in sorted(found):
        if _METADATA.fullmatch(path):
            metadata = BytesParser().parsebytes(found[path])
            yield PythonPart(metadata, str(metadata["Name"]).replace("-", "_") in carriers)


def _release(text: bytes) -> str:
    said = dict(line.split("=", 1) for line in text.decode().splitlines() if "=" in line)
    return f"{said.get('ID', '?')}-{said.get('VERSION_ID', '?')}".replace('"', "")


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _read(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    assert file is not None, f"{name} is no file"
    return file.read()
