"""GPU nodes on a genuine control plane, whose controllers make and remove the pods of drivers.

Nodes are objects. What a kubelet and an agent would do for them is done here: pods of drivers start or do
not, those that leave are gone, and a node that reboots is away with everything on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from controller.driver_bench import DriverBench, is_ready
from tonnage.adapters.clock import SystemClock
from tonnage.loop.refusals import or_none, passing_over
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.wire.kinds import CLUSTER_POLICY, DAEMON_SET, NODE, NODE_GPU_STATUS, POD
from tonnage.wire.objects import Node

OPERATOR: Final = "gpu-operator"
LIMIT_S: Final = 120.0
_LOOK_S: Final = 0.3
_ROOM: Final = {"pods": "110", "cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "1"}
_NO_DRIVER: Final = {"devices": [], "problems": ["NVML: Driver Not Loaded"]}


class RealClock(SystemClock):
    """Its time passes by itself."""

    async def advance(self, seconds: float) -> None:
        await self.sleep(seconds)


class GenuineMachines(DriverBench):
    """The same stand-in, in real time. `away` are nodes on which nothing runs."""

    def __init__(self, api: KubernetesApi) -> None:
        super().__init__()
        self.api = api
        self.clock: Any = RealClock()
        self.away: set[str] = set()

    async def install(self) -> None:
        """Nothing but what plays the kubelets: the rest is on the cluster."""
        self.tasks.append(asyncio.create_task(self._pretend()))

    async def close(self) -> None:
        """Leave no node, policy or pod behind."""
        for policy in (await self.api.list(CLUSTER_POLICY)).items:
            await self.api.delete(CLUSTER_POLICY, policy.metadata.name)
        for node in await self.nodes():
            name = node.metadata.name
            await self.api.delete(NODE, name)
            await or_none(self.api.delete(NODE_GPU_STATUS, name))

        async def is_empty() -> bool:
            sets = (await self.api.list(DAEMON_SET, namespace=OPERATOR)).items
            return not sets and not (await self.api.list(POD, namespace=OPERATOR)).items

        await self.until(is_empty)
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def until(self, condition: Callable[[], Awaitable[bool]], limit_s: float = LIMIT_S) -> None:
        """Wait for it, as long as what is stood in for goes on."""
        try:
            async with asyncio.timeout(limit_s):
                while not await condition():
                    for task in self.tasks:
                        if task.done():
                            task.result()
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            raise AssertionError(f"not within {limit_s:.0f} s: {await self.states()}") from None

    async def until_at_rest(self, most_s: float = LIMIT_S) -> None:
        """Wait until no node is on its way."""

        async def is_at_rest() -> bool:
            return set((await self.states()).values()) <= {"upgrade-done", "upgrade-failed"}

        await self.until(is_at_rest, most_s)

    async def node(self, name: str, *, gpus: int = 1, **labels: str) -> None:
        await super().node(name, gpus=gpus, **labels)
        ready = {"type": "Ready", "status": "True"}
        status: Any = {"status": {"capacity": _ROOM, "allocatable": _ROOM, "conditions": [ready]}}
        await self.api.patch(NODE, name, status, subresource="status")

    async def go_away(self, name: str) -> None:
        """The node's kubelet is silent, nothing runs there, and its GPUs have no driver any more."""
        self.away.add(name)
        silent: Any = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        await self.api.patch(NODE, name, silent, subresource="status")
        for pod in (await self.api.list(POD, namespace=OPERATOR)).items:
            if pod.spec.node_name == name:
                status: Any = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
                with passing_over(404):
                    await self.api.patch(
                        POD, pod.metadata.name, status, namespace=OPERATOR, subresource="status"
                    )
        await self.report(name, **_NO_DRIVER)

    async def come_back(self, name: str) -> None:
        """Another boot: kubelet starts what is there, and the driver, once it runs, has the GPUs."""
        back: Any = {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"bootID": f"another of {name}"},
        }
        await self.api.patch(NODE, name, {"status": back}, subresource="status")
        self.away.discard(name)

    async def _once(self) -> None:
        nodes: dict[str, Node] = {node.metadata.name: node for node in await self.nodes()}
        self.most_missing = max(self.most_missing, sum(node.spec.unschedulable for node in nodes.values()))
        for pod in (await self.api.list(POD, namespace=OPERATOR)).items:
            name = pod.spec.node_name
            if name in self.away or not name:
                continue
            if pod.metadata.deletion_timestamp or name not in nodes:
                await self._delete(pod)
            elif not is_ready(pod):
                await self._start(pod)
                if not self.is_bad(pod):
                    await self.report(name, problems=[], heartbeatAt="2100-01-01T00:00:00Z")
