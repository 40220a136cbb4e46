"""Files of a pretended container, in memory: its own, and those of its volumes."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

LIMIT_BYTES: Final = 8 << 20
"""What a volume holds at most."""
_FOLDERS: Final = (
    "dev",
    "etc",
    "home",
    "mnt",
    "opt",
    "root",
    "run",
    "srv",
    "tmp",
    "usr",
    "var",
    "var/log",
    "var/run",
)


def volume_in(pod_uid: str, volume: str = "") -> str:
    """The name of a volume that a pod's containers share; with none, how the names of all of them begin."""
    return f"pod/{pod_uid}/{volume}"


class FileError(Exception):
    """A file cannot be written or removed; the text is the operating system's."""


class Volume(Protocol):
    """A tree of files: contents by relative path; a folder that was made ends in a slash."""

    @property
    def read_only(self) -> bool: ...

    async def entries(self) -> dict[str, bytes]:
        """All of it, as it is now; what may be written is changed in place."""
        ...


@dataclass(slots=True)
class MemoryVolume:
    """A volume that containers write to."""

    held: dict[str, bytes] = field(default_factory=dict)
    read_only: bool = False

    async def entries(self) -> dict[str, bytes]:
        return self.held


@dataclass(frozen=True, slots=True)
class Mount:
    """A volume in a container, or what is under `sub_path` of it."""

    volume: Volume
    sub_path: str = ""
    read_only: bool = False


class FileTree:
    """What programs of one container read and write. Paths are absolute, or from the root."""

    def __init__(self, mounts: Mapping[str, Mount] | None = None) -> None:
        self._own = MemoryVolume({f"{name}/": b"" for name in _FOLDERS})
        found = {_clean(path): mount for path, mount in (mounts or {}).items()}
        self._mounts = dict(sorted(found.items(), key=lambda one: -len(one[0])))

    def own(self, path: str) -> bytes:
        """A file of the container itself; empty where there is none."""
        return self._own.held.get(_clean(path), b"")

    async def read(self, path: str) -> bytes | None:
        """The file's content; None where there is no such file."""
        mount, inner = self._at(path)
        return (await mount.volume.entries()).get(inner)

    async def names(self, path: str) -> list[str] | None:
        """What is in a folder, sorted; None where there is no such folder."""
        mount, inner = self._at(path)
        before = f"{inner}/" if inner else ""
        entries = await mount.volume.entries()
        inside = [key[len(before) :] for key in entries if key.startswith(before)]
        here = f"{_clean(path)}/".lstrip("/")
        inside += [point[len(here) :] for point in self._mounts if point.startswith(here)]
        if inner in entries or (inner and not inside and _clean(path) not in self._mounts):
            return None
        return sorted({name.split("/")[0] for name in inside if name})

    async def write(self, path: str, data: bytes, *, append: bool = False) -> None:
        """Write a file whose folder is there. Raises FileError."""
        entries, inner = await self._writable(path)
        if await self.names(path) is not None:
            raise FileError("Is a directory")
        if await self.names(posixpath.dirname(f"/{_clean(path)}")) is None:
            raise FileError("No such file or directory")
        content = entries.get(inner, b"") + data if append else data
        if sum(map(len, entries.values())) + len(content) > LIMIT_BYTES:
            raise FileError("No space left on device")
        entries[inner] = content

    async def make_folder(self, path: str) -> None:
        """Make a folder and those above it. Raises FileError."""
        entries, inner = await self._writable(path)
        above = inner
        while above and above not in entries:
            above = posixpath.dirname(above)
        if above:
            raise FileError("File exists" if above == inner else "Not a directory")
        entries.setdefault(f"{inner}/", b"")

    async def remove(self, path: str) -> bool:
        """Take a file or a whole folder away; False where there is none. Raises FileError."""
        entries, inner = await self._writable(path)
        gone = [key for key in entries if key == inner or key.startswith(f"{inner}/")]
        for key in gone:
            del entries[key]
        return bool(gone)

    async def _writable(self, path: str) -> tuple[dict[str, bytes], str]:
        mount, inner = self._at(path)
        if mount.read_only or mount.volume.read_only:
            raise FileError("Read-only file system")
        return await mount.volume.entries(), inner

    def _at(self, path: str) -> tuple[Mount, str]:
        clean = _clean(path)
        for point, mount in self._mounts.items():
            if clean == point or clean.startswith(f"{point}/"):
                return mount, _clean(posixpath.join(mount.sub_path, clean[len(point) + 1 :]))
        return Mount(self._own), clean


def _clean(path: str) -> str:
    """A path from the root, without its slash and without steps back.

    >>> _clean("/var//run/../log/"), _clean(".")
    ('var/log', '')
    """
    return posixpath.normpath(f"/{path}").strip("/")
