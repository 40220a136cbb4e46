"""`tonnage top` on a terminal: what it shows, what keys do, and the terminal as before on every way out."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from support.deadlines import join

PATIENCE_S = 15.0
ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"
PAGE = """DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",Hostname="gpu-0",namespace="ml",pod="train"} 97
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b",Hostname="gpu-0",namespace="web",pod="\x1b]0;owned\x07"} 3
"""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status = self.server.status  # type: ignore[attr-defined]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(PAGE.encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    """Serves the page with its `status`."""
    made = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    made.status = 200  # type: ignore[attr-defined]
    thread = Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    join(thread)


class Terminal:
    """A terminal of some columns with `tonnage top` on it."""

    def __init__(self, server: ThreadingHTTPServer, columns: int = 100) -> None:
        self._master, self._slave = pty.openpty()
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.before = self.modes()
        words = ("top", "--node-address", f"127.0.0.1:{server.server_address[1]}", "--interval", "0.5")
        environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            ["setsid", "--ctty", sys.executable, "-m", "tonnage", *words],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env={**environment, "TERM": "xterm", "PYTHONUTF8": "1"},
        )
        self.seen = ""

    def modes(self) -> list[Any]:
        return termios.tcgetattr(self._slave)

    def until(self, words: str) -> str:
        """What was written up to these words, and is then forgotten."""
        deadline = time.monotonic() + PATIENCE_S
        while words not in self.seen:
            ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"no {words!r} in {self.seen!r}"
            self.seen += os.read(self._master, 65536).decode()
        before, _, self.seen = self.seen.partition(words)
        return before

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait(60)
        os.close(self._master)
        os.close(self._slave)


@pytest.fixture
def terminal(server: ThreadingHTTPServer) -> Iterator[Terminal]:
    made = Terminal(server)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("leave", "status"),
    [
        pytest.param("q", 0, id="q"),
        pytest.param("\x03", 130, id="Ctrl-C"),
        pytest.param(signal.SIGTERM, 143, id="SIGTERM"),
        pytest.param(signal.SIGHUP, 129, id="SIGHUP"),
    ],
)
def test_the_terminal_is_as_before_on_every_way_out(
    terminal: Terminal, leave: str | signal.Signals, status: int
) -> None:
    terminal.until(ENTER)
    terminal.until("97%")
    assert terminal.modes() != terminal.before
    if isinstance(leave, str):
        terminal.press(leave)
    else:
        terminal.process.send_signal(leave)
    terminal.until(LEAVE)
    assert terminal.process.wait(PATIENCE_S) == status
    assert terminal.modes() == terminal.before


def test_an_error_is_told_on_the_terminal_as_it_was_before(server: ThreadingHTTPServer) -> None:
    server.status = 500  # type: ignore[attr-defined]
    terminal = Terminal(server)
    try:
        terminal.until(ENTER)
        terminal.until(LEAVE)
        terminal.until("no device metrics")
        assert terminal.process.wait(PATIENCE_S) != 0
        assert terminal.modes() == terminal.before
    finally:
        terminal.close()


def test_keys_choose_what_is_shown_and_a_page_that_fails_is_told_on_the_screen(
    terminal: Terminal, server: ThreadingHTTPServer
) -> None:
    shown = terminal.until("q quit")
    assert "\x1b]0" not in shown
    terminal.until("\\x1b]0;owned\\x07")
    terminal.press("3/TRAIN\r")
    terminal.until("pods sorted by pod")
    terminal.until("filter TRAIN")
    terminal.press("?")
    terminal.until("any key closes it")
    terminal.press("x")
    server.status = 503  # type: ignore[attr-defined]
    terminal.until("not read: no device metrics")
    terminal.press("q")
    terminal.until(LEAVE)


def test_a_narrow_terminal_has_no_line_that_is_too_wide(server: ThreadingHTTPServer) -> None:
    terminal = Terminal(server, columns=60)
    try:
        terminal.until("97%")
        frame = terminal.until("\x1b[J")
        lines = [line.split("\x1b[K")[0] for line in frame.split("\r\n")]
        assert max(map(len, lines)) <= 60
        terminal.press("q")
        terminal.until(LEAVE)
    finally:
        terminal.close()
