"""What `tonnage metrics cluster` and `top` cost on a thousand nodes with four thousand pods."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from contextlib import closing, suppress
from typing import Final

from benchmarks import light
from benchmarks.cluster import TONNAGE
from benchmarks.control_planes import Server, cpu_s, resident_mb, twin

NODES: Final = 1_000
GPUS: Final = 8
INTERVAL_S: Final = 30
READINGS: Final = 3
SCRAPES: Final = 20
_PATIENCE_S: Final = 120.0
_REPORTS: Final = "/apis/tonnage.dev/v1alpha1/nodegpustatuses"
_UNKNOWN: Final = {"cdi": "on", "cdiReason": "", "nri": "off", "nriReason": ""}


def measure(rounds: int) -> dict[str, list[float]]:
    """Seconds, megabytes, per cent of a core; the units are in the names."""
    with twin(NODES) as server:
        bound_s = light._bind(server)
        figures = {f"{light.PODS} pods bound on {NODES} nodes, s": [bound_s], **_collector(server)}
        _report(server)
        _report(server)
        environment = os.environ | {"KUBECONFIG": str(server.kubeconfig)}
        for words in ("top --once", "top --once --view pods"):
            runs = [_run(words.split(), environment) for _ in range(rounds)]
            name = f"tonnage {words}, {NODES} nodes of {GPUS} GPUs"
            figures[f"{name}: s"] = [seconds for seconds, _ in runs]
            figures[f"{name}: processor, s"] = [busy for _, busy in runs]
    return figures


def _report(server: Server) -> None:
    """What each node's agent would have published."""
    none = dict.fromkeys(
        ("topologyManagerPolicy", "topologyManagerScope", "cpuManagerPolicy", "memoryManagerPolicy"), "none"
    )
    status = {
        "updatedAt": "2026-01-01T00:00:00Z",
        "deviceCount": GPUS,
        "healthyCount": GPUS,
        "resources": [],
        "config": {"source": "built-in"},
        "runtime": {"name": "containerd", "version": "2.1", **_UNKNOWN},
        "kubelet": {"version": "v1.35.8", **none, "sources": [], "reason": ""},
    }
    product = {"product": "NVIDIA H100 80GB HBM3", "memoryMiB": 81559, "health": "Healthy"}
    headers = {"authorization": f"Bearer {server.token}", "content-type": "application/merge-patch+json"}
    with closing(server.open()) as connection:
        for number in range(NODES):
            name = f"light-{number}"
            body = {"apiVersion": "tonnage.dev/v1alpha1", "kind": "NodeGPUStatus", "metadata": {"name": name}}
            with suppress(ValueError):  # it is there
                server.ask(connection, "POST", _REPORTS, body)
            status["devices"] = [
                {"uuid": f"GPU-{number}-{index}", "index": index, **product} for index in range(GPUS)
            ]
            patch = json.dumps({"status": status})
            connection.request("PATCH", f"{_REPORTS}/{name}/status", patch, headers)
            connection.getresponse().read()


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


def _run(words: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Seconds by the clock and of the processor."""
    began, before = time.perf_counter(), os.times()
    subprocess.run(
        [TONNAGE, *words], env=environment, stdout=subprocess.DEVNULL, check=True, timeout=_PATIENCE_S
    )
    after = os.times()
    busy = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - began, busy
