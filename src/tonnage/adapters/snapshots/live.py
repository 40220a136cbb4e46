"""A cluster as its API server has it: the objects that bear on answers, and the snapshot of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from tonnage.adapters.kubernetes.client import server_version
from tonnage.adapters.snapshots.objects import ObjectReader, collector_paused
from tonnage.model.errors import ApiError
from tonnage.reading.cluster import snapshot_from
from tonnage.reading.documents import READ_KINDS
from tonnage.wire.kinds import EVENT

if TYPE_CHECKING:
    from tonnage.adapters.kubernetes.http import HttpKubernetes
    from tonnage.model.kubernetes.cluster import Snapshot
    from tonnage.reading.cluster import Readable
    from tonnage.wire.kinds import Kind
    from tonnage.wire.reports import Event

_NO_SUCH_KIND: Final = 404
_NOT_SERVED: Final = (403, _NO_SUCH_KIND)
_MOST_EVENTS: Final = 1000
_AT_ONCE: Final = 4
"""Each reading beside others is a TLS handshake, which costs both sides more than a short list does."""


async def read_live(api: HttpKubernetes, events: tuple[str, str] | None = None) -> Snapshot:
    """Everything that bears on placement, a few kinds at once; those that may not be listed are missing.

    `events`: a namespace and a field selector, for the Events that are read too, where they may be.
    """
    version, reader = await server_version(api), ObjectReader()
    room = asyncio.Semaphore(_AT_ONCE)

    async def items(kind: Kind[Any]) -> Sequence[Readable] | None:
        async with room:
            return await _items(api, kind, reader)

    with collector_paused():
        answers = await asyncio.gather(*map(items, READ_KINDS))
    now = datetime.now(UTC) + timedelta(seconds=api.server_ahead_s)
    event_objects = await _events(api, *events) if events is not None else ()
    missing = frozenset(kind.kind for kind, answer in zip(READ_KINDS, answers, strict=True) if answer is None)
    return snapshot_from(
        [*(obj for answer in answers for obj in answer or ()), *event_objects],
        server_version=version,
        now=now,
        missing=missing,
        complete=frozenset(kind.kind for kind in READ_KINDS) - missing,
    )


async def _items(api: HttpKubernetes, kind: Kind[Any], reader: ObjectReader) -> Sequence[Readable] | None:
    try:
        return await api.read_all(kind, lambda text: reader.read_known(text, kind))
    except ApiError as error:
        needed = kind.kind in ("Pod", "Node")
        if error.code not in _NOT_SERVED or needed:
            raise
        return [] if error.code == _NO_SUCH_KIND else None


async def _events(api: HttpKubernetes, namespace: str, selector: str) -> Sequence[Event]:
    try:
        return (await api.list(EVENT, namespace=namespace, field_selector=selector)).items[:_MOST_EVENTS]
    except ApiError:
        return ()
