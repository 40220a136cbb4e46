"""A cluster as its API server has it: the objects that bear on answers, and the snapshot of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from tonnage.adapters.kubernetes.client import server_version
from tonnage.adapters.snapshots.objects import ObjectReader, collector_paused
from tonnage.model.errors import ApiError
from tonnage.reading.cluster import snapshot_from
from tonnage.reading.coverage import OF_CLAIMS, Coverage, with_coverage
from tonnage.reading.documents import READ_KINDS
from tonnage.wire.kinds import EVENT

if TYPE_CHECKING:
    from tonnage.adapters.kubernetes.http import HttpKubernetes
    from tonnage.model.kubernetes.cluster import Snapshot
    from tonnage.reading.cluster import Readable
    from tonnage.wire.kinds import Kind
    from tonnage.wire.reports import Event

_FORBIDDEN: Final = 403
_NO_SUCH_KIND: Final = 404
_MOST_EVENTS: Final = 1000
_AT_ONCE: Final = 4
"""Each reading beside others is a TLS handshake, which costs both sides more than a short list does."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """What came of one kind: everything, with `scope` the objects of that namespace, or with None nothing."""

    kind: Kind[Any]
    objects: Sequence[Readable] | None
    scope: str = ""
    refusal: ApiError | None = None
    served: bool = True


async def read_live(
    api: HttpKubernetes,
    events: tuple[str, str] | None = None,
    *,
    kinds: Sequence[Kind[Any]] = READ_KINDS,
    namespaces: Sequence[str] = (),
) -> Snapshot:
    """The objects of `kinds`, a few kinds at once; of those that may not be listed the ones in a namespace.

    `namespaces`: the first of them that may be read is.

    `events`: a namespace and a field selector, for the Events that are read too, where they may be. What the
    server lets nobody list is missing, be it everything.

    Raises:
        ApiError: the server does not even tell its version (403), or fails otherwise.
    """
    version, reader = await server_version(api), ObjectReader()
    room = asyncio.Semaphore(_AT_ONCE)

    async def answer_for(kind: Kind[Any]) -> _Answer:
        async with room:
            return await _answer(api, kind, reader, namespaces)

    with collector_paused():
        answers = await asyncio.gather(*map(answer_for, kinds))
    now = datetime.now(UTC) + timedelta(seconds=api.server_ahead_s)
    event_objects = await _events(api, *events) if events is not None else ()
    objects = [obj for answer in answers for obj in answer.objects or ()]
    snapshot = snapshot_from([*objects, *event_objects], server_version=version, now=now)
    return with_coverage(snapshot, _coverage(answers))


def _coverage(answers: Sequence[_Answer]) -> Coverage:
    """Kinds that nobody asked for are missing, as those are that the server refused."""
    read = frozenset(answer.kind.kind for answer in answers if answer.objects is not None)
    return Coverage(
        read=read,
        missing=frozenset(kind.kind for kind in READ_KINDS) - read,
        scopes={answer.kind.kind: answer.scope for answer in answers if answer.scope},
        unserved=frozenset(answer.kind.kind for answer in answers if not answer.served) & OF_CLAIMS,
        forbidden=frozenset(answer.kind.kind for answer in answers if answer.refusal is not None),
    )


async def _answer(
    api: HttpKubernetes, kind: Kind[Any], reader: ObjectReader, namespaces: Sequence[str]
) -> _Answer:
    """All objects of a kind, else those of a namespace. A kind that the cluster does not have has none."""
    try:
        return _Answer(kind, await _objects(api, kind, reader, None))
    except ApiError as error:
        if error.code == _NO_SUCH_KIND:
            return _Answer(kind, [], served=False)
        if error.code != _FORBIDDEN:
            raise
        refusal = error
    for namespace in namespaces if kind.namespaced else ():
        try:
            return _Answer(kind, await _objects(api, kind, reader, namespace), namespace, refusal)
        except ApiError as error:
            if error.code != _FORBIDDEN:
                raise
    return _Answer(kind, None, refusal=refusal)


async def _objects(
    api: HttpKubernetes, kind: Kind[Any], reader: ObjectReader, namespace: str | None
) -> Sequence[Readable]:
    return await api.read_all(kind, lambda text: reader.read_known(text, kind), namespace=namespace)


async def _events(api: HttpKubernetes, namespace: str, selector: str) -> Sequence[Event]:
    try:
        return (await api.list(EVENT, namespace=namespace, field_selector=selector)).items[:_MOST_EVENTS]
    except ApiError:
        return ()
