"""On a terminal a lab waits for Enter before each step, so that a person can read; elsewhere never."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from typing import Final

from tonnage.cli.terminal.output import say, terminal_width

NEXT_STEP: Final = "  Enter runs it, Ctrl-C ends the lab "
CLEAN_UP: Final = "Enter cleans up "
_MOST_BYTES: Final = 1 << 12


def is_attended(environment: Mapping[str, str]) -> bool:
    """Whether somebody can press Enter: a terminal, in the foreground, and not in CI (the variable `CI`)."""
    if environment.get("CI") or terminal_width() is None or not sys.stdin.isatty():
        return False
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:
        return False


class Pause:
    """Waits for Enter while the loop goes on; after the end of input (Ctrl-D) it waits no more."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._ended = False

    async def __call__(self, prompt: str) -> None:
        """Show the prompt and return once a line has come."""
        if self._ended:
            return
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        say(prompt, end="")
        loop.add_reader(self._descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._descriptor)
        if not os.read(self._descriptor, _MOST_BYTES):
            self._ended = True
            say()
