"""NVIDIA's operator and two nodes on a genuine control plane: its controllers make and remove the pods.

Nodes are objects. What a kubelet would do for them is done here: pods become ready, those that leave are
gone, and the amounts of devices follow the plugin that is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from support.nvidia_operator import AGENTS, GPU, LABELS, OPERATOR, SETS, OperatedFleet
from tonnage.adapters.clock import SystemClock
from tonnage.loop.refusals import or_none, passing_over
from tonnage.model.errors import ApiError
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.wire.kinds import DAEMON_SET, DEPLOYMENT, NODE, NODE_GPU_STATUS, POD, SERVICE_ACCOUNT
from tonnage.wire.objects import Pod

_LOOK_S: Final = 0.2
_LIMIT_S: Final = 90.0


class GenuineFleet(OperatedFleet):
    """The same stand-in, in real time."""

    def __init__(self, api: KubernetesApi) -> None:
        super().__init__()
        self.api = api
        self.clock: Any = SystemClock()
        self.namespaces = [OPERATOR]
        """Whose pods are moved."""
        self._judges = False

    async def until_plugins(self, *nodes: str) -> None:
        """Wait until NVIDIA's plugin serves on these nodes alone."""

        async def serves() -> bool:
            return await self.plugins() == list(nodes) and await self._offering() == set(nodes)

        await self._until(serves)

    async def until_rewritten(self, node: str, label: str) -> None:
        """Wait until the operator has put a label of a node back."""

        async def is_back() -> bool:
            return (await self.nodes())[node].metadata.labels.get(label) == "true"

        await self._until(is_back)

    async def until_made_anew(self, name: str, uid: str) -> None:
        """Wait until there is another DaemonSet of that name."""

        async def is_another() -> bool:
            there = (await self.api.list(DAEMON_SET, namespace=OPERATOR)).items
            return any(s.metadata.name == name and s.metadata.uid != uid for s in there)

        await self._until(is_another)

    async def _until_served(self) -> None:
        """The kind is served, and namespaces have the account that their pods run as."""

        async def is_served() -> bool:
            try:
                await self.api.list(NODE_GPU_STATUS)
            except ApiError as error:
                if error.code != 404:
                    raise
                return False
            accounts = [await self.api.list(SERVICE_ACCOUNT, namespace=name) for name in (OPERATOR, AGENTS)]
            return all(listing.items for listing in accounts)

        await self._until(is_served)

    async def _until_operated(self) -> None:
        await self.until_plugins(*sorted(await self.nodes()))
        self._judges = True

    async def _until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait for it, as long as what is stood in for goes on."""
        async with asyncio.timeout(_LIMIT_S):
            while True:
                if await condition():
                    return
                for task in self.tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(_LOOK_S)

    async def _offering(self) -> set[str]:
        nodes = (await self.api.list(NODE)).items
        return {node.metadata.name for node in nodes if node.status.allocatable.get(GPU, "0") != "0"}

    async def _follow(self) -> None:
        while True:
            await self._move_pods()
            await self._count_devices()
            if not self._judges:
                self.wrong.clear()  # nothing was installed yet
            await asyncio.sleep(_LOOK_S)

    async def _count_devices(self) -> None:
        """The amounts, and a sign of life: a node without one is tainted."""
        room: Any = {"pods": "110", "cpu": "8", "memory": "16Gi"}
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": timestamp(self.clock.now())}
        status: Any = {"status": {"capacity": room, "allocatable": room, "conditions": [ready]}}
        for name in await self.nodes():
            await self.api.patch(NODE, name, status, subresource="status")
        await super()._count_devices()

    async def _move_pods(self) -> None:
        """As a kubelet does, with nothing to start and nothing to end."""
        for namespace in self.namespaces:
            for pod in (await self.api.list(POD, namespace=namespace)).items:
                with passing_over(404):
                    await self._move_pod(pod)

    async def _move_pod(self, pod: Pod) -> None:
        name, namespace = pod.metadata.name, pod.metadata.namespace
        if pod.metadata.deletion_timestamp is not None:
            await self.api.delete(POD, name, namespace=namespace, grace_period_s=0)
        elif pod.spec.node_name and not _is_ready(pod):
            ready: Any = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            await self.api.patch(POD, name, {"status": ready}, namespace=namespace, subresource="status")


class HelmFleet(GenuineFleet):
    """NVIDIA's operator is a release of Helm, and so are the agents: their charts make the objects."""

    def __init__(self, api: KubernetesApi) -> None:
        super().__init__(api)
        self.namespaces = [OPERATOR, AGENTS]

    async def begin(self, *nodes: str) -> None:
        """Nodes, on which the operator that is installed has its plugin serve."""
        for node in nodes:
            labels: Any = {**LABELS, "nvidia.com/gpu.present": "true"}
            await self.api.create(NODE, {"metadata": {"name": node, "labels": labels}})
        self.tasks = [asyncio.create_task(self._operate()), asyncio.create_task(self._follow())]
        await self._until_operated()

    async def report(self) -> None:
        """What agents say of their nodes, once their pods are there and their kind is served."""

        async def are_there() -> bool:
            if await or_none(self.api.list(NODE_GPU_STATUS)) is None:
                return False
            pods = (await self.api.list(POD, namespace=AGENTS)).items
            return {pod.spec.node_name for pod in pods if _is_ready(pod)} == set(await self.nodes())

        await self._until(are_there)
        for node in await self.nodes():
            await self._report(node)

    async def replicas(self) -> int:
        deployment = await or_none(self.api.get(DEPLOYMENT, "gpu-operator", OPERATOR))
        return 0 if deployment is None else deployment.spec.replicas

    async def _move_pods(self) -> None:
        if await or_none(self.api.get(DEPLOYMENT, "gpu-operator", OPERATOR)) is None:
            for name in SETS.values():  # their owner is gone
                await or_none(self.api.delete(DAEMON_SET, name, namespace=OPERATOR))
        await super()._move_pods()


def _is_ready(pod: Pod) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
