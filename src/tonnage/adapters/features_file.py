"""Labels as lines: a file in the folder in which node feature discovery looks, or standard output."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from tonnage.adapters.checkpoints import file_problem, write_atomic
from tonnage.model.errors import HardwareError, Problem

_LONGEST: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class FeaturesFile:
    """One `key=value` a line. It stays when the agent ends, so that labels survive a restart or upgrade.

    It is replaced at once, by way of a hidden file, which node feature discovery overlooks.
    """

    file: Path

    async def show(self, labels: Mapping[str, str]) -> None:
        """Have these in the file; without any there is no file. Raises HardwareError."""
        await asyncio.to_thread(self._show, labels)

    def _show(self, labels: Mapping[str, str]) -> None:
        try:
            if not labels:
                self.file.unlink(missing_ok=True)
                return
            content = _lines(labels).encode()
            if _read(self.file) == content:
                return
        except OSError as error:
            raise HardwareError(file_problem("cannot be kept", self.file, error)) from None
        write_atomic(self.file, content, mode=0o644)


class _TextOutput(Protocol):
    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


class FeaturesOutput:
    """Labels for whoever reads the stream, as they are in the file; all of them after each change."""

    def __init__(self, stream: _TextOutput) -> None:
        self._stream = stream
        self._said: dict[str, str] = {}

    async def show(self, labels: Mapping[str, str]) -> None:
        """Write them, unless they are what was written last. Raises HardwareError: nobody reads."""
        if labels == self._said:
            return
        try:
            self._stream.write(_lines(labels))
            self._stream.flush()
        except (OSError, ValueError) as error:
            raise HardwareError(
                Problem("labels cannot be written to standard output", why=str(error))
            ) from None
        self._said = dict(labels)


def _lines(labels: Mapping[str, str]) -> str:
    return "".join(f"{key}={labels[key]}\n" for key in sorted(labels))


def _read(file: Path) -> bytes | None:
    try:
        with file.open("rb") as stream:
            return stream.read(_LONGEST)
    except FileNotFoundError:
        return None
