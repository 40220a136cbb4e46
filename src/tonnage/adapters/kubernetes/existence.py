"""Whether a cluster has the objects of some names, asked one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final
from urllib.parse import quote

from tonnage.adapters.kubernetes.client import RawApi
from tonnage.model.errors import ApiError
from tonnage.reading.object_names import Name

_MOST_ASKED: Final = 500
_AT_ONCE: Final = 16
_PATHS: Final = {
    "ConfigMap": "/api/v1/namespaces/{space}/configmaps/{name}",
    "ServiceAccount": "/api/v1/namespaces/{space}/serviceaccounts/{name}",
    "PersistentVolumeClaim": "/api/v1/namespaces/{space}/persistentvolumeclaims/{name}",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses/{name}",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses/{name}",
}
_NOT_FOUND: Final = 404


async def known_objects(api: RawApi, objects: Iterable[Name]) -> dict[Name, bool]:
    """Whether each of those objects is there; without those of which one may not ask."""
    names, limit = sorted(set(objects))[:_MOST_ASKED], asyncio.Semaphore(_AT_ONCE)
    answers = await asyncio.gather(*(is_there(api, name, limit) for name in names))
    return {name: there for name, there in zip(names, answers, strict=True) if there is not None}


async def is_there(api: RawApi, obj: Name, limit: asyncio.Semaphore) -> bool | None:
    """Whether the cluster has an object; None when one may not ask."""
    kind, space, name = obj
    async with limit:
        with suppress(ApiError):
            if kind == "ConfigMap" and not space:
                selector = quote(f"metadata.name={name}", safe="")
                listing = await api.get_raw(f"/api/v1/configmaps?limit=1&fieldSelector={selector}")
                return bool(listing.get("items")) if isinstance(listing, dict) else False
            try:
                await api.get_raw(_PATHS[kind].format(space=quote(space, safe=""), name=quote(name, safe="")))
            except ApiError as error:
                return False if error.code == _NOT_FOUND else None
            return True
    return None
