"""An API server that keeps what the scheduler could read of a node's devices after each write."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from tonnage.wire import kinds


class ToldSlices:
    """`published` has the slices of the pool after each write that completes it."""

    def __init__(self, api: Any) -> None:
        self._api = api
        self.published: list[list[Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def create(self, kind: Any, *arguments: Any, **options: Any) -> Any:
        return await self._recorded(kind, self._api.create(kind, *arguments, **options))

    async def replace(self, kind: Any, *arguments: Any, **options: Any) -> Any:
        return await self._recorded(kind, self._api.replace(kind, *arguments, **options))

    async def delete(self, kind: Any, *arguments: Any, **options: Any) -> Any:
        return await self._recorded(kind, self._api.delete(kind, *arguments, **options))

    async def _recorded(self, kind: Any, write: Awaitable[Any]) -> Any:
        answer = await write
        if kind is kinds.RESOURCE_SLICE:
            listing = (await self._api.list(kinds.RESOURCE_SLICE)).items
            newest = max(obj.spec["pool"]["generation"] for obj in listing)
            pool = [obj for obj in listing if obj.spec["pool"]["generation"] == newest]
            if len(pool) == pool[0].spec["pool"]["resourceSliceCount"]:
                self.published.append(pool)
        return answer
