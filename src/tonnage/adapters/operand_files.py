"""Files by which pods and programs of the node follow the agent's parts: their logs, and how they stand."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final

from tonnage.adapters.checkpoints import file_problem, write_atomic
from tonnage.adapters.logging import LineFormatter
from tonnage.model.errors import HardwareError
from tonnage.model.operands import LOG_FILE, OPERAND_LOGS, OPERANDS

_LONGEST_LOG: Final = 256 << 10
_EVERYBODY_READS: Final = 0o644
_FOLDERS: Final = 0o755
_PARTS: Final = tuple((module, operand.part) for operand in OPERANDS.values() for module in operand.modules)
"""Whose log a module's lines belong to."""
_ROOT: Final[ContextVar[Path | None]] = ContextVar("the root of the agent whose task runs", default=None)


class NodeStatusFiles:
    """Files below the node's root, in folders that everybody may read."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def show(self, files: Mapping[str, str], absent: Collection[str]) -> None:
        """Have these texts, and none of `absent`. Raises HardwareError."""
        await asyncio.to_thread(self._show, files, absent)

    def _show(self, files: Mapping[str, str], absent: Collection[str]) -> None:
        for path in absent:
            file = self._below(path)
            try:
                file.unlink(missing_ok=True)
            except OSError as error:
                raise HardwareError(file_problem("cannot be removed", file, error)) from None
        for path, text in files.items():
            file, content = self._below(path), text.encode()
            if _content(file, len(content) + 1) != content:
                write_atomic(file, content, mode=_EVERYBODY_READS, lasting=False)

    def _below(self, path: str) -> Path:
        return self._root / path.lstrip("/")


def _content(file: Path, most: int) -> bytes | None:
    try:
        with file.open("rb") as stream:
            return stream.read(most)
    except OSError:
        return None


@contextmanager
def logged_by_part(root: Path) -> Iterator[None]:
    """Have every part's lines in its log below `root`; tasks that are started inside belong to this agent."""
    before = _ROOT.set(root)
    handler, logger = _PartLogs(root), logging.getLogger("tonnage")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        _ROOT.reset(before)


class _PartLogs(logging.Handler):
    """Appends to the logs. One that has grown long begins anew: who follows it has read it."""

    def __init__(self, root: Path) -> None:
        super().__init__(logging.INFO)
        self._root = root
        self.setFormatter(LineFormatter())
        self.addFilter(lambda _record: _ROOT.get() is root)

    def emit(self, record: logging.LogRecord) -> None:
        part = _part_of(record.name)
        if not part:
            return
        file = self._root / OPERAND_LOGS.lstrip("/") / part / LOG_FILE
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=_FOLDERS)
            mode = "ab" if not file.exists() or file.stat().st_size < _LONGEST_LOG else "wb"
            with file.open(mode) as stream:
                stream.write(f"{self.format(record)}\n".encode())
        except OSError:  # a full /run: standard error has the line
            return


def _part_of(logger: str) -> str:
    """The part that a module belongs to; empty: none.

    >>> _part_of("agent.mig.manager"), _part_of("tonnage.loop.informer")
    ('mig-manager', '')
    """
    module = logger.removeprefix("tonnage.")
    return next((part for name, part in _PARTS if module == name or module.startswith(f"{name}.")), "")
