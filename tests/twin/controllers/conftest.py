"""A cluster of objects alone: the twin's API server and clock, with no kubelet and no scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from random import Random
from typing import Any, TypeVar

import pytest

from support.api_stores import new_store
from tonnage.loop.informer import Informers
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.ports.kubernetes import KubernetesApi, PatchType
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import EVENT, NODE, POD, Kind
from tonnage.wire.objects import Object, Pod

T = TypeVar("T", bound=Object)


class _Refusing:
    def __init__(self, api: KubernetesApi, why: str) -> None:
        self._api = api
        self._why = why

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def create(self, kind: Kind[Any], body: JsonObject, *, namespace: str | None = None) -> Any:
        if kind is POD:
            raise ApiError(403, "Forbidden", self._why)
        return await self._api.create(kind, body, namespace=namespace)


class Cluster:
    """Objects, time, and what a kubelet would say about pods."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = ApiServer(self.clock, store=new_store(), random=Random(7))
        self.api: KubernetesApi = self.server.local()
        self.informers = Informers(self.api, self.clock)
        self._tasks: list[asyncio.Task[None]] = []

    def refusing_pods(self, why: str) -> KubernetesApi:
        """The cluster's API, but that it takes no pods."""
        return _Refusing(self.api, why)  # type: ignore[return-value]

    def start(self, loop: Coroutine[None, None, None]) -> None:
        """Run a controller until the test ends; its failure fails the test."""
        self._tasks.append(asyncio.create_task(loop))

    async def stop(self) -> None:
        """End what was started, and forget its copies."""
        for task in self._tasks:
            if task.done():
                task.result()
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        self.informers = Informers(self.api, self.clock)

    async def apply(self, kind: Kind[T], name: str, body: JsonObject, namespace: str = "default") -> T:
        """Create an object."""
        metadata = body.get("metadata")
        whole: JsonObject = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            **body,
            "metadata": {**(metadata if isinstance(metadata, dict) else {}), "name": name},
        }
        return await self.api.create(kind, whole, namespace=namespace if kind.namespaced else None)

    @staticmethod
    def workload(replicas: int, image: str = "nginx:1", **spec: JsonValue) -> JsonObject:
        """The body of a Deployment or ReplicaSet that selects `app: web`."""
        return {
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "template": Cluster.template(image),
                **spec,
            }
        }

    @staticmethod
    def template(image: str = "nginx:1", **spec: JsonValue) -> JsonObject:
        """A pod template with the label `app: web`."""
        return {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": image}], **spec},
        }

    async def all(self, kind: Kind[T], namespace: str | None = None) -> list[T]:
        """Objects of a kind, oldest first."""
        items = (await self.api.list(kind, namespace=namespace)).items
        return sorted(items, key=lambda obj: (obj.metadata.creation_timestamp or "", obj.metadata.name))

    async def pods(self) -> list[Pod]:
        """Pods that are not on their way out."""
        return [pod for pod in await self.all(POD) if pod.metadata.deletion_timestamp is None]

    async def events(self, reason: str) -> list[str]:
        """Messages of the Events with this reason, oldest first."""
        return [event.message for event in await self.all(EVENT) if event.reason == reason]

    async def set_pod(self, pod: Pod, *, ready: bool = True, phase: str = "Running") -> None:
        """Report as a kubelet does."""
        condition: JsonObject = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "lastTransitionTime": timestamp(self.clock.now()),
        }
        await self.api.patch(
            POD,
            pod.metadata.name,
            {"status": {"phase": phase, "conditions": [condition]}},
            namespace=pod.metadata.namespace,
            patch_type=PatchType.STRATEGIC,
            subresource="status",
        )

    async def make_ready(self) -> None:
        """Every pod that should run does, and every pod that should end has ended."""
        for pod in await self.all(POD):
            if pod.metadata.deletion_timestamp is not None:
                await self.api.delete(
                    POD, pod.metadata.name, namespace=pod.metadata.namespace, grace_period_s=0
                )
            elif pod.status.phase in ("", "Pending"):
                await self.set_pod(pod)

    async def go_on(self, seconds: float = 1.0) -> None:
        """Let controllers work and kubelets answer, until nothing moves any more."""
        for _ in range(30):
            await self.clock.advance(seconds / 30)
            await self.make_ready()
        await self.clock.settle()

    async def node(self, name: str, labels: dict[str, str] | None = None, *, ready: str = "True") -> None:
        """Register a node."""
        await self.apply(NODE, name, {"metadata": {"labels": dict(labels or {})}})
        await self.report(name, ready)

    async def report(self, name: str, ready: str = "True") -> None:
        """A heartbeat."""
        now = timestamp(self.clock.now())
        conditions: list[JsonValue] = [
            {"type": kind, "status": status, "lastHeartbeatTime": now, "lastTransitionTime": now}
            for kind, status in (("Ready", ready), ("MemoryPressure", "False"))
        ]
        patch: JsonObject = {"status": {"conditions": conditions}}
        await self.api.patch(NODE, name, patch, patch_type=PatchType.STRATEGIC, subresource="status")


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    yield cluster
    await cluster.stop()
