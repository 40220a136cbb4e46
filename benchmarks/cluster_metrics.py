"""What `tonnage metrics cluster` and `top` cost on a thousand nodes with four thousand pods."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from contextlib import closing
from typing import Final

from benchmarks import light
from benchmarks.cluster import TONNAGE
from benchmarks.control_planes import Server, cpu_s, resident_mb, twin

NODES: Final = 1_000
INTERVAL_S: Final = 30
READINGS: Final = 3
SCRAPES: Final = 20
_PATIENCE_S: Final = 120.0


def measure(rounds: int) -> dict[str, list[float]]:
    """Seconds, megabytes, per cent of a core; the units are in the names."""
    with twin(NODES) as server:
        bound_s = light._bind(server)
        figures = {f"{light.PODS} pods bound on {NODES} nodes, s": [bound_s], **_collector(server)}
        environment = os.environ | {"KUBECONFIG": str(server.kubeconfig)}
        for name, words in (
            ("top --once", ["top", "--once"]),
            ("top --once --view pods", ["top", "--once", "--view", "pods"]),
        ):
            figures[f"tonnage {name} of {NODES} nodes, s"] = [_run(words, environment) for _ in range(rounds)]
    return figures


def _collector(server: Server) -> dict[str, list[float]]:
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    environment = os.environ | {"KUBECONFIG": str(server.kubeconfig)}
    command = [TONNAGE, "metrics", "cluster", "--address", address, "--interval", str(INTERVAL_S)]
    began = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        collector = Server.of(server.kubeconfig, process.pid)
        while "tonnage_cluster_resource_capacity{" not in _page(address):
            if time.perf_counter() - began > _PATIENCE_S:
                raise TimeoutError("metrics cluster shows no node")
            time.sleep(0.1)
        first_s, before, of_server = time.perf_counter() - began, cpu_s(collector), cpu_s(server)
        time.sleep(READINGS * INTERVAL_S)
        busy, served = cpu_s(collector) - before, cpu_s(server) - of_server
        took = [_timed_page(address) for _ in range(SCRAPES)]
        return {
            f"metrics cluster of {NODES} nodes: start to first page, s": [first_s],
            f"  each reading at --interval {INTERVAL_S}: processor, s": [busy / READINGS],
            "  per cent of a core": [busy / READINGS / INTERVAL_S * 100],
            "  the API server meanwhile: per cent of a core": [served / READINGS / INTERVAL_S * 100],
            "  scrape, ms": [1000 * seconds for seconds in took],
            "  resident memory, MB": [resident_mb(collector)],
        }
    finally:
        process.terminate()
        process.wait(timeout=30)


def _page(address: str) -> str:
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
            text: str = answer.read().decode()
            return text
    except OSError:
        return ""


def _timed_page(address: str) -> float:
    began = time.perf_counter()
    _page(address)
    return time.perf_counter() - began


def _run(words: list[str], environment: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(
        [TONNAGE, *words], env=environment, stdout=subprocess.DEVNULL, check=True, timeout=_PATIENCE_S
    )
    return time.perf_counter() - began
