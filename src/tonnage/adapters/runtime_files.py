"""A node's container runtime: who answers, what its files say, and changes of those, file by file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from tonnage.adapters.checkpoints import file_problem, write_atomic
from tonnage.adapters.node_facts.files import NodeFiles
from tonnage.adapters.node_facts.processes import process_ids, wants_nri
from tonnage.adapters.node_facts.runtime import imported_files, runtime_facts
from tonnage.adapters.node_facts.runtime_version import runtime_version
from tonnage.adapters.vendors.driver_root import place_inside
from tonnage.model.errors import HardwareError, Problem
from tonnage.model.node.facts import RuntimeFacts
from tonnage.model.node.runtime_change import ConfigFile, FileEdit

_UNITS: Final = ("k3s", "k3s-agent", "rke2-server", "rke2-agent", "containerd", "crio")
_UNIT_FOLDERS: Final = (
    *("/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system"),
    *("/lib/systemd/system", "/usr/lib/systemd/system"),
)
_DROP_INS: Final = ".d"
_FRESH_MODE: Final = 0o644


class RuntimeConfigFiles:
    """Files below `root`, which stands before every path; links are followed as on the node."""

    def __init__(self, root: Path) -> None:
        self._files = NodeFiles(root)
        self._root = root

    async def facts(self, *, ask: bool) -> RuntimeFacts:
        """What is seen of runtimes; with `ask` also what the one that listens says of itself."""
        pids = process_ids(self._files)
        facts = runtime_facts(self._files, pids)
        facts = replace(facts, nri_plugins=(*facts.nri_plugins, *wants_nri(self._files, pids)))
        if not ask or not facts.sockets:
            return facts
        name, version = await runtime_version(self._files, sorted(facts.sockets, key=_rank))
        return replace(facts, name=name, version=version)

    def there(self, path: str) -> bool:
        """Whether the node has something there."""
        return self._files.there(path)

    def units(self) -> tuple[str, ...]:
        """The runtimes' units of systemd that are there."""
        return tuple(
            unit
            for unit in _UNITS
            if any(self._files.there(f"{folder}/{unit}.service") for folder in _UNIT_FOLDERS)
        )

    def read(self, paths: Iterable[str], *, imports: bool) -> tuple[ConfigFile, ...]:
        """The files; with `imports` the first one and what it imports, whatever else is named."""
        named = list(paths)
        if not imports:
            return tuple(self._read(path) for path in named)
        main = self._read(named[0])
        return main, *(self._read(path) for path in imported_files(self._files, main.path, main.text or ""))

    def apply(self, edits: Iterable[FileEdit]) -> None:
        """Carry out the edits, each whole or not at all.

        Raises:
            HardwareError: a file has changed when the edits were made, or cannot be written.
        """
        todo = [(edit, self._place(edit)) for edit in edits]
        for edit, place in todo:
            if edit.after is None:
                _remove(place)
            else:
                mode = stat.S_IMODE(place.stat().st_mode) if edit.before is not None else _FRESH_MODE
                write_atomic(place, edit.after.encode(), mode=mode)

    def _read(self, path: str) -> ConfigFile:
        content = self._files.read(path)
        if content.content is None:
            return ConfigFile(path, trouble=content.trouble)
        try:
            text = content.content.decode()
        except UnicodeDecodeError as error:
            return ConfigFile(path, trouble=f"byte {error.start + 1} is not UTF-8")
        return ConfigFile(path, text, self._link(path))

    def _link(self, path: str) -> str:
        """Where the file itself leads if it is a link; folders on the way may be some."""
        folder, _, name = path.rpartition("/")
        place = place_inside(self._root, folder)
        try:
            return str((place / name).readlink()) if place is not None else ""
        except OSError:
            return ""

    def _place(self, edit: FileEdit) -> Path:
        """Where the file lies. Raises HardwareError."""
        now = self._read(edit.path)
        place = place_inside(self._root, edit.path) or self._root / edit.path.lstrip("/")
        if now.trouble or now.text != edit.before:
            why = now.trouble or "another program changed it meanwhile"
            raise HardwareError(Problem(f"{edit.path} has changed", str(place), why, "run the command again"))
        return place


def _rank(socket: str) -> bool:
    """k3s' and RKE2's containerd first: another one beside it belongs to Docker."""
    return "k3s" not in socket


def _remove(place: Path) -> None:
    """With its folder, where that is one for drop-ins and nothing else is in it: it was made for the file."""
    try:
        place.unlink()
        if place.parent.suffix == _DROP_INS and not any(place.parent.iterdir()):
            place.parent.rmdir()
            place = place.parent
        folder = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise HardwareError(file_problem("cannot be removed", place, error)) from None
