"""Container images as OCI archives, written with the standard library alone.

A layer is packed from a folder whose paths are the image's. The same folder gives the same bytes: names are
sorted, everything belongs to root, times are one constant, nothing but modes and contents is taken along.
Source: OCI image specification 1.1 (image-layout.md, manifest.md, config.md, layer.md).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import platform
import stat
import tarfile
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

LAYER_TIME: Final = 315_532_800
"""1980-01-01: every entry's time. A commit's time would make new bytes out of layers that did not change."""
MANIFEST_TYPE: Final = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE: Final = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
INDEX_TYPE: Final = "application/vnd.oci.image.index.v1+json"
ARCHITECTURES: Final[Mapping[str, str]] = {"x86_64": "amd64", "aarch64": "arm64"}
_BLOCK: Final = 1 << 20


class DamagedLayerError(Exception):
    """A layer's file no longer holds what was packed into it."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A packed layer: `digest` is of the compressed file at `path`, `diff_id` of the tar in it."""

    path: Path
    digest: str
    diff_id: str
    size: int
    made_by: str


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """What a container of the image starts with. `created` is in seconds since 1970."""

    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    user: str = ""
    working_folder: str = "/"
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    created: int = LAYER_TIME


def pack_layer(tree: Path, target: Path, *, made_by: str, already: Collection[str] = frozenset()) -> Layer:
    """Pack everything below `tree` but the paths in `already` into the compressed layer `target`.

    Files are 0644, or 0755 when their owner may run them; folders are 0755, but /tmp, which is sticky.

    Raises:
        ValueError: the tree holds something else than folders, files and symbolic links.
    """
    with target.open("wb") as file:
        compressed = _Hashed(file)
        with gzip.GzipFile(filename="", mode="wb", fileobj=compressed, compresslevel=9, mtime=0) as packer:
            plain = _Hashed(packer)
            with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
                for path in sorted(tree.rglob("*")):
                    if (name := str(path.relative_to(tree))) not in already:
                        _add(tar, path, name)
    return Layer(target, compressed.digest, plain.digest, compressed.size, made_by)


def write_archive(path: Path, *, name: str, layers: Sequence[Layer], config: ImageConfig) -> str:
    """Write the image to `path`, whole or not at all; the manifest's digest.

    `name` is a full reference with its registry (registry.example.com/agent:1.0): kubelet asks for that form.

    Raises:
        DamagedLayerError: a layer's file does not have its digest.
    """
    architecture = ARCHITECTURES.get(platform.machine(), platform.machine())
    configuration = _json(_configuration(config, layers, architecture))
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": _descriptor(CONFIG_TYPE, configuration),
            "layers": [
                {"mediaType": LAYER_TYPE, "digest": layer.digest, "size": layer.size} for layer in layers
            ],
        }
    )
    descriptor = _descriptor(MANIFEST_TYPE, manifest) | {
        "platform": {"architecture": architecture, "os": "linux"},
        "annotations": {
            "io.containerd.image.name": name,
            "org.opencontainers.image.ref.name": name,
        },
    }
    texts = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [descriptor]}),
        # For `docker load` without containerd's image store, and for kind and minikube, which look here.
        "manifest.json": _json(
            [
                {
                    "Config": _blob(_digest(configuration)),
                    "RepoTags": [name],
                    "Layers": [_blob(layer.digest) for layer in layers],
                }
            ]
        ),
        _blob(_digest(configuration)): configuration,
        _blob(_digest(manifest)): manifest,
    }
    with _replacing(path) as file, tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member, text in texts.items():
            tar.addfile(_entry(member, len(text)), io.BytesIO(text))
        for layer in {layer.digest: layer for layer in layers}.values():
            _add_blob(tar, layer)
    return _digest(manifest)


def _configuration(config: ImageConfig, layers: Sequence[Layer], architecture: str) -> dict[str, object]:
    created = datetime.fromtimestamp(config.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    runtime: dict[str, object] = {
        "Env": [f"{name}={value}" for name, value in config.environment.items()],
        "Entrypoint": list(config.entrypoint),
        "Cmd": list(config.command),
        "User": config.user,
        "WorkingDir": config.working_folder,
        "Labels": dict(sorted(config.labels.items())),
    }
    return {
        "created": created,
        "architecture": architecture,
        "os": "linux",
        "config": {key: value for key, value in runtime.items() if value},
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        "history": [{"created": created, "created_by": layer.made_by} for layer in layers],
    }


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    found = path.lstat()
    entry = _entry(name, 0)
    if stat.S_ISLNK(found.st_mode):
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
        tar.addfile(entry)
    elif stat.S_ISDIR(found.st_mode):
        entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
        tar.addfile(entry)
    elif stat.S_ISREG(found.st_mode):
        entry.size, entry.mode = found.st_size, 0o755 if found.st_mode & 0o100 else 0o644
        with path.open("rb") as content:
            tar.addfile(entry, content)
    else:
        raise ValueError(f"{path}: no folder, file or symbolic link")


def _add_blob(tar: tarfile.TarFile, layer: Layer) -> None:
    """Copy a layer in, and hold it against its digest on the way."""
    with layer.path.open("rb") as file:
        checked = _Hashed(file)
        size = os.fstat(file.fileno()).st_size
        tar.addfile(_entry(_blob(layer.digest), size), checked)
    if (checked.digest, checked.size) != (layer.digest, layer.size):
        raise DamagedLayerError(f"{layer.path}: is {checked.digest}, was packed as {layer.digest}")


def _entry(name: str, size: int) -> tarfile.TarInfo:
    """Of root, at the one time, readable to all: what every entry has in common."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = size, LAYER_TIME, 0o644
    return entry


def _descriptor(media_type: str, content: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` when all of it is on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, fresh = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fchmod(handle, 0o644)
            os.fsync(handle)
        Path(fresh).replace(path)
    finally:
        Path(fresh).unlink(missing_ok=True)


class _Hashed(io.RawIOBase):
    """A file, with the digest and size of what went through it."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.size = 0

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._hash.update(data)
        self.size += len(data)
        return self._file.write(data)

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._hash.update(data)
        self.size += len(data)
        return data

    def tell(self) -> int:
        return self.size
