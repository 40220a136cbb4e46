"""Nodes that are only objects: kubelets and agents of thousands of them, with the delays of real ones.

A node's agent comes once the node is labelled and its image is pulled. Pods start, try their devices and end
after seconds, and every agent has a heartbeat each minute.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import yaml

from tonnage.decide.cluster.operate.node_metadata import metadata_changes
from tonnage.decide.cluster.operate.validation import APP, subject_of, validation_json
from tonnage.loop.informer import Delta, Informer
from tonnage.loop.refusals import passing_over
from tonnage.model.errors import ApiError, ClusterError
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.model.names import VALIDATED
from tonnage.model.validation import NodeStage, NodeValidation, Outcome, StageResult
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.reading.gpu_policy import gpu_policy_from, operated_node_from
from tonnage.wire.kinds import NODE, NODE_GPU_STATUS, POD
from tonnage.wire.nvidia import ClusterPolicy
from tonnage.wire.objects import Node, NodeGPUStatus, NodeStatus, ObjectMeta, Pod

POLICY: Final = Path(__file__).parents[2] / "tests/data/cluster-policy-26.7.yaml"
NAMESPACE: Final = "gpu-operator"
GPUS: Final = 8
AGENT_COMES_S: Final = (5.0, 20.0)
"""An image is pulled, a driver looked at, kubelet told."""
POD_ENDS_S: Final = (2.0, 5.0)
POD_STARTS_S: Final = (1.0, 3.0)
HEARTBEAT_S: Final = 60.0
_AT_ONCE: Final = 8
_AGAIN_S: Final = 1.0
_PRESENT: Final = "nvidia.com/gpu.present"
_OFFERED: Final = {
    "name": "nvidia.com/gpu",
    "sharing": "none",
    "devices": GPUS,
    "replicas": 1,
    "capacity": GPUS,
    "allocatable": GPUS,
    "allocated": 0,
}
_KUBELET: Final = {
    "version": "v1.35.8",
    **dict.fromkeys(("topologyManagerPolicy", "topologyManagerScope"), "none"),
    **dict.fromkeys(("cpuManagerPolicy", "memoryManagerPolicy"), "none"),
    "sources": ["/var/lib/kubelet/config.yaml"],
    "reason": "",
}
_RUNTIME: Final = {
    "name": "containerd",
    "version": "2.1",
    "cdi": "on",
    "cdiReason": "",
    "nri": "off",
    "nriReason": "",
}
_IMAGES: Final = 40
"""Kubelet names fifty at most."""


def _beat() -> str:
    """Dated ahead: a benchmark that gets too little of the processors silences no agent."""
    return timestamp(datetime.now(UTC) + timedelta(hours=1))


def report(number: int) -> dict[str, Any]:
    """What the agent of a board with eight H100 publishes."""
    now = timestamp(datetime.now(UTC))
    devices = [
        {
            "uuid": f"GPU-{number:08x}-{index:04x}-4000-8000-{number * GPUS + index:012x}",
            "index": index,
            "product": "NVIDIA H100 80GB HBM3",
            "memoryMiB": 81559,
            "memoryUsedMiB": 0,
            "health": "Healthy",
            "resource": "nvidia.com/gpu",
            "replicas": 1,
            "computeCapability": "9.0",
            "pciBusID": f"0000{index:04x}:00:00.0",
            "numaNode": index // 4,
            "links": [{"peers": [], "switches": True, "nvlinks": 18}],
        }
        for index in range(GPUS)
    ]
    return {
        "updatedAt": now,
        "heartbeatAt": _beat(),
        "deviceCount": GPUS,
        "healthyCount": GPUS,
        "driverVersion": "595.91.07",
        "cudaVersion": "13.1",
        "config": {"source": "built-in"},
        "resources": [_OFFERED],
        "devices": devices,
        "runtime": _RUNTIME,
        "kubelet": _KUBELET,
    }


def _image(number: int) -> dict[str, Any]:
    path = f"registry.example.com/team-{number % 7}/service-{number}"
    return {"names": [f"{path}@sha256:{number:064x}", f"{path}:v1.{number}"], "sizeBytes": 1 << 28}


def node_body(number: int, *, at_rest: bool) -> dict[str, Any]:
    """The Node; `at_rest` as a controller has left it that wants nothing more of it."""
    amounts = {"cpu": "128", "memory": "2Ti", "pods": "110"}
    labels: dict[str, Any] = {"kubernetes.io/hostname": f"gpu-{number}", "kubernetes.io/os": "linux"}
    annotations: dict[str, Any] = {}
    if at_rest:
        amounts["nvidia.com/gpu"] = str(GPUS)
        policy = gpu_policy_from(msgspec.convert(policy_body(), ClusterPolicy))
        changes: Any = metadata_changes(labels, {}, policy, devices=GPUS, divided=False)
        labels |= {label: value for label, value in changes["labels"].items() if value is not None}
        annotations = {**changes["annotations"], VALIDATED: "true"}
    status: Any = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"bootID": f"boot-{number}", "containerRuntimeVersion": "containerd://2.1"},
        "images": [_image(index) for index in range(_IMAGES)],
    }
    metadata = {"name": f"gpu-{number}", "labels": labels, "annotations": annotations}
    return {"metadata": metadata, "status": status}


def report_body(number: int) -> dict[str, Any]:
    """The NodeGPUStatus of a node that was validated."""
    metadata = ObjectMeta(name=f"gpu-{number}")
    status = report(number)
    operated = operated_node_from(
        Node(metadata=metadata, status=NodeStatus(node_info={"bootID": f"boot-{number}"})),
        NodeGPUStatus(metadata=metadata, status=status),
    )
    stages = tuple(StageResult(stage, Outcome.PASSED) for stage in NodeStage)
    validation = validation_json(NodeValidation(subject_of(operated), stages, datetime.now(UTC)))
    return {"metadata": {"name": metadata.name}, "status": {**status, "validation": validation}}


@cache
def policy_body() -> Any:
    """The policy that NVIDIA's chart renders, with every operand on."""
    document: Any = yaml.safe_load(POLICY.read_text(encoding="utf-8"))
    document["spec"]["nodeStatusExporter"] = {"enabled": True}
    return {"metadata": {"name": "cluster-policy"}, "spec": document["spec"]}


async def _answered(deed: Callable[[], Awaitable[None]]) -> bool:
    """Whether the server did: one that is busy is asked again, as kubelets do."""
    try:
        with passing_over(404, 409):
            await deed()
    except ApiError:
        raise
    except ClusterError:
        return False
    return True


class PretendedNodes:
    """`first` and `last` say when a node was labelled, reported and validated, by the monotonic clock."""

    def __init__(self, api: KubernetesApi, clock: Clock, count: int) -> None:
        self._api = api
        self.count = count
        self._random = Random(7)
        self._some = asyncio.Semaphore(_AT_ONCE)
        self.pods = Informer(api, POD, clock, namespace=NAMESPACE)
        self.nodes = Informer(api, NODE, clock)
        self.first: dict[str, float] = {}
        self.last: dict[str, float] = {}
        self.done: Counter[str] = Counter()
        self.running: set[str] = set()
        """Operands' pods that run."""
        self._group = asyncio.TaskGroup()
        self._seen: set[tuple[str, str]] = set()

    async def make(self, *, at_rest: bool = False) -> None:
        """Make the nodes; `at_rest`: their agents have reported, and each was validated."""
        await asyncio.gather(*(self._make(number, at_rest) for number in range(self.count)))

    async def run(self) -> None:
        """Be kubelet and agent of each until cancelled; fails with the first request that does."""
        self.pods.subscribe(self._pod_changed)
        self.nodes.subscribe(self._node_changed)
        async with asyncio.TaskGroup() as self._group:
            self._group.create_task(self.pods.run())
            self._group.create_task(self.nodes.run())

    async def beat(self) -> None:
        """Have every agent say each minute that its report still holds, until cancelled."""
        while True:
            for number in range(self.count):
                began = time.monotonic()
                body: Any = {"status": {"heartbeatAt": _beat()}}
                if ("reported", f"gpu-{number}") in self._seen:
                    await self._api.patch(NODE_GPU_STATUS, f"gpu-{number}", body, subresource="status")
                    self.done["heartbeats"] += 1
                await asyncio.sleep(max(HEARTBEAT_S / self.count - (time.monotonic() - began), 0))

    async def _make(self, number: int, at_rest: bool) -> None:
        node = node_body(number, at_rest=at_rest)
        async with self._some:
            await self._api.create(NODE, {"metadata": node["metadata"]})
            await self._api.patch(NODE, f"gpu-{number}", {"status": node["status"]}, subresource="status")
            if at_rest:
                await self._publish(number, report_body(number)["status"])

    def found(self) -> None:
        """The nodes are there and at rest: somebody else has made them."""
        names = [f"gpu-{number}" for number in range(self.count)]
        self._seen |= {(what, name) for what in ("labelled", "reported") for name in names}
        self.done.update(labelled=self.count, reported=self.count)

    async def _publish(self, number: int, status: dict[str, Any]) -> None:
        name = f"gpu-{number}"
        await self._api.create(NODE_GPU_STATUS, {"metadata": {"name": name}})
        body: Any = {"status": status}
        await self._api.patch(NODE_GPU_STATUS, name, body, subresource="status")
        self._seen.add(("reported", name))
        self._note("reported")

    def _note(self, what: str) -> None:
        self.last[what] = time.monotonic()
        self.first.setdefault(what, self.last[what])
        self.done[what] += 1

    def _later(self, delays: tuple[float, float], deed: Callable[[], Awaitable[None]]) -> None:
        async def wait() -> None:
            await asyncio.sleep(self._random.uniform(*delays))
            async with self._some:
                while not await _answered(deed):  # noqa: ASYNC110 - nobody tells it
                    await asyncio.sleep(_AGAIN_S)

        self._group.create_task(wait())

    def _once(self, what: str, subject: str) -> bool:
        if (what, subject) in self._seen:
            return False
        self._seen.add((what, subject))
        return True

    def _node_changed(self, change: Delta[Node]) -> None:
        node = change.after
        if node is None or node.metadata.labels.get(_PRESENT) != "true":
            return
        name = node.metadata.name
        if "nvidia.com/gpu.deploy.device-plugin" in node.metadata.labels and self._once("labelled", name):
            self._note("labelled")
            self._later(AGENT_COMES_S, lambda: self._agent(name))

    async def _agent(self, name: str) -> None:
        number = int(name.removeprefix("gpu-"))
        await self._publish(number, report(number))
        amounts = {"nvidia.com/gpu": str(GPUS)}
        body: Any = {"status": {"capacity": amounts, "allocatable": amounts}}
        await self._api.patch(NODE, name, body, subresource="status")

    def _pod_changed(self, change: Delta[Pod]) -> None:
        pod = change.after
        if pod is None or not pod.spec.node_name or not self._once("pod", pod.metadata.uid):
            return
        if pod.metadata.labels.get("app") in (APP, "tonnage-probe"):
            self._later(POD_ENDS_S, lambda: self._end(pod))
        else:
            self._later(POD_STARTS_S, lambda: self._start(pod))

    async def _end(self, pod: Pod) -> None:
        ended: Any = {"name": "workload", "state": {"terminated": {"exitCode": 0}}}
        await self._say(pod, {"phase": "Succeeded", "containerStatuses": [ended]})
        self._note("validated" if pod.metadata.labels["app"] == APP else "probed")

    async def _start(self, pod: Pod) -> None:
        ready = {"type": "Ready", "status": "True"}
        await self._say(pod, {"phase": "Running", "conditions": [ready]})
        self.running.add(pod.metadata.uid)
        self._note("operands")

    async def _say(self, pod: Pod, status: Any) -> None:
        await self._api.patch(
            *(POD, pod.metadata.name, {"status": status}), namespace=NAMESPACE, subresource="status"
        )
