"""A stand-in for NVIDIA's operator and what follows it: DaemonSets, their pods, plugins, kubelet's amounts.

While its Deployment has replicas it makes deleted DaemonSets anew and rewrites labels every five seconds, as
the genuine one reconciles. Nothing of it is NVIDIA's code.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Final

from controller.test_operator import DEVICE, REPORT
from support.api_stores import new_store
from tonnage.documents.node.gpu_status import node_gpu_status_crd
from tonnage.loop.refusals import passing_over
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import (
    CUSTOM_RESOURCE,
    DAEMON_SET,
    DEPLOYMENT,
    NAMESPACE,
    NODE,
    NODE_GPU_STATUS,
    POD,
)
from tonnage.wire.objects import Node

GPU: Final = "nvidia.com/gpu"
OPERATOR: Final = "gpu-operator"
AGENTS: Final = "tonnage-system"
SETS: Final = {
    "device-plugin": "nvidia-device-plugin-daemonset",
    "gpu-feature-discovery": "gpu-feature-discovery",
    "dcgm": "nvidia-dcgm",
}
LABELS: Final = {f"nvidia.com/gpu.deploy.{part}": "true" for part in SETS}
_WORKER: Final = {"name": "main", "image": "example/operand:1"}
AGENT: Final = {
    "name": "agent",
    "image": "example/tonnage:1",
    "command": ["tonnage", "node"],
    "args": ["--labels=direct", "--wait-for-adoption"],
}


class KilledError(Exception):
    """The command was killed."""


class WriteCounter:
    """The API as a command sees it that is killed once its n-th write has had effect."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self.left = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._api, name)
        return self._counted(method) if name == "patch" else method

    def _counted(self, method: Any) -> Any:
        async def call(*args: Any, **options: Any) -> Any:
            answer = await method(*args, **options)
            self.left -= 1
            if self.left == 0:
                raise KilledError
            return answer

        return call


class OperatedFleet:
    """A cluster in memory in which NVIDIA's operator runs, and Tonnage's agents wait on each node."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.api: KubernetesApi = ApiServer(self.clock, random=Random(7), store=new_store()).local()
        self.tasks: list[asyncio.Task[Any]] = []
        self.ours: dict[str, int] = {}
        """How many devices a node's agent offers once it may, where NVIDIA's plugin offers others."""
        self.theirs: dict[str, list[str]] = {}
        """UUIDs of NVIDIA's plugin at a node, where they are not the agent's."""
        self.serving: set[str] = set()
        """Nodes at which the agent's plugin is registered."""
        self.reported: set[str] = set()
        self.broken: set[str] = set()
        """Nodes on which NVIDIA's pods do not start."""
        self.wrong: list[str] = []
        """What must never be."""
        self.most_cordoned = 0
        self.installed = True
        self.agents_wait = True

    async def install(self, *nodes: str, agent: dict[str, Any] = AGENT) -> None:
        await self.api.create(CUSTOM_RESOURCE, node_gpu_status_crd())
        for name in (OPERATOR, AGENTS):
            await self.api.create(NAMESPACE, {"metadata": {"name": name}})
        await self._until_served()
        labels: Any = {"app": "gpu-operator", "app.kubernetes.io/component": "gpu-operator"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [_WORKER]}}
        spec: Any = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        body: Any = {"metadata": {"name": "gpu-operator", "labels": labels}, "spec": spec}
        await self.api.create(DEPLOYMENT, body, namespace=OPERATOR)
        for node in nodes:
            await self._machine(node, agent)
        self.tasks = [asyncio.create_task(self._operate()), asyncio.create_task(self._follow())]
        await self._until_operated()

    async def _until_served(self) -> None:
        await self.clock.advance(1)

    async def _until_operated(self) -> None:
        await self.clock.advance(20)

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def nodes(self) -> dict[str, Node]:
        return {node.metadata.name: node for node in (await self.api.list(NODE)).items}

    async def scale(self, replicas: int) -> None:
        await self.api.patch(DEPLOYMENT, "gpu-operator", {"spec": {"replicas": replicas}}, namespace=OPERATOR)

    async def replicas(self) -> int:
        return (await self.api.get(DEPLOYMENT, "gpu-operator", OPERATOR)).spec.replicas

    async def plugins(self) -> list[str]:
        """Nodes with a pod of NVIDIA's plugin."""
        pods = (await self.api.list(POD, namespace=OPERATOR)).items
        return sorted(p.spec.node_name for p in pods if p.metadata.labels.get("app") == SETS["device-plugin"])

    async def uninstall(self) -> None:
        """Take NVIDIA's operator off, with its DaemonSets."""
        await self.api.delete(DEPLOYMENT, "gpu-operator", namespace=OPERATOR)
        for name in SETS.values():
            await self.api.delete(DAEMON_SET, name, namespace=OPERATOR)
        self.installed = False
        await self.clock.advance(5)

    async def upgrade_agents(self) -> None:
        """Have agents that do not wait."""
        self.agents_wait = False
        for node in await self.nodes():
            name = f"tonnage-agent-{node}"
            await self.api.delete(POD, name, namespace=AGENTS, grace_period_s=0)
            container = {**AGENT, "args": ["--labels=direct"]}
            await self._pod(name, AGENTS, node, {"app.kubernetes.io/part-of": "tonnage"}, container)

    async def _machine(self, name: str, agent: dict[str, Any]) -> None:
        metadata: Any = {"name": name, "labels": dict(LABELS)}
        await self.api.create(NODE, {"metadata": metadata})
        await self._report(name)
        await self._pod(
            f"tonnage-agent-{name}", AGENTS, name, {"app.kubernetes.io/part-of": "tonnage"}, agent
        )

    async def _report(self, node: str) -> None:
        kind = NODE_GPU_STATUS
        body: Any = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": node}}
        await self.api.create(kind, body)
        report: Any = {**REPORT, "heartbeatAt": "2100-01-01T00:00:00Z"}
        await self.api.patch(NODE_GPU_STATUS, node, {"status": report}, subresource="status")
        self.reported.add(node)

    async def _pod(self, name: str, namespace: str, node: str, labels: Any, container: Any) -> None:
        spec: Any = {"containers": [container], **({"nodeName": node} if node else {})}
        body: Any = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        await self.api.create(POD, body, namespace=namespace)
        ready: Any = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await self.api.patch(POD, name, {"status": ready}, namespace=namespace, subresource="status")

    async def _operate(self) -> None:
        """The operator: labels and DaemonSets are as it wants them, as long as it runs."""
        while True:
            if self.installed and await self.replicas():
                there = {s.metadata.name for s in (await self.api.list(DAEMON_SET, namespace=OPERATOR)).items}
                for part, name in SETS.items():
                    if name not in there:
                        await self._daemon_set(part, name)
                for node in await self.nodes():
                    await self.api.patch(NODE, node, {"metadata": {"labels": dict(LABELS)}})
            await self.clock.sleep(5)

    async def _daemon_set(self, part: str, name: str) -> None:
        selector: Any = {f"nvidia.com/gpu.deploy.{part}": "true"}
        template = {
            "metadata": {"labels": {"app": name}},
            "spec": {"nodeSelector": selector, "containers": [_WORKER]},
        }
        spec: Any = {"selector": {"matchLabels": {"app": name}}, "template": template}
        await self.api.create(DAEMON_SET, {"metadata": {"name": name}, "spec": spec}, namespace=OPERATOR)

    async def _follow(self) -> None:
        """Pods follow DaemonSets and the Deployment, kubelets the plugins that are there."""
        while True:
            await self._move_pods()
            await self._count_devices()
            await self.clock.sleep(2)

    async def _move_pods(self) -> None:
        nodes = await self.nodes()
        wanted: dict[str, tuple[str, Any]] = {}
        for daemon_set in (await self.api.list(DAEMON_SET, namespace=OPERATOR)).items:
            selector = daemon_set.spec.template["spec"]["nodeSelector"].items()
            for name, node in nodes.items():
                if name not in self.broken and selector <= node.metadata.labels.items():
                    app = daemon_set.metadata.name
                    wanted[f"{app}-{name}"] = name, {"app": app}
        for number in range(await self.replicas() if self.installed else 0):
            labels = {"app": "gpu-operator", "app.kubernetes.io/component": "gpu-operator"}
            wanted[f"gpu-operator-{number}"] = "", labels
        there = {pod.metadata.name for pod in (await self.api.list(POD, namespace=OPERATOR)).items}
        for name in there - set(wanted):
            with passing_over(404):
                await self.api.delete(POD, name, namespace=OPERATOR, grace_period_s=0)
        for name in sorted(set(wanted) - there):
            await self._pod(name, OPERATOR, *wanted[name], _WORKER)

    async def _count_devices(self) -> None:
        theirs, nodes = set(await self.plugins()), await self.nodes()
        cordoned = sum(node.spec.unschedulable for node in nodes.values())
        self.most_cordoned = max(self.most_cordoned, cordoned)
        for name, node in nodes.items():
            if node.metadata.labels.get("tonnage.dev/adopted") != "true" and self.agents_wait:
                self.serving.discard(name)
            elif name not in theirs:
                self.serving.add(name)
            ours = name in self.serving
            if ours and name in theirs:
                self.wrong.append(f"{timestamp(self.clock.now())} {name}: two plugins")
            if not ours and name not in theirs and not node.spec.unschedulable:
                self.wrong.append(f"{timestamp(self.clock.now())} {name}: no plugin, and not cordoned")
            count = self.ours.get(name, 4) if ours else 4 if name in theirs else 0
            amount = {GPU: str(count)}
            status: Any = {"status": {"capacity": amount, "allocatable": amount}}
            await self.api.patch(NODE, name, status, subresource="status")
            if name in self.reported:
                await self._tell(name, count, ours=ours)

    async def _tell(self, name: str, count: int, *, ours: bool) -> None:
        """As the node's agent reports what it offers, and what kubelet has."""
        uuids = ["GPU-1"] if ours else self.theirs.get(name, ["GPU-1"]) if count else []
        amounts = {"devices": 1, "replicas": count, "capacity": count, "allocatable": count, "allocated": 0}
        report: Any = {
            "devices": [{**DEVICE, "resource": GPU}],
            "kubeletDevices": [{"resource": GPU, "uuids": uuids}] if uuids else None,
            "resources": [{"name": GPU, **amounts, "failRequestsGreaterThanOne": False}] if ours else [],
        }
        await self.api.patch(NODE_GPU_STATUS, name, {"status": report}, subresource="status")
