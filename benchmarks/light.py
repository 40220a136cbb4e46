"""Thousands of nodes and pods: the twin's light fleets, and a genuine control plane on the same processors.

The clients run in this process, so that they share the processors with the server, as they would.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing

from benchmarks import watches
from benchmarks.control_planes import LIMIT_S, Server, cpu_s, genuine, resident_mb, twin
from tonnage.cli.locations.binaries import find_binaries
from tonnage.model.errors import ConfigError

NODES = 10_000
FEWER_NODES = 2_000
PODS = 4_000
CLIENTS = 8
_NODES = "/api/v1/nodes"
_PODS = "/api/v1/namespaces/default/pods"


def measure(rounds: int) -> dict[str, list[float]]:
    """A large fleet, many pods, many watches; the genuine side is left out without its programs."""
    figures: dict[str, list[float]] = {}
    with twin(NODES) as server:
        figures[f"light fleet of {NODES} nodes: resident memory, MB (wanted: under 400)"] = [
            resident_mb(server)
        ]
        name = f"  LIST of {NODES} nodes over TLS, ms (wanted: under 150)"
        figures[name] = [1000 * _timed(lambda: _list(server, _NODES)) for _ in range(4 * rounds)]
        figures["  from the fleet's start until all nodes are there, CPU s"] = [cpu_s(server)]
    with twin(FEWER_NODES) as server:
        figures |= _figures("twin", server, rounds, wanted=" (wanted: under 15)")
    try:
        binaries = find_binaries(os.environ).folder
    except ConfigError as error:
        print(f"left out: a genuine control plane ({error.problems[0].remedy})", file=sys.stderr)
        return figures
    with genuine(binaries, FEWER_NODES) as server:
        try:
            return figures | _figures("genuine", server, rounds)
        except TimeoutError as error:
            print(f"left out: a genuine control plane ({error})", file=sys.stderr)
    return figures


def _figures(side: str, server: Server, rounds: int, wanted: str = "") -> dict[str, list[float]]:
    """What both sides are asked for. Raises TimeoutError as `_bind` does."""
    lists = [1000 * _timed(lambda: _list(server, _NODES)) for _ in range(4 * rounds)]
    before = cpu_s(server)
    bound = [_bind(server)]
    return {
        f"{side}: LIST of {FEWER_NODES} nodes over TLS, ms": lists,
        f"{side}: {PODS} pods bound on {FEWER_NODES} nodes, s{wanted}": bound,
        f"{side}:   CPU of all its processes for it, s": [cpu_s(server) - before],
        f"{side}:   resident memory of all its processes then, MB": [resident_mb(server)],
        **watches.measure(side, server),
    }


def _list(server: Server, path: str) -> None:
    with closing(server.open()) as connection:
        connection.connect()
        server.ask(connection, "GET", path)


def _bind(server: Server) -> float:
    """Seconds from the first post to the event that shows the last pod with a node.

    Raises:
        TimeoutError: not all are bound by `LIMIT_S`.
    """
    resources = {"limits": {"nvidia.com/gpu": "1"}}
    container = {"name": "main", "image": "busybox", "resources": resources}

    def post(first: int) -> None:
        with closing(server.open()) as connection:
            for number in range(first, PODS, CLIENTS):
                body = {"metadata": {"name": f"pod-{number}"}, "spec": {"containers": [container]}}
                server.ask(connection, "POST", _PODS, body)

    started = time.perf_counter()
    threads = [threading.Thread(target=post, args=(first,)) for first in range(CLIENTS)]
    for thread in threads:
        thread.start()
    bound: set[str] = set()
    while len(bound) < PODS and (left_s := started + LIMIT_S - time.perf_counter()) > 0:
        bound |= _follow(server, bound, int(left_s) + 1)
    taken = time.perf_counter() - started
    for thread in threads:
        thread.join()
    if len(bound) < PODS:
        raise TimeoutError(f"{len(bound)} of {PODS} pods bound after {taken:.0f} s")
    return taken


def _follow(server: Server, known: set[str], most_s: int) -> set[str]:
    """Names of pods with a node, from a list and a watch, until all are or the server ends the watch.

    A genuine server ends that of a reader who is too slow for it.
    """
    bound = set(known)
    with closing(server.open()) as connection:
        listed = json.loads(server.ask(connection, "GET", _PODS))
        bound |= {pod["metadata"]["name"] for pod in listed["items"] if pod["spec"].get("nodeName")}
        since = f"watch=1&resourceVersion={listed['metadata']['resourceVersion']}&timeoutSeconds={most_s}"
        with server.start(connection, "GET", f"{_PODS}?{since}") as events:
            for line in events if len(bound) < PODS else ():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    break
                if event["object"]["spec"].get("nodeName"):
                    bound.add(event["object"]["metadata"]["name"])
                if len(bound) == PODS:
                    break
    return bound


def _timed(deed: Callable[[], None]) -> float:
    started = time.perf_counter()
    deed()
    return time.perf_counter() - started
