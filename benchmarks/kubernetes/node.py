"""A genuine node with the agent installed: how long a container takes to start, with a GPU and without."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from support.genuine_cluster import GenuineCluster, genuine_cluster
from support.genuine_node import until
from support.images import agent_archive, busybox_archive
from support.installed_agent import gpu_pod, installed_agent
from support.leftovers import own_folder
from tonnage import __version__

PODS: Final = 20
_SAY_WHEN: Final = "cat /proc/uptime; trap exit TERM; sleep 2147483647 & wait"
"""Seconds since the machine started, to the hundredth: the same for the container and for us."""


def measure(_rounds: int) -> dict[str, list[float]]:
    """Seconds from the pod's creation to its first instruction; pods with and without a GPU in turns."""
    times: dict[str, list[float]] = {
        "pod created to container started, without a GPU, s": [],
        "pod created to container started, one GPU, s": [],
    }
    with node_with_agent() as cluster:
        for number in range(PODS):
            for gpus, values in enumerate(times.values()):
                values.append(_started_s(cluster, f"pod-{number}-{gpus}", gpus))
    plain, with_gpu = times.values()
    paired = [gpu - none for none, gpu in zip(plain, with_gpu, strict=True)]
    return {**times, "  the difference, which is device manager and agent, s": paired}


@contextmanager
def node_with_agent() -> Iterator[GenuineCluster]:
    """Two GPUs, the agent from the checkout's image and chart."""
    with own_folder() as folder:
        busybox_archive(folder)
        agent_archive(folder)
        images = [folder / "busybox.tar", folder / "agent-checkout.tar"]
        with genuine_cluster(folder, images=images) as cluster, installed_agent(cluster, __version__):
            yield cluster


def _started_s(cluster: GenuineCluster, name: str, gpus: int) -> float:
    pod = gpu_pod(name, gpus)
    pod["spec"]["containers"][0]["command"] = ["sh", "-c", _SAY_WHEN]
    body = json.dumps(pod)
    created = _uptime_s(Path("/proc/uptime").read_text())
    cluster.kubectl("create", "-f", "-", standard_input=body)
    until(lambda: bool(cluster.kubectl("logs", name, check=False)))
    started = _uptime_s(cluster.kubectl("logs", name))
    cluster.kubectl("delete", "pod", name, "--now")
    return started - created


def _uptime_s(text: str) -> float:
    return float(text.split(maxsplit=1)[0])
