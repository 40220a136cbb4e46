"""Files that survive a crash: written whole or not at all, and checked when read.

A checkpoint is one line `tonnage-checkpoint v1 <sha256>`, then the payload's raw bytes, which are summed.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import re
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from tonnage.model.errors import HardwareError, Problem

MAX_BYTES: Final = 16 << 20
_DEADLINE_S: Final = 10.0
_HEADER: Final = re.compile(rb"tonnage-checkpoint v1 ([0-9a-f]{64})\n")

_PERMISSION: Final = "give this process permission, or run it as the user that has it"
_REMEDIES: Final = {
    errno.ENOSPC: "free space on this file system",
    errno.EDQUOT: "free space within the quota",
    errno.EACCES: _PERMISSION,
    errno.EPERM: _PERMISSION,
    errno.EROFS: "mount this file system writable",
}


class FolderCheckpoints:
    """Checkpoints as files of one folder, which is made when first needed.

    A save whose caller was cancelled goes on in its thread; it never replaces what was saved after it. One
    that a disk holds up for longer than `deadline_s` is an error, and so is every other until it ends:
    kubelet waits for the agent's answers without a limit, and admits no pod meanwhile.
    """

    def __init__(self, folder: Path, *, deadline_s: float = _DEADLINE_S) -> None:
        self._folder = folder
        self._deadline_s = deadline_s
        self._lock = threading.Lock()
        self._asked = 0
        self._written: dict[str, int] = {}
        self._overdue: asyncio.Future[None] | None = None

    async def load(self, name: str) -> bytes | None:
        return await asyncio.to_thread(self._load, name)

    async def save(self, name: str, payload: bytes, *, lasting: bool = True) -> None:
        header = b"tonnage-checkpoint v1 " + hashlib.sha256(payload).hexdigest().encode() + b"\n"
        if self._overdue is not None and not self._overdue.done():
            raise HardwareError(self._late(name))
        self._asked += 1
        writing = asyncio.get_running_loop().run_in_executor(
            None, self._save, name, header + payload, self._asked, lasting
        )
        writing.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may be nobody's
        await asyncio.wait({writing}, timeout=self._deadline_s)
        if not writing.done():
            self._overdue = writing
            raise HardwareError(self._late(name))
        writing.result()

    def _late(self, name: str) -> Problem:
        why = f"the disk has not answered within {self._deadline_s:g} s"
        remedy = "look for errors of the disk in the kernel log, and at what else writes to it"
        return Problem(f"{name} is not written", str(self._folder / name), why, remedy)

    def _load(self, name: str) -> bytes | None:
        with self._lock:
            for unfinished in self._folder.glob(f".{name}.*"):  # its writer was killed
                with suppress(OSError):
                    unfinished.unlink()
            return _load(self._folder / name)

    def _save(self, name: str, content: bytes, order: int, lasting: bool) -> None:
        with self._lock:
            if self._written.get(name, 0) < order:
                write_atomic(self._folder / name, content, lasting=lasting)
                self._written[name] = order


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


def file_problem(what: str, file: Path, error: OSError) -> Problem:
    """A refusal of the file system in words, with what to do about the usual ones."""
    why = os.strerror(error.errno) if error.errno else str(error)
    return Problem(f"{file.name} {what}", str(file), why, _REMEDIES.get(error.errno or 0, ""))


def payload_of(raw: bytes) -> bytes | None:
    """What was saved in a checkpoint; None if its checksum does not fit."""
    header = _HEADER.match(raw)
    payload = raw[header.end() :] if header else b""
    return payload if header and hashlib.sha256(payload).hexdigest().encode() == header[1] else None


def _load(file: Path) -> bytes | None:
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HardwareError(file_problem("cannot be read", file, error)) from None
    payload = payload_of(raw)
    if payload is not None:
        return payload
    aside = file.with_name(f"{file.name}.damaged")
    try:
        file.replace(aside)
    except OSError as error:
        raise HardwareError(file_problem("is damaged and cannot be set aside", file, error)) from None
    raise HardwareError(
        Problem(f"{file.name} is damaged", str(file), "its checksum does not fit", f"kept as {aside.name}")
    )


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
