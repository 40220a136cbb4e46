"""Moments of agents: what they leave behind when they are killed, before and after each action and file."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from tonnage.adapters import checkpoints

_TEMPORARY: Final = re.compile(r"^\.(.+)\.[a-z0-9_]{8}$")
"""A file that is to replace another."""
_PLACES: Final = ("var/lib/tonnage", "var/run/cdi", "etc/kubernetes", "run/nvidia")
"""Folders that the agent writes to; what lies elsewhere is the pretended hardware's."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What stands at a moment. `of_file`: it comes within an action that writes a file."""

    when: str
    files: dict[str, bytes | Path | None]
    """By path below the root: the content, where a link leads to, None for a folder."""
    state: dict[str, Any]
    steps: int
    """How many of the scene's steps are left."""
    of_file: bool

    def __str__(self) -> str:
        return self.when

    def restore(self, root: Path) -> None:
        """Have the files there."""
        for name, content in self.files.items():
            path = root / name
            if content is None:
                path.mkdir(parents=True, exist_ok=True)
            elif isinstance(content, Path):
                path.symlink_to(content)
            else:
                path.write_bytes(content)


@dataclass(slots=True)
class Moments:
    """Notes each moment that leaves something else than the one before."""

    root: Path
    state: Callable[[], dict[str, Any]]
    steps: Callable[[], int]
    every: list[Moment] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def note(self, what: str, *, of_file: bool = False) -> None:
        """Something was done, or is about to be."""
        self.counts[what] = self.counts.get(what, 0) + 1
        moment = Moment(f"{what} {self.counts[what]}", _files(self.root), self.state(), self.steps(), of_file)
        last = self.every[-1] if self.every else None
        if last is None or (last.files, last.state, last.steps) != (
            moment.files,
            moment.state,
            moment.steps,
        ):
            self.every.append(moment)

    @contextmanager
    def of_files(self) -> Iterator[None]:
        """Note what is done to files of the agent meanwhile: made, written by halves, renamed, removed."""
        make, chmod, replace, unlink, write = (
            *(tempfile.mkstemp, os.fchmod, Path.replace, Path.unlink, os.write),
        )

        def note(deed: str, file: Path) -> None:
            if file.is_relative_to(self.root) and str(file.relative_to(self.root)).startswith(_PLACES):
                name = _TEMPORARY.sub(r"\1", file.name)
                self.note(f"after {deed} {name}", of_file=True)

        def made(*arguments: Any, **options: Any) -> Any:
            made = make(*arguments, **options)
            note("creating", Path(made[1]))
            return made

        def moded(handle: int, mode: int) -> None:
            chmod(handle, mode)
            note("writing", _path_of(handle))

        def replaced(file: Path, target: Path) -> Path:
            after = replace(file, target)
            note("renaming", target)
            return after

        def unlinked(file: Path, *, missing_ok: bool = False) -> None:
            unlink(file, missing_ok=missing_ok)
            note("removing", file)

        def written(handle: int, content: bytes) -> int:
            half = write(handle, content[: len(content) // 2])
            note("writing half of", _path_of(handle))
            half += write(handle, content[half:])
            note("writing", _path_of(handle))
            return half

        with (
            patch.object(tempfile, "mkstemp", made),
            patch.object(os, "fchmod", moded),
            patch.object(os, "write", written),
            patch.object(Path, "replace", replaced),
            patch.object(Path, "unlink", unlinked),
        ):
            yield


class OneThread(ThreadPoolExecutor):
    """Does at once what is to be done in a thread, so that moments have an order."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        future = Future[Any]()
        try:
            future.set_result(work(*arguments, **options))
        except BaseException as error:
            future.set_exception(error)
        return future


@contextmanager
def in_one_thread() -> Iterator[None]:
    """Have the running loop do so, and wait for no disk: what a process wrote outlives it."""
    asyncio.get_running_loop().set_default_executor(OneThread())
    with (
        patch.object(os, "fsync", lambda _: None),
        patch.object(checkpoints, "ThreadPoolExecutor", OneThread),
    ):
        yield


def _path_of(handle: int) -> Path:
    return Path(f"/proc/self/fd/{handle}").readlink()


def _files(root: Path) -> dict[str, bytes | Path | None]:
    contents: dict[str, bytes | Path | None] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            contents[name] = path.readlink()
        elif path.is_dir():
            contents[name] = None
        elif path.is_file():
            contents[name] = path.read_bytes()
    return contents
