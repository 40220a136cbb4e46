"""The Kubernetes port before there is a client: whoever calls waits until one is opened.

An HTTP client takes longer to load than all else that an agent needs before kubelet knows its devices.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from tonnage.model.errors import ClusterError, Problem
from tonnage.ports.kubernetes import KubernetesApi, Listing, PatchType, WatchEvent
from tonnage.wire.objects import Object

if TYPE_CHECKING:
    from tonnage.model.json import JsonObject, JsonValue
    from tonnage.wire.kinds import Kind

T = TypeVar("T", bound=Object)


@asynccontextmanager
async def late(
    needed: asyncio.Event, opened: Callable[[], AbstractAsyncContextManager[KubernetesApi]]
) -> AsyncIterator[KubernetesApi]:
    """A KubernetesApi at once; `opened` is entered once it is wanted.

    What `opened` raises ends the body and is raised in its place.
    """
    api = LateKubernetes()
    try:
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(api.serve(needed, opened))
            yield api
            serving.cancel()
    except BaseExceptionGroup as group_error:
        raise group_error.exceptions[0] from None


class LateKubernetes:
    """A KubernetesApi whose calls wait for `serve` to have opened another one."""

    def __init__(self) -> None:
        self._api: KubernetesApi | None = None
        self._open = asyncio.Event()

    async def serve(
        self, needed: asyncio.Event, opened: Callable[[], AbstractAsyncContextManager[KubernetesApi]]
    ) -> None:
        """Keep the other one open until cancelled."""
        await needed.wait()
        async with opened() as api:
            self._api = api
            self._open.set()
            await asyncio.Event().wait()

    @property
    def server_ahead_s(self) -> float:
        return self._api.server_ahead_s if self._api is not None else 0.0

    async def get(self, kind: Kind[T], name: str, namespace: str | None = None) -> T:
        return await (await self._opened()).get(kind, name, namespace)

    async def list(
        self,
        kind: Kind[T],
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        keep: Callable[[T], T] | None = None,
    ) -> Listing[T]:
        api = await self._opened()
        return await api.list(
            kind, namespace=namespace, label_selector=label_selector, field_selector=field_selector, keep=keep
        )

    def watch(
        self,
        kind: Kind[T],
        *,
        resource_version: str,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[WatchEvent[T]]:
        if self._api is None:  # a watch goes on from a list
            raise ClusterError(Problem("the client of the API server is not ready yet"))
        return self._api.watch(
            kind,
            resource_version=resource_version,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
        )

    async def dry_run_create(self, kind: Kind[T], body: JsonObject, *, namespace: str | None = None) -> T:
        return await (await self._opened()).dry_run_create(kind, body, namespace=namespace)

    async def create(self, kind: Kind[T], body: JsonObject | T, *, namespace: str | None = None) -> T:
        return await (await self._opened()).create(kind, body, namespace=namespace)

    async def replace(
        self, kind: Kind[T], body: JsonObject, *, namespace: str | None = None, subresource: str = ""
    ) -> T:
        api = await self._opened()
        return await api.replace(kind, body, namespace=namespace, subresource=subresource)

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        patch: JsonValue,
        *,
        namespace: str | None = None,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
    ) -> T:
        api = await self._opened()
        return await api.patch(
            kind, name, patch, namespace=namespace, patch_type=patch_type, subresource=subresource
        )

    async def delete(
        self,
        kind: Kind[T],
        name: str,
        *,
        namespace: str | None = None,
        grace_period_s: int | None = None,
        propagation: str = "Background",
        uid: str | None = None,
    ) -> None:
        api = await self._opened()
        await api.delete(
            kind,
            name,
            namespace=namespace,
            grace_period_s=grace_period_s,
            propagation=propagation,
            uid=uid,
        )

    async def create_subresource(
        self, kind: Kind[T], name: str, subresource: str, body: JsonObject, *, namespace: str | None = None
    ) -> JsonObject:
        api = await self._opened()
        return await api.create_subresource(kind, name, subresource, body, namespace=namespace)

    async def _opened(self) -> KubernetesApi:
        await self._open.wait()
        assert self._api is not None
        return self._api
