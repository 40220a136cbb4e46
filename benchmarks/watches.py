"""How soon those who watch are told of a write: one of a thousand watches, and the real kubectl.

The clients run on the same machine, so that they share the processors with the server, as they would.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import subprocess
import time
from contextlib import closing
from functools import partial
from multiprocessing.connection import Connection
from typing import Final

from benchmarks.control_planes import Server
from tonnage.cli.locations.kubectl import kubectl_binary

WATCHES = 1_000
WRITES_A_SECOND = 100
SECONDS = 10
WRITES = 50
"""That kubectl is to show."""
_MAPS = "/api/v1/namespaces/default/configmaps"
_EVENT: Final = b'{"type"'


def measure(side: str, server: Server) -> dict[str, list[float]]:
    """Of one side; what it is wanted to be is said of the twin."""
    wanted = " (wanted: under 20)" if side == "twin" else ""
    seen = _kubectl_lags(server)
    lags, rate = asyncio.run(_watch_and_write(server))
    return {
        f"{side}: from a write to the line of kubectl get --watch, ms{wanted}": seen,
        f"{side}: {WATCHES} watches, {WRITES_A_SECOND} writes/s asked: writes/s done": [rate],
        f"{side}:   from a write's answer to one watch's event, ms{wanted}": lags,
    }


def _kubectl_lags(server: Server) -> list[float]:
    """Milliseconds from the start of a write until the real kubectl has printed its event."""
    command = [str(kubectl_binary("1.35")), "--kubeconfig", str(server.kubeconfig), "get", "configmaps"]
    with (
        closing(server.open()) as connection,
        subprocess.Popen([*command, "--watch", "-o", "name"], stdout=subprocess.PIPE, text=True) as kubectl,
    ):
        assert kubectl.stdout is not None
        lags = []
        try:
            for number in range(WRITES):
                name = f"seen-{number}"
                started = time.perf_counter()
                server.ask(connection, "POST", _MAPS, {"metadata": {"name": name}})
                while kubectl.stdout.readline() != f"configmap/{name}\n":
                    pass
                lags.append(1000 * (time.perf_counter() - started))
                time.sleep(1 / WRITES_A_SECOND)
        finally:
            kubectl.terminate()
    return lags[1:]  # the first one waits for kubectl to start


class _Follower(asyncio.Protocol):
    """A watch that only counts what it is told."""

    told = 0
    """Events, to all of them."""

    def __init__(self, head: bytes) -> None:
        self._head = head
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._head)

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        _Follower.told += data.count(_EVENT)
        self._rest = data[1 - len(_EVENT) :]


class _Noter(_Follower):
    """It also reads when it was told of each object first."""

    def __init__(self, head: bytes) -> None:
        super().__init__(head)
        self.arrived: dict[str, float] = {}
        self._line = b""

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            if line.startswith(_EVENT):
                self.arrived.setdefault(json.loads(line)["object"]["metadata"]["name"], now)
        super().data_received(data)


def _same(follower: _Follower) -> _Follower:
    return follower


async def _watch_and_write(server: Server) -> tuple[list[float], float]:
    """Milliseconds from the answer to a write to its event, and how many writes a second were done."""
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()
    # A process of its own: as a thread it would wait for the interpreter that the watches keep busy.
    writer = fork.Process(target=_write, args=(server, theirs))
    writer.start()
    path = f"{_MAPS}?watch=1&resourceVersion={server.version(_MAPS)}"
    head = f"GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {server.token}\r\n\r\n".encode()
    noter = _Noter(head)
    loop = asyncio.get_running_loop()
    _Follower.told = 0
    followers = [noter, *(_Follower(head) for _ in range(WATCHES - 1))]
    open_one = partial(loop.create_connection, host=server.host, port=server.port, ssl=server.context)
    opened = await asyncio.gather(*(open_one(partial(_same, one)) for one in followers))
    await asyncio.sleep(15)
    ours.send("begin")
    said = asyncio.Event()
    loop.add_reader(ours.fileno(), said.set)
    await said.wait()
    loop.remove_reader(ours.fileno())
    answered, taken_s = ours.recv()
    writer.join()
    for _ in range(300):
        if _Follower.told >= WATCHES * len(answered):
            break
        await asyncio.sleep(0.1)
    assert _Follower.told == WATCHES * len(answered), f"{_Follower.told} events of {WATCHES * len(answered)}"
    for transport, _ in opened:
        transport.close()
    lags = [1000 * max(noter.arrived[name] - moment, 0.0) for name, moment in answered.items()]
    return lags, len(answered) / taken_s


def _write(server: Server, pipe: Connection) -> None:
    """Write at an even pace once told to, as far as the server keeps up with it."""
    pipe.recv()
    answered: dict[str, float] = {}
    started = time.perf_counter()
    with closing(server.open()) as connection:
        for number in range(WRITES_A_SECOND * SECONDS):
            body = {"metadata": {"name": f"map-{number}"}}
            server.ask(connection, "POST", _MAPS, body)
            answered[f"map-{number}"] = time.perf_counter()
            due = started + (number + 1) / WRITES_A_SECOND
            time.sleep(max(0.0, due - time.perf_counter()))
    pipe.send((answered, time.perf_counter() - started))
