"""How a program that runs for long ends: in order at the first signal, at once at the second."""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_ENDING_S: Final = 5.0
"""Sockets are closed in a fraction of this; a thread that waits for a dead disk would never end."""


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Also before the event loop handles signals: they have no default in a container's first process."""
    before = {number: signal.signal(number, _end_at_once) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_on_signals(loop: asyncio.AbstractEventLoop, task: asyncio.Task[int], on_hang_up: str) -> None:
    """The first signal ends the program in order, a second one at once; what hangs is named and ended.

    SIGHUP, by which NVIDIA's plugin is told to read its configuration again, ends nobody; `on_hang_up` is
    logged then.
    """
    log = logging.getLogger(__name__)

    def end(received: signal.Signals) -> None:
        if task.cancelling():  # two that came at once
            _end_at_once(received, None)
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # one in between would find no handler
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, _end_at_once)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        faulthandler.dump_traceback_later(_ENDING_S, exit=True)
        log.info("ending: signal=%s", received.name)
        task.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, end, number)
    loop.add_signal_handler(signal.SIGHUP, log.info, on_hang_up)


def _end_at_once(number: int, _frame: FrameType | None) -> None:
    os._exit(128 + number)
