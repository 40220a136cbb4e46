"""A pretended nvidia-cuda-mps-control: the same commands, files and process, and no GPU behind it.

`install` puts it where the driver's program would be. It runs as a program of its own, so this file imports
nothing of Tonnage: `python -I -S mps_control.py FAULT-FILE [-d | -f]`. Each command is a process: it imports
little (`pathlib` alone doubles what one costs). The fault file has one of the words of
`FAULTS`, or nothing. How daemon and command talk through the socket is its own invention.

Source: NVIDIA's documentation of MPS; the manual of nvidia-cuda-mps-control, driver 550.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

FAULTS = {
    "refuse": "the daemon ends as soon as it is started",
    "slow": "it takes a while before it listens",
    "deaf": "it takes commands and never answers",
    "hang": "a command does not come back, whatever the daemon does",
    "limitless": "it takes limits and does not keep them",
    "stubborn": "it neither quits nor heeds SIGTERM",
}
NAME = "nvidia-cuda-mps-control"
_LONG_S = 3600.0
_SLOW_S = 0.5
_LONGEST = 4096


class MpsProgram:
    """The program of a pretended node, and what is wrong with it."""

    def __init__(self, root: Path) -> None:
        self.path = root / "usr/bin" / NAME
        self._fault = self.path.with_name(f"{NAME}.fault")

    def install(self) -> None:
        """Put it there."""
        import shlex
        from pathlib import Path

        self.path.parent.mkdir(parents=True, exist_ok=True)
        words = [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(self._fault)]
        self.path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
        self.path.chmod(0o755)

    def fault(self, word: str = "") -> None:
        """It behaves like that from now on; without a word it is well again."""
        assert not word or word in FAULTS
        self._fault.write_text(word, encoding="utf-8")


class _Daemon:
    """The control daemon: limits, and servers that do nothing."""

    def __init__(self, pipe: str, fault: str) -> None:
        self._pipe = pipe
        self._fault = fault
        self._threads = 100.0
        self._limits: dict[str, str] = {}
        self._servers: list[subprocess.Popen[bytes]] = []
        self._listening = socket.socket(socket.AF_UNIX)

    def run(self) -> int:
        os.makedirs(self._pipe, exist_ok=True)  # noqa: PTH103 - no pathlib here
        address = f"{self._pipe}/control"
        with socket.socket(socket.AF_UNIX) as other:
            if other.connect_ex(address) == 0:
                _log("An instance of this daemon is already running")
                return 1
        if _fault_word(self._fault) == "slow":
            time.sleep(_SLOW_S)
        _remove(address)
        self._listening.bind(address)
        os.chmod(address, 0o666)  # noqa: PTH101, S103 - no pathlib here; every container's user may ask
        self._listening.listen(64)
        _write(f"{self._pipe}/{NAME}.pid", f"{os.getpid()}\n")
        _log(f"Starting control daemon using socket {address}")
        _log(f"Devices: {os.environ.get('CUDA_VISIBLE_DEVICES', 'all')}")
        while True:
            connection, _ = self._listening.accept()
            with connection:
                try:
                    if self._serves(connection):
                        continue
                except OSError:
                    continue
            self._end_servers()
            _remove(address)
            return 0

    def _serves(self, connection: socket.socket) -> bool:
        """Answer a command; False when it is to quit."""
        command = connection.recv(_LONGEST).decode("utf-8", "replace").strip()
        if _fault_word(self._fault) == "deaf":
            time.sleep(_LONG_S)
        words = command.split()
        if words[:1] == ["quit"] and _fault_word(self._fault) != "stubborn":
            return False
        status, answer = self._answer(words)
        connection.sendall(f"{status}\n{answer}".encode())
        return True

    def _answer(self, words: list[str]) -> tuple[int, str]:
        """(the exit status of who asks, what it prints)."""
        lame = _fault_word(self._fault) == "limitless"
        match words:
            case ["get_default_active_thread_percentage"]:
                return 0, f"{self._threads:.1f}"
            case ["set_default_active_thread_percentage", percent]:
                self._threads = self._threads if lame else float(percent)
                return 0, f"{self._threads:.1f}"
            case ["set_default_device_pinned_mem_limit", device, limit]:
                self._limits |= {} if lame else {device: limit}
                return 0, ""
            case ["get_default_device_pinned_mem_limit", device]:
                return 0, self._limits.get(device, "0M")
            case ["get_server_list"]:
                return 0, "\n".join(str(server.pid) for server in self._servers)
            case ["start_server", "-uid", _]:
                import subprocess

                words = [sys.executable, "-I", "-S", __file__, self._fault, "--server"]
                self._servers.append(subprocess.Popen(words, stdin=subprocess.DEVNULL))  # noqa: S603 - itself
                return 0, ""
        return 1, "Unknown command"

    def _end_servers(self) -> None:
        for server in self._servers:
            server.kill()
            server.wait()


def main(arguments: list[str]) -> int:
    """The exit status."""
    fault, options = arguments[0], arguments[1:]
    pipe = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")  # noqa: S108 - its default
    if options == ["--server"]:
        _call_itself("nvidia-cuda-mps-server")
        time.sleep(_LONG_S)
        return 0
    if options[:1] in (["-d"], ["-f"]) and options[1:] in ([], ["-multiuser-server"]):
        return _serve(pipe, fault, background=options[0] == "-d")
    if options:
        _log(f"unknown option {options[0]}")
        return 1
    return _command(pipe, fault)


def _serve(pipe: str, fault: str, *, background: bool) -> int:
    fault_word = _fault_word(fault)
    if fault_word == "refuse":
        _log("Failed to start: the pretended driver refuses")
        return 1
    if fault_word == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if background and os.fork():
        return 0
    _call_itself(NAME)
    return _Daemon(pipe, fault).run()


def _command(pipe: str, fault: str) -> int:
    status = 0
    for line in sys.stdin:
        if _fault_word(fault) == "hang":
            time.sleep(_LONG_S)
        with socket.socket(socket.AF_UNIX) as daemon:
            try:
                daemon.connect(f"{pipe}/control")
            except OSError:
                _log("Cannot find MPS control daemon process")
                return 1
            daemon.sendall(line.encode())
            reply = b""
            while piece := daemon.recv(_LONGEST):
                reply += piece
        first, _, answer = reply.decode().partition("\n")
        status = int(first or 0)
        if answer:
            _log(answer)
    return status


def _fault_word(fault: str) -> str:
    try:
        with open(fault, encoding="utf-8") as file:  # noqa: PTH123 - no pathlib here
            return file.read().strip()
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - no pathlib here
        file.write(text)


def _remove(path: str) -> None:
    try:  # noqa: SIM105 - no contextlib here
        os.unlink(path)  # noqa: PTH108 - no pathlib here
    except FileNotFoundError:
        pass


def _call_itself(name: str) -> None:
    """The name under which the kernel shows this process; it keeps 15 bytes."""
    _write("/proc/self/comm", name[:15])


def _log(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
