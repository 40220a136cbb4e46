"""Labels as lines: a file in the folder in which node feature discovery looks, or standard output."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from tonnage.adapters.checkpoints import file_problem, write_atomic
from tonnage.model.errors import HardwareError, Problem, words_of

_LONGEST: Final = 1 << 20


class _TextOutput(Protocol):
    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


class FeatureLines:
    """One `key=value` a line. A file stays when the agent ends, so that labels survive a restart or upgrade.

    It is below `root` and replaced at once, by way of a hidden file, which node feature discovery overlooks.
    The stream gets all labels after each change.
    """

    def __init__(self, root: Path, stream: _TextOutput) -> None:
        self._root = root
        self._stream = stream
        self._printed: dict[str, str] = {}

    async def write(self, file: str, labels: Mapping[str, str]) -> None:
        """Have these in the file, or printed. Raises HardwareError: also that nobody reads the stream."""
        if file:
            await asyncio.to_thread(_write, self._root / file.lstrip("/"), labels)
        elif labels != self._printed:
            self._print(labels)

    def _print(self, labels: Mapping[str, str]) -> None:
        try:
            self._stream.write(_lines(labels))
            self._stream.flush()
        except (OSError, ValueError) as error:
            raise HardwareError(
                Problem("labels cannot be written to standard output", why=words_of(error))
            ) from None
        self._printed = dict(labels)


def _write(file: Path, labels: Mapping[str, str]) -> None:
    try:
        if not labels:
            file.unlink(missing_ok=True)
            return
        content = _lines(labels).encode()
        if _read(file) == content:
            return
    except OSError as error:
        raise HardwareError(file_problem("cannot be written", file, error)) from None
    write_atomic(file, content, mode=0o644)


def _lines(labels: Mapping[str, str]) -> str:
    return "".join(f"{key}={labels[key]}\n" for key in sorted(labels))


def _read(file: Path) -> bytes | None:
    try:
        with file.open("rb") as stream:
            return stream.read(_LONGEST)
    except FileNotFoundError:
        return None
