"""`tonnage` as a process of its own that need not import anything first: a fork of one that has.

For tests of many commands. How a program starts, and what it imports, is tested in tests/cli.
This file is run by its path, and knows nothing of the tests.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Final, NoReturn

_IMPORTED: Final = (
    *(f"tonnage.cli.{name}.command" for name in ("explain", "lab", "lint", "mig", "simulate", "up")),
    *(f"tonnage.cli.up.{name}" for name in ("down", "embedded", "programs")),
    *(f"tonnage.cli.{name}" for name in ("claims", "hardware", "snapshot", "status", "topo")),
    *("tonnage.adapters.kubernetes.client", "tonnage.reading.documents", "tonnage.reading.cluster"),
    *("tonnage.diagnose.explain.explain", "tonnage.diagnose.lint.lint", "tonnage.diagnose.status"),
    *("tonnage.twin.cluster", "tonnage.adapters.kubernetes.http", "httpcore2"),
)
_PROGRAM: Final = """\
#!{python} -IS
import json, os, socket, sys
words = sys.argv[1:]
if os.path.basename(sys.argv[0]) == "python":
    if words[:2] != ["-m", "tonnage"]:
        os.execv({python!r}, [{python!r}, *words])
    words = words[2:]
wanted = json.dumps([words, os.getcwd(), dict(os.environ)]).encode()
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect({address!r})
    socket.send_fds(connection, [len(wanted).to_bytes(4, "big")], [0, 1, 2])
    connection.sendall(wanted)
    answer = connection.recv(1)
sys.exit(answer[0] if answer else "the process ended without a word")
"""


@contextmanager
def warm_tonnage() -> Iterator[Path]:
    """The path of a program that does what `tonnage` does.

    Beside it is a `python`, which what it forks takes for its own: with `-m tonnage` it does the same.
    """
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        address = f"{folder}/socket"
        for name in ("python", "tonnage"):
            program = Path(folder) / name
            program.write_text(_PROGRAM.format(python=sys.executable, address=address))
            program.chmod(0o755)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen()  # who comes before the server has imported all waits here
            command = [sys.executable, "-P", __file__, address, str(listener.fileno())]
            server = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()])
        with server:
            yield program


def _serve(address: str, listening: int) -> None:
    """Fork for each that connects, until stdin is closed."""
    for name in _IMPORTED:
        import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a fork
    with socket.socket(fileno=listening) as listener:
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in ready:
                return
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                sys.executable = str(Path(address).with_name("python"))
                _become(connection)
            connection.close()


def _become(connection: socket.socket) -> NoReturn:
    """Do what is asked for, with the streams, folder and environment of the one that asks."""
    from tonnage.cli.main import main

    size, streams, _, _ = socket.recv_fds(connection, 4, 3)
    wanted = b""
    while len(wanted) < int.from_bytes(size, "big"):
        wanted += connection.recv(1 << 20)
    words, folder, environment = json.loads(wanted)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["tonnage", *words]
    status = 1
    try:
        main()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        connection.send(bytes([status]))
        os._exit(status)


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]))
