"""How the clients' programs talk to whoever runs them: lines of JSON, and a belief on demand."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping

import msgspec

from support.churn.account import Line

_LOCK = threading.Lock()


def say(line: Line) -> None:
    """Tell what happened, in one piece."""
    with _LOCK:
        sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
        sys.stdout.flush()


def answering(believed: Mapping[str, str]) -> None:
    """Say what is believed for each line of the input; end the process at its end."""
    for _ in sys.stdin:
        say(Line("believes", objects=dict(believed)))
    with _LOCK:  # threads that speak still would keep the interpreter from ending well
        os._exit(0)
