"""A clock that jumps, for one process alone: Debian's libfaketime. The machine's clock is left alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from support.images import FAKETIME, kept_file


class JumpingClock:
    """Wall time of every process that has `environment`; time that only goes forward stays true."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self.environment: Mapping[str, str] = {
            "LD_PRELOAD": str(kept_file(*FAKETIME)),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        self.jump_to(0)

    def jump_to(self, offset_s: int) -> None:
        """From within a second on, the clock is wrong by that much."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{offset_s:+d}\n")
        fresh.replace(self._file)
