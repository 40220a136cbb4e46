"""Texts for lint and explain: files, folders and patterns as kubectl takes them; and writing them back."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Final

from tonnage.documents.yaml.reader import MAX_BYTES
from tonnage.model.errors import ConfigError, Problem, not_utf8

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_MOST_FILES: Final = 10_000
_MOST_TOTAL: Final = 64 << 20
_CHART: Final = "Chart.yaml"


@dataclass(frozen=True, slots=True)
class ReadableFile:
    """A readable file; `path` None for stdin."""

    name: str
    path: Path | None
    content: str


@dataclass(frozen=True, slots=True)
class Files:
    """What was read, what could not be, and what was left out on purpose."""

    texts: tuple[ReadableFile, ...]
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


def read_files(names: tuple[str, ...], *, recursive: bool) -> Files:
    """Every file that the names stand for, once, in their order; whatever cannot be read is a problem."""
    texts: dict[str, ReadableFile] = {}
    problems: list[Problem] = []
    notes: list[str] = []
    total = 0
    for name, path in _paths(names, problems, notes, recursive=recursive):
        if name in texts:
            continue
        if len(texts) == _MOST_FILES or total > _MOST_TOTAL:
            why = f"more than {_MOST_FILES} files or {_MOST_TOTAL >> 20} MiB"
            problems.append(Problem("too many files", name, why, "name fewer folders at a time"))
            break
        try:
            text = ReadableFile(name, path, _content(name, path))
        except ConfigError as error:
            problems.extend(error.problems)
            continue
        texts[name] = text
        total += len(text.content)
    return Files(tuple(texts.values()), tuple(problems), tuple(notes))


def _paths(
    names: tuple[str, ...], problems: list[Problem], notes: list[str], *, recursive: bool
) -> Iterator[tuple[str, Path | None]]:
    for name in names:
        if name == "-":
            yield "stdin", None
            continue
        path = Path(name)
        matches = [name] if path.exists() else sorted(glob(name, recursive=True))  # noqa: PTH207 - a pattern may be absolute
        if not matches:
            problems.append(Problem("file or folder not found", name[:1000], remedy="use - to read stdin"))
        for match in matches:
            path = Path(match)
            if not path.is_dir():
                yield match, path
                continue
            paths = [*_in_folder(path, notes, recursive=recursive)]
            if not paths:
                remedy = "" if recursive else "--recursive looks into the folders in it"
                why = f"only {', '.join(_SUFFIXES)} files are read"
                problems.append(Problem("the folder has no files to read", match, why, remedy))
            yield from ((str(path_found), path_found) for path_found in paths)


def _in_folder(folder: Path, notes: list[str], *, recursive: bool) -> Iterator[Path]:
    """Regular files of the suffixes, but hidden ones and those of hidden folders.

    Links to folders stay unread. Templates of a Helm chart are no YAML before Helm has rendered them.
    """
    for current, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if _CHART in files and "templates" in folders:
            folders.remove("templates")
            notes.append(f"not read: the templates of the chart {current}; give what helm template prints")
        here = Path(current)
        for file in sorted(files):
            if file.endswith(_SUFFIXES) and not file.startswith(".") and (here / file).is_file():
                yield here / file
        if not recursive:
            return


def _content(name: str, path: Path | None) -> str:
    """Raises ConfigError."""
    try:
        if path is None:
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(Problem("cannot read the file", name, error.strerror or str(error))) from None
    if len(content) > MAX_BYTES:
        why = f"the file is larger than {MAX_BYTES >> 20} MiB, the most that the API server takes"
        raise ConfigError(Problem("file too large", name, why, "split it"))
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(not_utf8(error, name)) from None


def write_text(text: ReadableFile, new: str) -> None:
    """Put a repaired text in the place of a file, at once, with the same mode; through a symbolic link.

    Raises:
        ConfigError: the file cannot be written, or is no longer what was read.
    """
    assert text.path is not None
    target = text.path.resolve()
    try:
        with target.open("rb") as before:
            same = before.read(MAX_BYTES + 1) == text.content.encode()
        if not same:
            why = "it changed while lint read it"
            raise ConfigError(Problem("not repaired", text.name, why, "lint it again"))
        mode = stat.S_IMODE(target.stat().st_mode)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(new.encode())
                os.fchmod(file.fileno(), mode)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(Problem("cannot write the file", text.name, error.strerror or str(error))) from None
