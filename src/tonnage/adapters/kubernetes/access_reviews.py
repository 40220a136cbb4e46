"""What the user of a client may list, as the API server says it (SelfSubjectAccessReview), or by trying."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.wire.kinds import ACCESS_REVIEW

if TYPE_CHECKING:
    from tonnage.adapters.kubernetes.client import RawApi
    from tonnage.ports.kubernetes import KubernetesApi
    from tonnage.wire.kinds import Kind

_AT_ONCE: Final = 4


async def listable(api: KubernetesApi, kinds: Sequence[Kind[Any]], namespace: str | None) -> tuple[bool, ...]:
    """Whether each kind may be listed: in all namespaces, or in one. Raises ApiError, ClusterError."""
    within: JsonObject = {"namespace": namespace} if namespace else {}
    requests = [{"verb": "list", "group": kind.group, "resource": kind.plural, **within} for kind in kinds]
    return await permitted(api, requests)


async def permitted(api: KubernetesApi, requests: Sequence[JsonObject]) -> tuple[bool, ...]:
    """Whether each request is allowed, by attributes as a review has them. Raises ApiError, ClusterError."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def allowed(attributes: JsonObject) -> bool:
        async with room:
            return await _allowed(api, attributes)

    return tuple(await asyncio.gather(*map(allowed, requests)))


async def pages_readable(api: KubernetesApi, namespace: str) -> bool:
    """Whether what pods of the namespace serve may be read by the proxy. Raises ApiError, ClusterError."""
    attributes: JsonObject = {"verb": "get", "group": "", "resource": "pods", "subresource": "proxy"}
    return await _allowed(api, attributes | {"namespace": namespace})


async def _allowed(api: KubernetesApi, attributes: JsonObject) -> bool:
    body: JsonObject = {"spec": {"resourceAttributes": attributes}}
    return (await api.create(ACCESS_REVIEW, body)).status.allowed


async def listed_one(api: RawApi, kinds: Sequence[Kind[Any]], namespace: str | None) -> tuple[bool, ...]:
    """The same by listing one object of each kind, where the server answers no reviews.

    A kind that the server does not have is not refused. Raises ApiError, ClusterError.
    """
    room = asyncio.Semaphore(_AT_ONCE)

    async def allowed(kind: Kind[Any]) -> bool:
        async with room:
            try:
                await api.get_raw(f"{kind.path(namespace)}?limit=1")
            except ApiError as error:
                if error.code not in (403, 404):
                    raise
                return error.code == 404
        return True

    return tuple(await asyncio.gather(*map(allowed, kinds)))
