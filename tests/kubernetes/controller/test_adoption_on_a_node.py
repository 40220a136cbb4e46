"""A genuine node is taken over from another device plugin and given back: how long kubelet has no device."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from support.bad_days import RECOVERY
from support.genuine_cluster import GenuineCluster
from support.genuine_node import NODE_NAME, until
from support.helm import IMAGE
from support.installed_agent import GPU, TWO_GPUS, InstalledAgent, gpu_pod, installed_agent
from support.nvidia_operator import LABELS, OPERATOR, SETS
from tonnage.adapters.kubelet.device_holders import KubeletFiles
from tonnage.model.errors import ClusterError

pytestmark = [pytest.mark.kubernetes, pytest.mark.node]

_LOOK_S: Final = 0.05
_PLUGIN: Final = """\
import os, signal
from concurrent.futures import ThreadPoolExecutor
from threading import Event
import grpc
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as wire
from tonnage.wire.kubelet import methods

FOLDER, NAME = "/var/lib/kubelet/device-plugins", "theirs.sock"
over = Event()
devices = [wire.Device(ID=uuid, health="Healthy") for uuid in os.environ["UUIDS"].split(",")]

def watch(request, context):
    yield wire.ListAndWatchResponse(devices=devices)
    over.wait()

def allocate(request, context):
    given = [wire.ContainerAllocateResponse() for _ in request.container_requests]
    return wire.AllocateResponse(container_responses=given)

def unary(method, answer):
    return grpc.unary_unary_rpc_method_handler(
        answer, method.request.FromString, method.response.SerializeToString
    )

server = grpc.server(ThreadPoolExecutor(4))
stream = methods.LIST_AND_WATCH
watching = grpc.unary_stream_rpc_method_handler(
    watch, stream.request.FromString, stream.response.SerializeToString
)
handlers = {
    "GetDevicePluginOptions": unary(methods.GET_OPTIONS, lambda *_: wire.DevicePluginOptions()),
    "ListAndWatch": watching,
    "Allocate": unary(methods.ALLOCATE, allocate),
}
service = grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", handlers)
server.add_generic_rpc_handlers((service,))
server.add_insecure_port(f"unix:{FOLDER}/{NAME}")
server.start()
with grpc.insecure_channel(f"unix:{FOLDER}/kubelet.sock") as channel:
    call = methods.REGISTER
    register = channel.unary_unary(
        call.path, call.request.SerializeToString, call.response.FromString
    )
    register(wire.RegisterRequest(version="v1beta1", endpoint=NAME, resource_name="nvidia.com/gpu"))
signal.signal(signal.SIGTERM, lambda *_: over.set())
over.wait()
os.unlink(f"{FOLDER}/{NAME}")
"""
"""A device plugin that offers what it is told, as NVIDIA's would: with Python and gRPC of Tonnage's image."""


def _theirs(image: str) -> Iterator[dict[str, Any]]:
    """NVIDIA's operator, without what it does beside, and its plugin."""
    labels = {"app": "gpu-operator", "app.kubernetes.io/component": "gpu-operator"}
    never = {"image": image, "imagePullPolicy": "Never", "name": "main"}
    stay = {**never, "command": ["python3", "-c", "import signal; signal.sigwait({signal.SIGTERM})"]}
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR}}
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "gpu-operator", "namespace": OPERATOR, "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [stay]}},
        },
    }
    uuids = ",".join(gpu.identity for gpu in TWO_GPUS.gpus)
    plugin = {
        **never,
        "command": ["python3", "-c", _PLUGIN],
        "env": [{"name": "UUIDS", "value": uuids}],
        "securityContext": {"runAsUser": 0, "privileged": True},
        "volumeMounts": [{"name": "plugins", "mountPath": "/var/lib/kubelet/device-plugins"}],
    }
    folder = {"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
    name = SETS["device-plugin"]
    pods = {
        "nodeSelector": {"nvidia.com/gpu.deploy.device-plugin": "true"},
        "containers": [plugin],
        "volumes": [folder],
    }
    yield {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": OPERATOR},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pods},
        },
    }


@dataclass
class Looks:
    """What kubelet and the Node have shown, look by look."""

    kubelet: list[tuple[float, int]] = field(default_factory=list)
    node: list[tuple[float, int, bool]] = field(default_factory=list)

    def gap_s(self) -> float:
        """From the first to the last look at which kubelet had no device."""
        empty = [moment for moment, count in self.kubelet if not count]
        return max(empty) - min(empty) if empty else 0.0

    def cordon_s(self) -> float:
        cordoned = [moment for moment, _, cordon in self.node if cordon]
        return max(cordoned) - min(cordoned) if cordoned else 0.0

    def words(self) -> str:
        """The figures."""
        shown = sorted({count for _, count, _ in self.node})
        times = f"kubelet without devices {self.gap_s():.2f} s, cordoned {self.cordon_s():.1f} s"
        return f"{times}, Node showed {shown}"


@contextmanager
def looked_at(cluster: GenuineCluster) -> Iterator[Looks]:
    """Ask kubelet and the API server again and again meanwhile."""
    looks, over = Looks(), threading.Event()

    async def ask_kubelet() -> None:
        kubelet = KubeletFiles(Path(f"/proc/{cluster.node.pid('kubelet')}/root/var/lib/kubelet"))
        try:
            while not over.is_set():
                try:
                    count = sum(resource == GPU for resource, _ in await kubelet.replicas())
                except ClusterError:
                    count = 0
                looks.kubelet.append((time.monotonic(), count))
                await asyncio.sleep(_LOOK_S)
        finally:
            await kubelet.close()

    def ask_server() -> None:
        while not over.is_set():
            node = cluster.get("node", NODE_NAME)
            count = int(node["status"]["allocatable"].get(GPU, 0))
            looks.node.append((time.monotonic(), count, bool(node["spec"].get("unschedulable"))))

    threads = [
        threading.Thread(target=lambda: asyncio.run(ask_kubelet())),
        threading.Thread(target=ask_server),
    ]
    for thread in threads:
        thread.start()
    try:
        yield looks
    finally:
        over.set()
        for thread in threads:
            thread.join(60)


@pytest.fixture
def adopting(cluster: GenuineCluster, agent_version: str) -> Iterator[InstalledAgent]:
    """NVIDIA's plugin serves, and Tonnage's agent waits beside it."""
    cluster.kubectl("label", "node", NODE_NAME, *(f"{key}={value}" for key, value in LABELS.items()))
    image = f"registry.example.com/tonnage:{agent_version}"
    cluster.node.ctr("images", "tag", "--force", f"{IMAGE}:{agent_version}", image)
    cluster.apply(*_theirs(image))
    values = {"adoption": {"enabled": True}, "features": {"publish": "none"}}
    try:
        with installed_agent(cluster, agent_version, values=values) as agent:
            yield agent
    except AssertionError as error:
        error.add_note(cluster.kubectl("describe", "pods", "-n", OPERATOR, check=False))
        raise
    finally:
        cluster.kubectl("delete", "namespace", OPERATOR, "--ignore-not-found")
        cluster.kubectl("label", "node", NODE_NAME, *(f"{key}-" for key in LABELS), "tonnage.dev/adopted-")
        cluster.kubectl("uncordon", NODE_NAME)
        cluster.node.ctr("images", "rm", image)


def _hand_over(cluster: GenuineCluster, verb: str) -> Looks:
    with looked_at(cluster) as looks:
        ended = cluster.tonnage("operator", verb)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "1 of 1 nodes are done." in ended.stdout, ended.stdout
    return looks


def test_a_node_is_adopted_and_released(
    adopting: InstalledAgent, cluster: GenuineCluster, record_property: Callable[[str, object], None]
) -> None:
    """While a pod has a GPU. kubelet has devices of one plugin or of the other, and none in between only."""
    cluster.apply(gpu_pod("holder"))
    until(lambda: cluster.phase("holder") == "Running")
    try:
        looks = _hand_over(cluster, "adopt")
        record_property(RECOVERY, f"adopt: {looks.words()}")
        assert adopting.status()["resources"][0]["allocatable"] == len(TWO_GPUS.gpus)
        assert cluster.allocatable(GPU) == len(TWO_GPUS.gpus)
        assert not cluster.get("pods", "-n", OPERATOR).get("items")
        assert cluster.phase("holder") == "Running"

        looks = _hand_over(cluster, "release")
        record_property(RECOVERY, f"release: {looks.words()}")
        assert adopting.status()["resources"] == []
        assert cluster.allocatable(GPU) == len(TWO_GPUS.gpus)
        assert cluster.phase("holder") == "Running"
        assert json.dumps(cluster.get("node", NODE_NAME)["metadata"]).count("tonnage.dev/adopt") == 0
    finally:
        cluster.kubectl("delete", "pod", "holder", "--now", "--ignore-not-found")
