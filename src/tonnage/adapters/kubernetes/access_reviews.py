"""What the user of a client may list, as the API server says it (SelfSubjectAccessReview)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tonnage.model.json import JsonObject
from tonnage.wire.kinds import ACCESS_REVIEW

if TYPE_CHECKING:
    from tonnage.ports.kubernetes import KubernetesApi
    from tonnage.wire.kinds import Kind

_AT_ONCE: Final = 4


async def listable(api: KubernetesApi, kinds: Sequence[Kind[Any]], namespace: str | None) -> tuple[bool, ...]:
    """Whether each kind may be listed: in all namespaces, or in one. Raises ApiError, ClusterError."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def allowed(kind: Kind[Any]) -> bool:
        attributes: JsonObject = {
            "verb": "list",
            "group": kind.group,
            "resource": kind.plural,
            **({"namespace": namespace} if namespace else {}),
        }
        body: JsonObject = {"spec": {"resourceAttributes": attributes}}
        async with room:
            return (await api.create(ACCESS_REVIEW, body)).status.allowed

    return tuple(await asyncio.gather(*map(allowed, kinds)))
