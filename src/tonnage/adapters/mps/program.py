"""One command for NVIDIA's MPS control program, with a deadline."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tonnage.model.errors import HardwareError, Problem, words_of

CONTROL: Final = "nvidia-cuda-mps-control"
_DEADLINE_S: Final = 2.0
_LONGEST_ANSWER: Final = 1 << 16
_LONGEST_SHOWN: Final = 300


def ask_program(program: Path, command: str, environment: Mapping[str, str]) -> str:
    """What it answers to a command, without blanks around it. Blocks.

    The environment says which daemon is meant. Raises HardwareError: it cannot be run, or says that it could
    not do that, or does not answer in time.
    """
    try:
        process = subprocess.Popen(  # noqa: S603 - the driver's own program
            [str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
            env=dict(environment),
        )
    except OSError as error:
        raise HardwareError(Problem(f"{CONTROL} cannot be run", str(program), words_of(error))) from None
    overdue = threading.Event()

    def end() -> None:
        overdue.set()
        process.kill()

    timer = threading.Timer(_DEADLINE_S, end)
    timer.daemon = True
    timer.start()
    try:
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(BrokenPipeError), process.stdin as commands:
                commands.write(f"{command}\n".encode())
            answer = process.stdout.read(_LONGEST_ANSWER).decode("utf-8", "replace").strip()
    finally:
        timer.cancel()  # not before `with` is left, which waits for the program too
    word = command.partition(" ")[0]
    if overdue.is_set():
        problem = f"{CONTROL} does not answer: {word}"
        raise HardwareError(Problem(problem, why=f"no answer within {_DEADLINE_S:g} s"))
    if process.returncode:
        why = f"exit status {process.returncode}: {answer[:_LONGEST_SHOWN]}".rstrip(": ")
        raise HardwareError(Problem(f"{CONTROL} refused {word}", why=why))
    return answer
