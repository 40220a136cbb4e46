"""Files of a node below a root that nobody vouches for: no link leads out of it, no file makes us wait.

A pipe is not waited for, a device is not opened, a file of a gigabyte is not read.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Final

from tonnage.adapters.vendors.driver_root import place_inside
from tonnage.model.node.facts import NodeFile, SocketFile

CONFIG_BYTES: Final = 256 << 10
_MOST_NAMES: Final = 20_000
_CONNECT_S: Final = 0.5
NOT_ROOT: Final = "permission denied: needs root"
_LEADS_NOWHERE: Final = "its links are broken"


@dataclass(frozen=True, slots=True)
class Content:
    """A file's bytes; None with a `trouble` if it cannot be read, without one if there is no file."""

    path: str
    content: bytes | None = None
    trouble: str = ""

    @property
    def text(self) -> str:
        """As UTF-8; what is none is replaced."""
        return (self.content or b"").decode("utf-8", "replace")


Numbers = Callable[[os.stat_result], tuple[int, int] | None]


def device_numbers(status: os.stat_result) -> tuple[int, int] | None:
    """(major, minor) of a character device."""
    return (os.major(status.st_rdev), os.minor(status.st_rdev)) if stat.S_ISCHR(status.st_mode) else None


class NodeFiles:
    """Reads below `root`, following links as a process would whose root folder it is."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def place(self, path: str) -> Path | None:
        """Where it lies; None if there is nothing."""
        place = place_inside(self.root, path)
        return place if place is not None and os.path.lexists(place) else None

    def there(self, path: str) -> bool:
        """Whether there is something at the end of all links."""
        return self.place(path) is not None

    def denied(self, path: str) -> bool:
        """Whether nobody but others may tell what is there."""
        place = place_inside(self.root, path)
        try:
            if place is not None:
                place.lstat()
        except OSError as error:
            return error.errno in (errno.EACCES, errno.EPERM)
        return False

    def read(self, path: str, most: int = CONFIG_BYTES) -> Content:
        """A regular file of at most so many bytes."""
        place = self.place(path)
        if place is None:
            dangling = os.path.lexists(self.root / path.lstrip("/"))
            nowhere = _LEADS_NOWHERE if dangling else ""
            return Content(path, trouble=NOT_ROOT if self.denied(path) else nowhere)
        try:
            handle = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError as error:
            return Content(path, trouble=refusal(error))
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return Content(path, trouble="it is not a regular file")
            content = _read_all(handle, most)
        except OSError as error:
            return Content(path, trouble=refusal(error))
        finally:
            os.close(handle)
        if content is None:
            return Content(path, trouble=f"it is larger than {most >> 10} KiB")
        return Content(path, content)

    def text(self, path: str, most: int = CONFIG_BYTES) -> str:
        """Its text without blanks around it; empty where it cannot be read."""
        return self.read(path, most).text.strip()

    def names(self, folder: str) -> list[str]:
        """Names in a folder, sorted; none where it cannot be read."""
        place = self.place(folder)
        if place is None:
            return []
        try:
            with os.scandir(place) as entries:
                return sorted(entry.name for entry in islice(entries, _MOST_NAMES))
        except OSError:
            return []

    def matching(self, pattern: str) -> Iterator[str]:
        """Paths whose last part fits the pattern; the others are taken as they are."""
        folder, _, name_pattern = pattern.rpartition("/")
        for name in self.names(folder):
            if fnmatchcase(name, name_pattern):
                yield f"{folder}/{name}"

    def link(self, path: str) -> str:
        """The last part of what a link says; empty where there is none."""
        folder, _, name = path.rpartition("/")
        place = place_inside(self.root, folder)
        with suppress(OSError):
            return (place / name).readlink().name if place is not None else ""
        return ""

    def node(self, path: str, numbers: Numbers = device_numbers) -> NodeFile | None:
        """What lies there, opened by nobody."""
        place = self.place(path)
        with suppress(OSError):
            return NodeFile(path, numbers(place.lstat())) if place is not None else None
        return NodeFile(path)

    def made(self, path: str) -> float:
        """When it was made or changed, in seconds; 0 if there is none."""
        place = self.place(path)
        with suppress(OSError):
            return place.lstat().st_mtime if place is not None else 0.0
        return 0.0

    def socket(self, path: str) -> SocketFile | None:
        """A socket and whether somebody listens; None if there is none."""
        place = self.place(path)
        if place is None:
            return SocketFile(path, NOT_ROOT) if self.denied(path) else None
        try:
            status = place.lstat()
        except OSError as error:
            return SocketFile(path, refusal(error))
        if not stat.S_ISSOCK(status.st_mode):
            return SocketFile(path, "it is not a socket", status.st_mtime)
        return SocketFile(path, _answer(place), status.st_mtime)


def refusal(error: OSError) -> str:
    """A refusal of the system in words; that of permission says what is missing."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return NOT_ROOT
    return os.strerror(error.errno).lower() if error.errno else str(error)


def _read_all(handle: int, most: int) -> bytes | None:
    """Everything; None if it is more than `most`. Files of /proc have no size to look at first."""
    parts, left = [], most + 1
    while left > 0 and (part := os.read(handle, min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts) if left > 0 else None


def _answer(place: Path) -> str:
    """A socket's address holds 107 bytes; a handle of its folder makes every path short."""
    try:
        folder = os.open(place.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        return refusal(error)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(_CONNECT_S)
            client.connect(f"/proc/self/fd/{folder}/{place.name}")
        return "listens"
    except ConnectionRefusedError:
        return "nobody"
    except (TimeoutError, BlockingIOError):
        return "silent"
    except OSError as error:
        return refusal(error)
    finally:
        os.close(folder)
