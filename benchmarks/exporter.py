"""The page of device metrics beside prometheus_client with the same rows: each a process, scraped in turn.

The agent reads the pretended driver of the tests, with dcgm-exporter's default counters; kubelet's list gives
every replica, or MIG device, to a pod of its own.
"""

from __future__ import annotations

import http.client
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.agent_memory import measure_memory
from benchmarks.plugin_kubelet import p50, p99
from benchmarks.plugin_sides import (
    Node,
    Running,
    made_node,
    running,
    tonnage,
    without_cluster,
)
from support.nvml.state import Rule

SCRAPES = 200
SETTLE_S = 4.0
READINGS = 15
DEFAULT_INTERVAL_S = 30.0
_AGE: Final = re.compile(
    r'^tonnage_exporter_reading_age_seconds{UUID="[^"]*",gpu="([0-9]+)"} (.*)$', re.MULTILINE
)

Figures = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Side:
    """A process that serves a page."""

    port: int
    pid: int

    def processor_s(self) -> float:
        """Processor time so far, of threads that ended as well."""
        counts = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(counts[11]) + int(counts[12])) / os.sysconf("SC_CLK_TCK")

    def page(self) -> str:
        """One scrape, by a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return text


def measure(rounds: int) -> Figures:
    """Milliseconds, lines, megabytes, per cent of a core; the units are in the names."""
    figures: Figures = {}
    for what, replicas, parts, wanted in (
        ("8 GPUs, 4 sharers each", 4, 0, "wanted: p50 under 10 ms, processor under 3"),
        ("8 GPUs of 7 MIG devices", 1, 7, "wanted: p50 under 20 ms"),
    ):
        with made_node(8, replicas, parts) as node:
            resource = "nvidia.com/mig-1g.10gb" if parts else "nvidia.com/gpu"
            node.kubelet.holders = {resource: node.ids}
            with _exporter(node, "--kubernetes-virtual-gpus", "--collect-interval", "1000") as (agent, ours):
                _until(lambda ours=ours: "DCGM_FI_PROF_DRAM_ACTIVE{" in ours.page())  # type: ignore[misc]
                _scraped(figures, what, wanted, ours, rounds)
                _fresh(figures, what, agent, ours, rounds)
    return figures | _reading() | _hanging() | _memory()


def _scraped(figures: Figures, what: str, wanted: str, ours: Side, rounds: int) -> None:
    page = ours.page()
    rows = sum(not line.startswith("#") for line in page.splitlines())
    figures[f"{what}: lines ({wanted})"] = [float(rows)]
    with _library(page) as library:
        for _ in range(rounds):
            for name, side in (("tonnage", ours), ("prometheus_client", library)):
                before = side.processor_s()
                took = [_ms(side.page) for _ in range(SCRAPES)]
                busy = (side.processor_s() - before) / SCRAPES * 1000
                for figure, value in (("p50", p50(took)), ("p99", p99(took)), ("processor", busy)):
                    figures.setdefault(f"  {what}: scrape, {name}: {figure}, ms", []).append(value)


def _hanging() -> Figures:
    """One GPU of eight hangs: scrapes go on, and the others are read."""
    with made_node(8, 4) as node, _exporter(node, "--collect-interval", "1000") as (_, ours):
        node.rule(Rule("hang", "*", slot=3))
        _until(lambda: not re.search(r'^DCGM_FI_DEV_GPU_TEMP{gpu="3"', ours.page(), re.MULTILINE))
        took = [_ms(ours.page) for _ in range(SCRAPES)]
        ages = dict(_AGE.findall(ours.page()))
        node.rule()
    del ages["3"]
    return {
        "one GPU of 8 hangs: scrape, tonnage: p50, ms": [p50(took)],
        "  oldest reading of the other 7, s (interval: 1)": [max(map(float, ages.values()))],
    }


def _reading() -> Figures:
    """What it costs to read the devices, by an agent that reads once a second, beside one that never does."""
    with made_node(8, 4) as node:
        node.kubelet.holders = {"nvidia.com/gpu": node.ids}
        with _exporter(node, "--collect-interval", "1000", "--kubernetes-virtual-gpus") as (agent, _):
            busy = _busy(agent)
    with made_node(8, 4) as node, running("tonnage", _standalone, node) as agent:
        idle = _busy(agent)
    reading_ms = max(0.0, busy - idle) / READINGS * 1000
    share = reading_ms / 1000 / DEFAULT_INTERVAL_S * 100
    return {
        "reading 8 GPUs once: processor, ms": [reading_ms],
        "  at the default interval: per cent of a core (wanted: under 1)": [share],
    }


def _fresh(figures: Figures, what: str, agent: Running, ours: Side, rounds: int) -> None:
    """What the first scrape after a reading costs, as each is that comes as seldom as devices are read.

    The agent reads once a second: a turn with a scrape in each second, and one without, as often as there are
    rounds.
    """
    for _ in range(rounds):
        took: list[float] = []
        alone = _busy(agent)
        scraped = _busy(agent, lambda took=took: took.append(_ms(ours.page)))  # type: ignore[misc]
        fresh_ms = max(0.0, scraped - alone) / READINGS * 1000
        for figure, value in (("p50", p50(took)), ("processor", fresh_ms)):
            name = f"  {what}: first scrape after a reading, tonnage: {figure}, ms"
            figures.setdefault(name, []).append(value)


def _memory() -> Figures:
    port = _free_port()

    def scraped(pid: int) -> None:
        side = Side(port, pid)
        _until(lambda: "DCGM_FI_DEV_FB_USED{" in side.page())
        for _ in range(SCRAPES):
            side.page()

    return measure_memory(port, scraped)


def _busy(agent: Running, often: Callable[[], object] = lambda: None) -> float:
    """Processor seconds of as many seconds as there are readings; once in each this is called."""
    time.sleep(SETTLE_S)
    before = agent.processor_s()
    for _ in range(READINGS):
        time.sleep(1)
        often()
    return agent.processor_s() - before


def _standalone(node: Node) -> subprocess.Popen[bytes]:
    return tonnage(node, "--standalone")


@contextmanager
def _exporter(node: Node, *flags: str) -> Iterator[tuple[Running, Side]]:
    """The agent with the page, once it shows every device."""
    port = _free_port()

    def start(made: Node) -> subprocess.Popen[bytes]:
        return tonnage(made, "--standalone", "--exporter-address", f"127.0.0.1:{port}", *flags)

    with running("tonnage", start, node) as agent:
        side = Side(port, agent.process.pid)
        _until(lambda: "DCGM_FI_DEV_FB_USED{" in side.page())
        time.sleep(SETTLE_S)
        yield agent, side


@contextmanager
def _library(page: str) -> Iterator[Side]:
    """prometheus_client's own server with the families of this page."""
    port = _free_port()
    command = [sys.executable, "-m", "benchmarks.exporter_floor", str(port)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, env=without_cluster())
    try:
        assert process.stdin is not None
        process.stdin.write(page.encode())
        process.stdin.close()
        side = Side(port, process.pid)
        _until(lambda: bool(side.page()))
        yield side
    finally:
        process.kill()
        process.wait()


def _until(ready: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            if ready():
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise TimeoutError("the page did not come in a minute")


def _ms(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
