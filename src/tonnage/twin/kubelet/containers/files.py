"""Files of a pretended container, in memory: its own, and those of its volumes."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

LIMIT_BYTES: Final = 8 << 20
"""What a volume holds at most."""
NODE_BYTES: Final = 128 << 20
"""What the files and logs of all containers of a node hold at most, and four such nodes together."""
FLEET_BYTES: Final = 4 * NODE_BYTES
_ENTRY_BYTES: Final = 256
"""What a file takes beside its name and its content."""
_LONGEST_PATH: Final = 4095
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


class Space:
    """Memory that files and logs of pretended containers may take: of a node, and of all nodes `above`."""

    def __init__(self, limit: int, above: Space | None = None) -> None:
        self._free = limit
        self._above = above

    def take(self, count: int) -> bool:
        """Whether there is so much; a negative count gives it back."""
        if count > self._free or (self._above is not None and not self._above.take(count)):
            return False
        self._free -= count
        return True


class FileVolume(Protocol):
    """A tree of files: contents by relative path; a folder that was made ends in a slash."""

    @property
    def read_only(self) -> bool: ...

    async def entries(self) -> dict[str, bytes]:
        """All of it, as it is now."""
        ...


class MemoryVolume:
    """A volume that containers write to."""

    def __init__(
        self, held: Mapping[str, bytes] | None = None, *, read_only: bool = False, space: Space | None = None
    ) -> None:
        self.held: dict[str, bytes] = {}
        self.read_only = read_only
        self._space = space
        self._used = 0
        for name, content in (held or {}).items():
            self.put(name, content)

    async def entries(self) -> dict[str, bytes]:
        return self.held

    def put(self, name: str, content: bytes) -> None:
        """Have this in it. Raises FileError: there is no room."""
        more = _cost(name, content) - (_cost(name, self.held[name]) if name in self.held else 0)
        if more > 0 and self._used + more > LIMIT_BYTES:
            raise FileError("No space left on device")
        if self._space is not None and not self._space.take(more):
            raise FileError("No space left on device")
        self._used += more
        self.held[name] = content

    def drop(self, name: str) -> None:
        """No longer have this in it."""
        freed = _cost(name, self.held.pop(name))
        self._used -= freed
        if self._space is not None:
            self._space.take(-freed)

    def clear(self) -> None:
        """Have nothing in it."""
        for name in list(self.held):
            self.drop(name)


def _cost(name: str, content: bytes) -> int:
    return len(name) + len(content) + _ENTRY_BYTES


@dataclass(frozen=True, slots=True)
class MountedVolume:
    """A volume in a container, or what is under `sub_path` of it."""

    volume: FileVolume
    sub_path: str = ""
    read_only: bool = False


class FileTree:
    """What programs of one container read and write. Paths are absolute, or from the root."""

    def __init__(self, mounts: Mapping[str, MountedVolume] | None = None) -> None:
        self._own = MemoryVolume({f"{name}/": b"" for name in _FOLDERS})
        self._moved: Callable[[int], None] = lambda _: None
        by_path = {_clean(path): mount for path, mount in (mounts or {}).items()}
        self._mounts = dict(sorted(by_path.items(), key=lambda entry: -len(entry[0])))

    def start(self, space: Space, moved: Callable[[int], None]) -> None:
        """The container starts: its own files take room, and `moved` is told how many bytes it moves.

        Raises FileError: there is no room.
        """
        self._own = MemoryVolume(self._own.held, space=space)
        self._moved = moved

    def own(self, path: str) -> bytes:
        """A file of the container itself; empty where there is none."""
        return self._own.held.get(_clean(path), b"")

    async def read(self, path: str) -> bytes | None:
        """The file's content; None where there is no such file."""
        mount, inner = self._at(path)
        content = (await mount.volume.entries()).get(inner)
        self._moved(len(content or b""))
        return content

    async def names(self, path: str) -> list[str] | None:
        """What is in a folder, sorted; None where there is no such folder."""
        mount, inner = self._at(path)
        before = f"{inner}/" if inner else ""
        entries = await mount.volume.entries()
        self._moved(32 * len(entries) + sum(map(len, entries)))
        inside = [key[len(before) :] for key in entries if key.startswith(before)]
        here = f"{_clean(path)}/".lstrip("/")
        inside += [point[len(here) :] for point in self._mounts if point.startswith(here)]
        if inner in entries or (inner and not inside and _clean(path) not in self._mounts):
            return None
        return sorted({name.split("/")[0] for name in inside if name})

    async def write(self, path: str, added: bytes, *, append: bool = False) -> None:
        """Write a file whose folder is there. Raises FileError."""
        volume, inner = self._writable(path)
        if await self.names(path) is not None:
            raise FileError("Is a directory")
        if await self.names(posixpath.dirname(f"/{_clean(path)}")) is None:
            raise FileError("No such file or directory")
        content = volume.held.get(inner, b"") + added if append else added
        self._moved(len(content))
        volume.put(inner, content)

    async def make_folder(self, path: str) -> None:
        """Make a folder and those above it. Raises FileError."""
        volume, inner = self._writable(path)
        above = inner
        while above and above not in volume.held:
            above = posixpath.dirname(above)
        if above:
            raise FileError("File exists" if above == inner else "Not a directory")
        if f"{inner}/" not in volume.held:
            volume.put(f"{inner}/", b"")

    async def remove(self, path: str) -> bool:
        """Take a file or a whole folder away; False where there is none. Raises FileError."""
        volume, inner = self._writable(path)
        gone = [key for key in volume.held if key == inner or key.startswith(f"{inner}/")]
        for key in gone:
            volume.drop(key)
        return bool(gone)

    def clear(self) -> None:
        """The container is forgotten, and its own files are; those of volumes are not."""
        self._own.clear()

    def _writable(self, path: str) -> tuple[MemoryVolume, str]:
        mount, inner = self._at(path)
        if len(inner) > _LONGEST_PATH:
            raise FileError("File name too long")
        if mount.read_only or mount.volume.read_only or not isinstance(mount.volume, MemoryVolume):
            raise FileError("Read-only file system")
        return mount.volume, inner

    def _at(self, path: str) -> tuple[MountedVolume, str]:
        clean = _clean(path)
        for point, mount in self._mounts.items():
            if clean == point or clean.startswith(f"{point}/"):
                return mount, _clean(posixpath.join(mount.sub_path, clean[len(point) + 1 :]))
        return MountedVolume(self._own), clean


def _clean(path: str) -> str:
    """A path from the root, without its slash and without steps back.

    >>> _clean("/var//run/../log/"), _clean(".")
    ('var/log', '')
    """
    return posixpath.normpath(f"/{path}").strip("/")
