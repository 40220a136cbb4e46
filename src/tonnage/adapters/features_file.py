"""A file in the folder in which node feature discovery looks for labels."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tonnage.adapters.checkpoints import file_problem, write_atomic
from tonnage.model.errors import HardwareError

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
            content = "".join(f"{key}={labels[key]}\n" for key in sorted(labels)).encode()
            if _read(self.file) == content:
                return
        except OSError as error:
            raise HardwareError(file_problem("cannot be kept", self.file, error)) from None
        write_atomic(self.file, content, mode=0o644)


def _read(file: Path) -> bytes | None:
    try:
        with file.open("rb") as stream:
            return stream.read(_LONGEST)
    except FileNotFoundError:
        return None
