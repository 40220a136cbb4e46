"""Logs of a process: one line an event, a constant text and then key=value."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import IO

from tonnage.model.printable import printable_line, printable_text


class LineFormatter(logging.Formatter):
    """`2025-01-31T12:00:00.000Z INFO message`; what is not printable is escaped, so a line stays a line.

    An exception is its last line, and its whole traceback only when verbose.
    """

    def __init__(self, *, verbose: bool = False) -> None:
        super().__init__()
        self._verbose = verbose

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        text = "; ".join(line.strip() for line in record.getMessage().splitlines())
        if record.exc_info:
            trace = self.formatException(record.exc_info)
            text += " " + (trace if self._verbose else trace.rpartition("\n")[2])
        return f"{at.replace('+00:00', 'Z')} {record.levelname} {printable_line(text)}"


def set_up_logging(stream: IO[str], *, verbose: bool = False, level: int = logging.WARNING) -> None:
    """Send the process's logs of `level` and more to the stream; information too when verbose."""
    handler = logging.StreamHandler(stream)
    handler.setLevel(logging.INFO if verbose else level)
    handler.setFormatter(LineFormatter(verbose=verbose))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)  # handlers choose
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # a request is no decision


def make_last_resort_printable() -> None:
    """Warnings of a process that sets up no logs go to stderr as messages alone; no name in one steers it."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_MessageFormatter())


class _MessageFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable_text(super().format(record))
