"""The terminal while a screen is live: keys one by one, and everything as it was on every way out."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tonnage.cli.terminal.output import switch_screen
from tonnage.cli.top.keys import keys_of

REDRAW: Final = "redraw"
"""As a key: the window has another size."""
QUIT: Final = "q"
_READ_BYTES: Final = 1024
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


class LiveTerminal:
    """Standard input and output on a terminal. `ended_by` is the signal that ended it, if one did."""

    def __init__(self, pressed: Callable[[str], None]) -> None:
        self._pressed = pressed
        self._input = sys.stdin.fileno()
        self._before: list[Any] = []
        self.ended_by: signal.Signals | None = None

    @contextmanager
    def live(self) -> Iterator[None]:
        """Keys go to `pressed` until the block ends, however it does."""
        loop = asyncio.get_running_loop()
        self._enter()
        try:
            loop.add_reader(self._input, self._read)
            loop.add_signal_handler(signal.SIGWINCH, self._pressed, REDRAW)
            loop.add_signal_handler(signal.SIGTSTP, self._suspend)
            for number in _ENDING:
                loop.add_signal_handler(number, self._end, number)
            yield
        finally:
            loop.remove_reader(self._input)
            for number in (signal.SIGWINCH, signal.SIGTSTP, *_ENDING):
                loop.remove_signal_handler(number)
            self._leave()

    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        width, height = shutil.get_terminal_size()
        return width, height

    def _enter(self) -> None:
        self._before = termios.tcgetattr(self._input)
        tty.setcbreak(self._input)
        switch_screen(other=True)

    def _leave(self) -> None:
        termios.tcsetattr(self._input, termios.TCSADRAIN, self._before)
        switch_screen(other=False)

    def _read(self) -> None:
        content = os.read(self._input, _READ_BYTES)
        for key in keys_of(content.decode("utf-8", "replace")) if content else (QUIT,):
            self._pressed(key)

    def _end(self, number: signal.Signals) -> None:
        self.ended_by = number
        self._pressed("ctrl-c")

    def _suspend(self) -> None:
        """Stop as the shell wants it, with its terminal; go on where it was."""
        self._leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._enter()
        self._pressed(REDRAW)
