"""From a fault of a device on a genuine node to the Node's allocatable, and from its recovery back to it.

kubelet hears of it within milliseconds and says so when it next reports its node: every 2 s here, 10 s by
default.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from support.agent_process import AgentProcess
from support.bad_days import DEVICES
from support.genuine_cluster import GenuineCluster, genuine_cluster
from support.genuine_node import until
from support.images import busybox_archive
from support.leftovers import own_folder
from support.load import GPU


def measure(rounds: int) -> dict[str, list[float]]:
    """Seconds until the API server says so."""
    out: list[float] = []
    back: list[float] = []
    with own_folder() as folder:
        busybox_archive(folder)
        with genuine_cluster(folder, images=[folder / "busybox.tar"]) as cluster:
            agent = AgentProcess(
                cluster, folder, devices=DEVICES, config="version: v1\n", url=cluster.plane.url
            )
            try:
                agent.start()
                until(lambda: cluster.allocatable(GPU) == len(DEVICES))
                for _ in range(rounds):
                    out.append(_took_s(cluster, len(DEVICES) - 1, lambda: _write(folder, "lost")))
                    back.append(_took_s(cluster, len(DEVICES), lambda: _write(folder, "healthy")))
            finally:
                agent.close()
    return {
        "GPU lost to the Node's allocatable, s (kubelet reports every 2 s)": out,
        "GPU back to the Node's allocatable, s (watched for 5 s, then twice as long)": back,
    }


def _took_s(cluster: GenuineCluster, count: int, deed: Callable[[], None]) -> float:
    started = time.monotonic()
    deed()
    until(lambda: cluster.allocatable(GPU) == count)
    return time.monotonic() - started


def _write(folder: Path, health: str) -> None:
    """The hardware with its last device so."""
    devices = [{"uuid": uuid, "model": "T4"} for uuid in DEVICES]
    devices[-1]["health"] = health
    made = folder / ".hardware.yaml"
    made.write_text(json.dumps({"devices": devices}))
    made.replace(folder / "hardware.yaml")
