"""The folder in which an HPC scheduler says which job has which GPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

_MOST_FILES: Final = 4096
_MOST_BYTES: Final = 64 << 10


class JobFiles:
    """Files named after GPUs; one that cannot be read is as if it were empty."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def contents(self) -> Mapping[str, str]:
        """Name -> text of the regular files that are named so; long ones are cut."""
        if self._folder is None:
            return {}
        try:
            names = sorted(path.name for path in self._folder.iterdir() if _names_a_device(path.name))
        except OSError:
            return {}
        return {name: self._text(self._folder / name) for name in names[:_MOST_FILES]}

    def _text(self, file: Path) -> str:
        if not file.is_file():
            return ""  # a pipe would make the scrape wait
        try:
            with file.open("rb") as stream:
                return stream.read(_MOST_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""


def _names_a_device(name: str) -> bool:
    """`0` is GPU 0, `2.1` GPU instance 1 of GPU 2."""
    return len(name) < 16 and name.replace(".", "", 1).isdigit()
