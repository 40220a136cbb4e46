"""A scheduler on an API in memory, and pods for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from support.api_stores import new_store
from tonnage.loop.informer import Informers
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.feature_gates import FeatureGates
from tonnage.ports.kubernetes import PatchType, WatchEvent
from tonnage.twin.apiserver.in_process_client import LocalKubernetes
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.twin.scheduler.loop import Scheduler
from tonnage.wire import kinds
from tonnage.wire import objects as w
from tonnage.wire.kinds import Kind

T = TypeVar("T", bound=w.Object)
Body = dict[str, Any]


class Api(LocalKubernetes):
    """The port in process, with bad days: bindings refused, watches silent after the first binding."""

    def __init__(self, clock: VirtualClock, gates: tuple[tuple[str, bool], ...] = ()) -> None:
        self.gates = gates
        super().__init__(ApiServer(clock, store=new_store(), gates=FeatureGates(35, gates)).verbs)
        self.bindings: list[tuple[str, str]] = []
        self.refuse_binding: list[ApiError] = []
        self.mute_at_binding = False
        self.mute_at_eviction = False
        self.slow_bindings: dict[str, asyncio.Event] = {}
        """By the pod's name: what its binding waits for."""
        self.heard = asyncio.Event()
        self.heard.set()

    async def create_subresource(
        self, kind: Kind[T], name: str, subresource: str, body: JsonObject, *, namespace: str | None = None
    ) -> JsonObject:
        if self.refuse_binding:
            raise self.refuse_binding.pop()
        if name in self.slow_bindings:
            await self.slow_bindings[name].wait()
        answer = await super().create_subresource(kind, name, subresource, body, namespace=namespace)
        target: Any = body["target"]
        self.bindings.append((name, target["name"]))
        if self.mute_at_binding:
            self.heard.clear()
        return answer

    async def delete(self, kind: Kind[T], name: str, **options: Any) -> None:
        await super().delete(kind, name, **options)
        if self.mute_at_eviction:
            self.heard.clear()

    async def watch(self, kind: Kind[T], **options: Any) -> AsyncIterator[WatchEvent[T]]:
        async for change in super().watch(kind, **options):
            await self.heard.wait()
            yield change

    async def node(self, name: str, gpus: int = 1, **spec: Any) -> None:
        amounts: Body = {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
        metadata: Body = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        status: Body = {"allocatable": amounts, "capacity": amounts}
        await self.create(kinds.NODE, {"metadata": metadata, "spec": spec, "status": status})
        ready: JsonObject = {"spec": {"taints": spec.get("taints") or None}}
        await self.patch(kinds.NODE, name, ready, patch_type=PatchType.MERGE)

    async def pod(self, name: str, *, labels: Body | None = None, **spec: Any) -> None:
        resources = {"limits": {"nvidia.com/gpu": "1"}}
        containers = [{"name": "c", "image": "i", "resources": resources}]
        body: Body = {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"containers": containers, **spec},
        }
        await self.create(kinds.POD, body, namespace="default")

    async def classes(self, **values: int) -> None:
        for name, value in values.items():
            await self.create(kinds.PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})

    async def read(self, name: str) -> w.Pod:
        return await self.get(kinds.POD, name, "default")

    async def gone(self, name: str) -> None:
        await self.delete(kinds.POD, name, namespace="default", grace_period_s=0)

    async def events(self, reason: str) -> list[tuple[str, str, str, int]]:
        listing = await self.list(kinds.EVENT, namespace="default")
        return [
            (e.type, e.involved_object.name, e.message, e.count) for e in listing.items if e.reason == reason
        ]


@asynccontextmanager
async def running(api: Api, clock: VirtualClock, version: str = "1.35") -> AsyncIterator[None]:
    scheduler = Scheduler(api, clock, Informers(api, clock), version=version, gates=api.gates)
    task = asyncio.create_task(scheduler.run())
    await clock.settle()
    try:
        yield
    finally:
        assert not task.done(), task
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
