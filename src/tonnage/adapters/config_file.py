"""The file of a node's device-plugin configuration."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from tonnage.model.errors import Problem, not_utf8, words_of
from tonnage.ports.node import ABSENT

_LONGEST_TEXT: Final = 1 << 20


class MountedConfigFile:
    """A file, or a link to one in a mounted ConfigMap."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def __str__(self) -> str:
        return str(self._place)

    def stamp(self) -> str:
        """Identifies the file that is there, or says why none is; a mounted ConfigMap swaps links."""
        try:
            status = self._place.stat()
        except FileNotFoundError:
            return ABSENT
        except OSError as error:
            return f"errno {error.errno}"
        return f"{status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"

    async def read(self) -> str | Problem:
        """Its text, at most 1 MiB of UTF-8."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> str | Problem:
        try:
            with self._place.open("rb") as stream:
                raw = stream.read(_LONGEST_TEXT + 1)
            if len(raw) > _LONGEST_TEXT:
                return Problem(
                    "the configuration file is too large", str(self), "the file is larger than 1 MiB"
                )
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            return not_utf8(error, str(self))
        except OSError as error:
            why = words_of(error)
            return Problem("the configuration file cannot be read", str(self), why)
