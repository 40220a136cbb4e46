"""RealPodControl: makes and deletes an owner's pods: one Event each, expectations until the copy shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from tonnage.loop.events import EventRecorder
from tonnage.loop.expectations import Expectations
from tonnage.loop.informer import Informer, key_of
from tonnage.model.errors import ApiError, ClusterError
from tonnage.model.json import JsonObject
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.wire.kinds import POD
from tonnage.wire.objects import Object, Pod

ItemT = TypeVar("ItemT")


class PodControl:
    """What a controller does to pods. `pods` is its copy of them."""

    def __init__(
        self, api: KubernetesApi, events: EventRecorder, expected: Expectations, pods: Informer[Pod]
    ) -> None:
        self._api = api
        self._events = events
        self._expected = expected
        self._pods = pods

    async def make(self, owner: Object, body: JsonObject) -> Pod | None:
        """The new pod, None in a namespace that ends. Raises ClusterError."""
        try:
            pod = await self._api.create(POD, body, namespace=owner.metadata.namespace)
        except ClusterError as error:
            if namespace_ends(error):
                return None
            why = f"Error creating: {message_of(error)}"
            await self._events.emit(owner, "Warning", "FailedCreate", why)
            raise
        self._expected.created(key_of(owner), pod, self._pods)
        await self._events.emit(owner, "Normal", "SuccessfulCreate", f"Created pod: {pod.metadata.name}")
        return pod

    async def delete(self, owner: Object, pod: Pod) -> None:
        """Ask for the pod's end; that it is gone already is as well. Raises ClusterError."""
        name, key = pod.metadata.name, key_of(owner)
        self._expected.deleting(key, pod)
        try:
            await self._api.delete(POD, name, namespace=pod.metadata.namespace, uid=pod.metadata.uid)
        except ClusterError as error:
            self._expected.deletion_failed(pod)
            if isinstance(error, ApiError) and error.code in (404, 409):
                return
            why = f"Error deleting: {message_of(error)}"
            await self._events.emit(owner, "Warning", "FailedDelete", why)
            raise
        await self._events.emit(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {name}")


async def in_batches(items: Iterable[ItemT], make: Callable[[ItemT], Awaitable[object]]) -> None:
    """Make something of every item, 1, 2, 4 … at once, so that what the server refuses is refused once."""
    batch, rest = 1, list(items)
    while rest:
        now, rest = rest[:batch], rest[batch:]
        for outcome in await asyncio.gather(*map(make, now), return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
        batch *= 2


def namespace_ends(error: ClusterError) -> bool:
    """Whether nothing is made because the namespace is being terminated, of which nobody need be told."""
    return "because it is being terminated" in message_of(error)


def message_of(error: ClusterError) -> str:
    """What the server said, without the code that we put before it."""
    return error.message if isinstance(error, ApiError) else str(error)
