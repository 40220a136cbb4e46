"""The agent's command line in a process that kills itself (SIGKILL) at a named step of its work.

`python -m support.dying_agent STEP WORDS…`; the words are the command line's.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NoReturn

from tonnage.adapters import checkpoints
from tonnage.adapters.kubelet.plugin_folder import PluginFolder
from tonnage.adapters.kubelet.plugin_server import PluginServer
from tonnage.agent.plugin.holders import Holders
from tonnage.cli.main import main


def _die(*_args: object, **_keywords: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a killed process goes on")


def _before(owner: object, name: str) -> Callable[[], None]:
    return lambda: setattr(owner, name, _die)


def _after(owner: object, name: str) -> Callable[[], None]:
    def patch() -> None:
        original: Any = getattr(owner, name)

        async def replaced(*args: Any, **keywords: Any) -> None:
            await original(*args, **keywords)
            _die()

        setattr(owner, name, replaced)

    return patch


def _at_rename(name: str, *, after: bool = False) -> Callable[[], None]:
    """When a file is to get that name, or has just got it."""

    def patch() -> None:
        original = Path.replace

        def replace(self: Path, target: Path) -> Path:
            if target.name == name and not after:
                _die()
            result = original(self, target)
            return _die() if target.name == name else result

        setattr(Path, "replace", replace)  # noqa: B010 - mypy takes no assignment to a method

    return patch


def _half_added() -> None:
    """When half of a row stands in the file."""

    def patch(self: checkpoints._Added, row: bytes) -> None:
        with self.file.open("ab") as stream:
            stream.write(row[: len(row) // 2])
        _die()

    setattr(checkpoints._Added, "write", patch)  # noqa: B010 - mypy takes no assignment to a method


def _when_added() -> None:
    original = checkpoints._Added.write

    def patch(self: checkpoints._Added, row: bytes) -> None:
        original(self, row)
        _die()

    setattr(checkpoints._Added, "write", patch)  # noqa: B010 - mypy takes no assignment to a method


def _at_trial() -> None:
    """When the name is bound to see whether it can be."""

    class Trial(socket.socket):
        def bind(self, address: Any, /) -> None:
            super().bind(address)
            _die()

    setattr(socket, "socket", Trial)  # noqa: B010 - mypy takes no assignment to a type


STEPS: Final[Mapping[str, Callable[[], None]]] = {
    "before its configuration is written down": _at_rename("device-plugin-config"),
    "before its socket is made": _before(PluginServer, "start"),
    "when it tries whether it can bind": _at_trial,
    "when its socket is bound and does not listen": _before(
        import_module("grpc.aio._server").Server, "start"
    ),
    "when it listens under a name that nobody knows": _at_rename("nvidia-gpu.shared.sock"),
    "when its socket has its name": _at_rename("nvidia-gpu.shared.sock", after=True),
    "before it registers": _before(PluginFolder, "register"),
    "when it has registered": _after(PluginFolder, "register"),
    "before it answers about options": _before(PluginServer, "_options"),
    "before its first list": _before(PluginServer, "_list_and_watch"),
    "before it writes down what it gives": _before(Holders, "take"),
    "in the middle of writing it down": _at_rename("allocations"),
    "when it is written down": _at_rename("allocations", after=True),
    "when it is written down and not answered": _after(Holders, "take"),
    "before a further answer is added": _before(checkpoints._Added, "write"),
    "in the middle of adding a further answer": _half_added,
    "when a further answer is added": _when_added,
}

if __name__ == "__main__":
    STEPS[sys.argv[1]]()
    sys.argv[1:] = sys.argv[2:]
    main()
