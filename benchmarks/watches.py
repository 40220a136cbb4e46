"""How soon those who watch are told of a write: one of a thousand watches, and the real kubectl.

The clients run in this process, so that they share the processors with the server, as they would.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from contextlib import closing

from benchmarks.control_planes import Server
from tonnage.cli.kubectl import kubectl_binary

WATCHES = 1_000
WRITES_A_SECOND = 100
SECONDS = 10
WRITES = 50
"""That kubectl is to show."""
_MAPS = "/api/v1/namespaces/default/configmaps"


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


async def _watch_and_write(server: Server) -> tuple[list[float], float]:
    """Milliseconds from the answer to a write to its event, and how many writes a second were done."""
    version = server.version(_MAPS)
    path = f"{_MAPS}?watch=1&resourceVersion={version}"
    head = f"GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {server.token}\r\n\r\n".encode()
    arrived: dict[str, float] = {}
    told = 0

    async def follow(*, note: bool) -> None:
        nonlocal told
        reader, writer = await asyncio.open_connection(server.host, server.port, ssl=server.context)
        writer.write(head)
        while line := await reader.readline():
            if line.startswith(b'{"type"'):
                told += 1
                if note:
                    name = json.loads(line)["object"]["metadata"]["name"]
                    arrived.setdefault(name, time.perf_counter())

    watchers = [asyncio.ensure_future(follow(note=number == 0)) for number in range(WATCHES)]
    await asyncio.sleep(15)
    answered: dict[str, float] = {}
    started = time.perf_counter()
    await asyncio.to_thread(_write, server, answered)
    rate = len(answered) / (time.perf_counter() - started)
    for _ in range(300):
        if told >= WATCHES * len(answered):
            break
        await asyncio.sleep(0.1)
    assert told == WATCHES * len(answered), f"{told} events of {WATCHES * len(answered)}"
    for watcher in watchers:
        watcher.cancel()
    await asyncio.gather(*watchers, return_exceptions=True)
    return [1000 * max(arrived[name] - moment, 0.0) for name, moment in answered.items()], rate


def _write(server: Server, answered: dict[str, float]) -> None:
    """Write at an even pace; a write that is late is not made up for."""
    with closing(server.open()) as connection:
        for number in range(WRITES_A_SECOND * SECONDS):
            due = time.perf_counter() + 1 / WRITES_A_SECOND
            body = {"metadata": {"name": f"map-{number}"}}
            server.ask(connection, "POST", _MAPS, body)
            answered[f"map-{number}"] = time.perf_counter()
            time.sleep(max(0.0, due - time.perf_counter()))
