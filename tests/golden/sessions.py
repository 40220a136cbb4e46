"""Sessions of commands, and what they printed: the text of one golden record.

A command runs in this process, or in one of its own where the session names a program, in the folder of its
session, as it would where nothing is a terminal.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tonnage.cli.main import run

_ENVIRONMENT: Final = {
    "COLUMNS": "100",
    "HOME": "/nonexistent",
    "KUBECONFIG": "/nonexistent/kubeconfig",
    "LANG": "C.UTF-8",
    "NO_COLOR": "1",
    "PATH": "/usr/bin:/bin",
    "TONNAGE_STATE": "/nonexistent/state",
    "TZ": "UTC",
}
"""All that a command may know of the machine."""

_PATIENCE: Final = 500
"""So often a command is given again."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command line, with what it reads."""

    words: tuple[str, ...]
    stdin: bytes = b""
    passing: str = ""
    """A pattern of what is printed while the cluster still settles: then the command is given again."""

    @property
    def line(self) -> str:
        """As a person would type it."""
        return "tonnage " + shlex.join(self.words) + (" < stdin" if self.stdin else "")


@dataclass(frozen=True, slots=True)
class Session:
    """Commands that belong together, and the folder that they run in; their record has the session's name."""

    name: str
    folder: Path
    commands: tuple[Command, ...]
    hidden: Mapping[str, str] = field(default_factory=dict)
    """Patterns of what differs from run to run -> what stands in its place."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What its commands know of the machine besides."""
    program: Path | None = None
    """What to run as `tonnage`, in processes of their own: for commands that leave a process behind."""


def record_of(session: Session) -> str:
    """Each command, its exit status, stdout and stderr."""
    parts = []
    with _only_what_a_command_may_know(session):
        for command in session.commands:
            status, out, err = _run(command) if session.program is None else _call(session.program, command)
            shown = [f"$ {command.line}", f"exit status {status}", *_stream("stdout", out)]
            parts.append("\n".join([*shown, *_stream("stderr", err)]))
    text = "\n\n".join(parts) + "\n"
    for pattern, instead in session.hidden.items():
        text = re.sub(pattern, instead, text)
    return text


def _stream(name: str, text: str) -> list[str]:
    """Nothing where nothing was printed; a line without an end says so."""
    if not text:
        return []
    lines = text.split("\n")
    return [f"--- {name}", *lines[:-1]] if not lines[-1] else [f"--- {name}, no newline at its end", *lines]


def _run(command: Command) -> tuple[int, str, str]:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    streams = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = io.TextIOWrapper(io.BytesIO(command.stdin), encoding="utf-8")
    sys.stdout, sys.stderr = out, err
    try:
        status = run(list(command.words), "tonnage")
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
    return status, out.buffer.getvalue().decode(), err.buffer.getvalue().decode()


def _call(program: Path, command: Command) -> tuple[int, str, str]:
    for _ in range(_PATIENCE):
        process = subprocess.run(
            [program, *command.words], input=command.stdin, capture_output=True, check=False, timeout=300
        )
        out = process.stdout.decode()
        if not command.passing or not re.search(command.passing, out):
            break
    return process.returncode, out, process.stderr.decode()


@contextmanager
def _only_what_a_command_may_know(session: Session) -> Iterator[None]:
    before, there = dict(os.environ), Path.cwd()
    os.environ.clear()
    os.environ.update({**_ENVIRONMENT, **session.environment})
    os.chdir(session.folder)
    try:
        yield
    finally:
        os.chdir(there)
        os.environ.clear()
        os.environ.update(before)
