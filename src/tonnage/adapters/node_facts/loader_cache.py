"""The dynamic loader's cache, `/etc/ld.so.cache`.

Source: glibc sysdeps/generic/dl-cache.h, `struct cache_file_new`; older caches have it behind their own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final

_MAGIC: Final = b"glibc-ld.so.cache1.1"
_HEAD: Final = struct.Struct("=20sII")
_HEAD_SIZE: Final = 48
_ENTRY: Final = struct.Struct("=iIIIQ")
_MOST: Final = 200_000
_LONGEST: Final = 4096


def cached_libraries(content: bytes, names: Iterable[str]) -> Mapping[str, tuple[str, ...]] | None:
    """Paths by name of those libraries, in the loader's order; None if that is no cache."""
    start = content.find(_MAGIC)
    if start < 0 or len(content) < start + _HEAD_SIZE:
        return None
    _, count, _ = _HEAD.unpack_from(content, start)
    paths_by_name: dict[str, list[str]] = {name: [] for name in names}
    first = start + _HEAD_SIZE
    last = min(first + min(count, _MOST) * _ENTRY.size, len(content) - _ENTRY.size + 1)
    for at in range(first, last, _ENTRY.size):
        _, key, value, _, _ = _ENTRY.unpack_from(content, at)
        name = _text(content, start + key)
        if name in paths_by_name:
            paths_by_name[name].append(_text(content, start + value))
    return {name: tuple(paths) for name, paths in paths_by_name.items()}


def _text(content: bytes, at: int) -> str:
    end = content.find(b"\0", at, at + _LONGEST)
    return content[at:end].decode("utf-8", "replace") if end >= 0 else ""
