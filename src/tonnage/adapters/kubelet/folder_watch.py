"""Told by the kernel when sockets come and go in a folder (inotify)."""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

_CREATE: Final = 0x100
_DELETE: Final = 0x200
_MOVED: Final = 0x40 | 0x80
_ONLY_FOLDERS: Final = 0x01000000
_OVERFLOW: Final = 0x4000
_FOLDER_GONE: Final = 0x8000
_MASK: Final = _CREATE | _DELETE | _MOVED | _ONLY_FOLDERS
_HEAD: Final = struct.Struct("iIII")
_AT_ONCE: Final = 1 << 16


class FolderWatch:
    """Calls `on_change` after a socket was made, moved or removed in a watched folder, or the folder removed.

    What else happens there, such as kubelet's checkpoint being written, is not told. Where the kernel cannot
    watch, `over` says so; then somebody has to look again and again.
    """

    def __init__(self) -> None:
        self._library: ctypes.CDLL | None = None
        self._handle = -1
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_change: Callable[[], None] = lambda: None

    def over(self, folder: Path, on_change: Callable[[], None]) -> bool:
        """Whether the folder that is there now is watched from here on. May be called again and again."""
        self._on_change = on_change
        try:
            library = self._library or self._open()
            # Of a folder that is watched already this changes nothing; a new one of that name is taken up.
            return bool(library.inotify_add_watch(self._handle, os.fsencode(folder), _MASK) >= 0)
        except (OSError, AttributeError, NotImplementedError):  # another kernel, or no watches left
            return False

    def close(self) -> None:
        if self._handle >= 0:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(self._handle)
            os.close(self._handle)
            self._handle, self._library = -1, None

    def _open(self) -> ctypes.CDLL:
        library = ctypes.CDLL(None, use_errno=True)
        handle = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if handle < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(handle, self._read)
        self._handle, self._library = handle, library
        return library

    def _read(self) -> None:
        try:
            raw = os.read(self._handle, _AT_ONCE)
        except OSError:
            return
        if any(name.endswith(b".sock") and not name.startswith(b".") for name in _names(raw)):
            self._on_change()


def _names(raw: bytes) -> Iterator[bytes]:
    """Names of what changed. When some were lost, or the folder itself is, one that counts as a socket."""
    at = 0
    while at + _HEAD.size <= len(raw):
        _, mask, _, length = _HEAD.unpack_from(raw, at)
        at += _HEAD.size
        yield b"lost.sock" if mask & (_OVERFLOW | _FOLDER_GONE) else raw[at : at + length].rstrip(b"\0")
        at += length
