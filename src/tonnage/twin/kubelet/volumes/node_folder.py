"""Folders of a pretended node that its agent writes, as containers see them: to read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tonnage.model.operands import OPERAND_LOGS, VALIDATIONS
from tonnage.twin.kubelet.containers.files import LIMIT_BYTES

_SHOWN: Final = (OPERAND_LOGS, VALIDATIONS)
_MOST_FILES: Final = 100


class NodeFolder:
    """What lies in the folder now; files are read again once they changed."""

    read_only = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._contents: dict[str, tuple[tuple[int, int], bytes]] = {}

    async def entries(self) -> dict[str, bytes]:
        """Contents by relative path."""
        await asyncio.to_thread(self._look)
        return {name: content for name, (_, content) in self._contents.items()}

    def _look(self) -> None:
        contents: dict[str, tuple[tuple[int, int], bytes]] = {}
        for file in sorted(self._folder.rglob("*"))[:_MOST_FILES]:
            try:
                if file.is_symlink() or not file.is_file():
                    continue
                stat, name = file.stat(), str(file.relative_to(self._folder))
                mark, entry = (stat.st_mtime_ns, stat.st_size), self._contents.get(name)
                if entry is None or entry[0] != mark:
                    with file.open("rb") as stream:
                        entry = mark, stream.read(LIMIT_BYTES)
                contents[name] = entry
            except OSError:  # it is gone since
                continue
        self._contents = contents


def node_folder(root: Path, source: Mapping[str, Any]) -> NodeFolder | None:
    """The folder of the node below `root` that a volume shows; None where the twin keeps it in memory."""
    match source:
        case {"hostPath": {"path": str(path)}} if any(_is_in(path, shown) for shown in _SHOWN):
            return NodeFolder(root / path.lstrip("/"))
    return None


def _is_in(path: str, folder: str) -> bool:
    inside = path.rstrip("/") == folder or path.startswith(f"{folder}/")
    return inside and ".." not in path.split("/")
