"""Files that survive a crash: written whole or not at all, and checked when read.

A checkpoint is one line `tonnage-checkpoint v1 <sha256>`, then the payload's raw bytes, which are summed.

What is added to it later stands in a file of its own (`NAME.added`), a row a line behind its sum. The sum is
that of the row and of the sum before it, the first of them the checkpoint's own: a row that was torn ends the
rows, and those of an earlier checkpoint are none of the present one.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import Any, Final, TypeVar

from tonnage.model.errors import HardwareError, Problem

T = TypeVar("T")
MAX_BYTES: Final = 16 << 20
MOST_ADDED_BYTES: Final = 1 << 20
"""Then a checkpoint is to be saved whole again."""
_DEADLINE_S: Final = 10.0
_AT_ONCE_S: Final = 0.002
"""So long all else waits for a row: it is mostly there in less time than it takes to come back for it."""
_HEADER: Final = re.compile(rb"tonnage-checkpoint v1 ([0-9a-f]{64})\n")

_PERMISSION: Final = "give this process write permission, or run it as another user"
_REMEDIES: Final = {
    errno.ENOSPC: "free space on this file system",
    errno.EDQUOT: "free space within the quota",
    errno.EACCES: _PERMISSION,
    errno.EPERM: _PERMISSION,
    errno.EROFS: "mount this file system writable",
    errno.EISDIR: "remove the directory that lies in the place of the file",
}


class FolderCheckpoints:
    """Checkpoints as files of one folder, which is made when first needed.

    One thread reads and writes them, in the order in which it was asked to; a save whose caller was cancelled
    goes on there. One that a disk holds up for longer than `deadline_s` is an error, and so is every other
    until it ends: kubelet waits for the agent's answers without a limit, and admits no pod meanwhile.
    """

    def __init__(self, folder: Path, *, deadline_s: float = _DEADLINE_S) -> None:
        self._folder = folder
        self._deadline_s = deadline_s
        self._thread = ThreadPoolExecutor(1, "checkpoints")
        self._added: dict[str, _Added] = {}
        self._overdue: asyncio.Future[Any] | None = None

    async def load(self, name: str) -> bytes | None:
        return await asyncio.wrap_future(self._thread.submit(self._load, name))

    async def load_added(self, name: str) -> tuple[bytes, ...]:
        """The rows that were added to what `load` gives."""
        return await asyncio.wrap_future(self._thread.submit(self._load_added, name))

    async def save(self, name: str, payload: bytes, *, lasting: bool = True) -> None:
        digest = hashlib.sha256(payload).hexdigest().encode()
        content = b"tonnage-checkpoint v1 " + digest + b"\n" + payload
        await self._in_time(name, self._writing(name, self._save, content, digest, lasting))

    async def add(self, name: str, row: bytes) -> bool:
        if name not in self._added:
            return False
        adding = self._writing(name, self._add, row)
        with suppress(TimeoutError):
            return adding.result(_AT_ONCE_S)
        return await self._in_time(name, adding)

    def _writing(self, name: str, write: Callable[..., T], *content: Any) -> Future[T]:
        """What the thread will have written. Raises HardwareError: it waits for the disk too long already."""
        if self._overdue is not None and not self._overdue.done():
            raise HardwareError(self._late(name))
        return self._thread.submit(write, name, *content)

    async def _in_time(self, name: str, write: Future[T]) -> T:
        writing = asyncio.wrap_future(write)
        writing.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may be nobody's
        await asyncio.wait({writing}, timeout=self._deadline_s)
        if not writing.done():
            self._overdue = writing
            raise HardwareError(self._late(name))
        return writing.result()

    def _late(self, name: str) -> Problem:
        why = f"the disk has not answered within {self._deadline_s:g} s"
        remedy = "check the kernel log for disk errors, and find what else writes to the disk"
        return Problem(f"{name} was not written", str(self._folder / name), why, remedy)

    def _load(self, name: str) -> bytes | None:
        remove_unfinished(self._folder / name)
        return _load(self._folder / name)

    def _load_added(self, name: str) -> tuple[bytes, ...]:
        header = _HEADER.match(_read(self._folder / name) or b"")
        raw = _read(_added_to(self._folder / name)) if header else None
        return tuple(_rows(raw, header[1])) if raw and header else ()

    def _save(self, name: str, content: bytes, digest: bytes, lasting: bool) -> None:
        write_atomic(self._folder / name, content, lasting=lasting)
        if (before := self._added.pop(name, None)) is not None:
            before.close()
        with suppress(OSError):  # then nothing can be added, until all is saved again
            self._added[name] = _Added(digest, self._folder / name)
        with suppress(OSError):  # sums of earlier rows fit no more, whether their file goes or not
            _added_to(self._folder / name).unlink(missing_ok=True)

    def _add(self, name: str, row: bytes) -> bool:
        added = self._added.get(name)
        if added is None or added.size + len(row) > MOST_ADDED_BYTES or not added.counts:
            return False
        try:
            added.write(row)
        except OSError as error:
            del self._added[name]  # half a row may stand there: what follows it could not be read
            added.close()
            raise HardwareError(file_problem("cannot be written", added.file, error)) from None
        return True


class _Added:
    """The rows that this process added to one checkpoint, whose sum is `digest`."""

    def __init__(self, digest: bytes, checkpoint: Path) -> None:
        self._handle = -1
        self.file = _added_to(checkpoint)
        self.size = 0
        self._checkpoint = checkpoint
        self._inode = checkpoint.stat().st_ino
        self._digest = digest

    @property
    def counts(self) -> bool:
        """Whether both files are still those that were written, and not taken away or replaced."""
        try:
            same = self._checkpoint.stat().st_ino == self._inode
        except OSError:
            return False
        return same and (self._handle < 0 or os.fstat(self._handle).st_nlink > 0)

    def write(self, row: bytes) -> None:
        if self._handle < 0:
            self._handle = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        digest = _chained(self._digest, row)
        line = b"%s %s\n" % (digest, row)
        self.size += len(line)
        while line:
            line = line[os.write(self._handle, line) :]
        self._digest = digest

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __del__(self) -> None:
        self.close()


def _added_to(file: Path) -> Path:
    return file.with_name(f"{file.name}.added")


def _chained(before: bytes, row: bytes) -> bytes:
    return hashlib.sha256(before + row).hexdigest().encode()


def _rows(raw: bytes, digest: bytes) -> Iterator[bytes]:
    """Those whose sums follow from the first."""
    for line in raw.split(b"\n")[:-1]:
        sum_of_row, _, row = line.partition(b" ")
        digest = _chained(digest, row)
        if sum_of_row != digest:
            return
        yield row


def write_atomic(file: Path, content: bytes, *, mode: int = 0o600, lasting: bool = True) -> None:
    """Replace the file; a crash leaves the old or the new one, a return means that it is on disk.

    What need not be `lasting` is in the file system's hands when this returns: it outlives every process, and
    not a machine that loses its power.

    Raises:
        HardwareError: no permission, disk full, or any other refusal of the file system.
    """
    temporary = ""
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        handle, temporary = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            if lasting:
                os.fsync(stream.fileno())
        Path(temporary).replace(file)
        if lasting:
            _sync_folder(file.parent)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise HardwareError(file_problem("cannot be written", file, error)) from None


def remove_unfinished(file: Path) -> None:
    """Remove what writers of the file left that were killed. Nobody else may be writing it."""
    for unfinished in file.parent.glob(f".{escape(file.name)}.*"):
        with suppress(OSError):
            unfinished.unlink()


def file_problem(action: str, file: Path, error: OSError) -> Problem:
    """A refusal of the file system in words, with what to do about the usual ones."""
    why = os.strerror(error.errno) if error.errno else str(error)
    return Problem(f"{file.name} {action}", str(file), why, _REMEDIES.get(error.errno or 0, ""))


def peek(file: Path) -> bytes | None:
    """What another process saved, None if nothing; the file is left as it is, damaged or not.

    Raises HardwareError: it cannot be read, or is damaged.
    """
    raw = _read(file)
    if raw is None:
        return None
    payload = payload_of(raw)
    if payload is None:
        raise HardwareError(Problem(f"{file.name} is damaged", str(file), "its checksum is wrong"))
    return payload


def payload_of(raw: bytes) -> bytes | None:
    """What was saved in a checkpoint; None if its checksum is wrong."""
    header = _HEADER.match(raw)
    payload = raw[header.end() :] if header else b""
    return payload if header and hashlib.sha256(payload).hexdigest().encode() == header[1] else None


def _read(file: Path) -> bytes | None:
    try:
        with file.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HardwareError(file_problem("cannot be read", file, error)) from None


def _load(file: Path) -> bytes | None:
    raw = _read(file)
    if raw is None:
        return None
    payload = payload_of(raw)
    if payload is not None:
        return payload
    damaged = file.with_name(f"{file.name}.damaged")
    try:
        file.replace(damaged)
    except OSError as error:
        raise HardwareError(file_problem("is damaged and cannot be set aside", file, error)) from None
    raise HardwareError(
        Problem(f"{file.name} is damaged", str(file), "its checksum is wrong", f"kept as {damaged.name}")
    )


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
