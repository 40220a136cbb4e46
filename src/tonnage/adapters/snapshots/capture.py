"""A cluster into a file, object by object: nothing but one page of one kind is ever held.

The first line is a header, each line after it an object, the last one says what came: without it the file is
cut. Kinds are listed one after the other, each consistent in itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote

from tonnage.adapters.kubernetes.client import RawApi, TimedApi, server_version
from tonnage.adapters.snapshots.format import Absence, Count, Footer, Header, encoded
from tonnage.adapters.snapshots.kinds import CAPTURED, CapturedKind
from tonnage.adapters.snapshots.redact import Level, Redactor
from tonnage.model.errors import ApiError, GoneError
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.timestamps import timestamp

PAGE: Final = 500
_REFUSED: Final = (403, 405)
_NO_SUCH_KIND: Final = 404


@dataclass(frozen=True, slots=True)
class Order:
    """What to capture, when and by whom. `namespace` empty: the whole cluster.

    `fallback`: the namespace of which a kind is captured that may not be listed across namespaces.
    """

    level: Level
    at: datetime
    program: str
    namespace: str = ""
    fallback: str = ""
    kinds: tuple[CapturedKind, ...] = CAPTURED
    needed: frozenset[str] = frozenset({"Node", "Pod"})
    """Without one of these kinds there is nothing to capture; empty: whatever can be read is worth it."""


@dataclass(slots=True)
class Captured:
    """What came of it, for a person: counts by kind, what could not be read, and the first refusal."""

    counts: dict[str, Count] = field(default_factory=dict)
    missing: list[Absence] = field(default_factory=list)
    refusal: str = ""

    def refused(self, kind: CapturedKind, error: ApiError, namespace: str = "") -> None:
        """Note that a kind could not be read, or only in a namespace."""
        self.missing.append(Absence(kind.kind, kind.api_version, error.reason, namespace))
        self.refusal = self.refusal or error.message


Progress = Callable[[str, int, int], None]
"""Told (kind, objects so far, objects in all as far as the server says) after every page."""


async def capture(
    api: TimedApi, order: Order, redactor: Redactor, write: Callable[[bytes], object], progress: Progress
) -> Captured:
    """Write the lines of a snapshot. Raises ClusterError: the cluster is gone, or lets nothing be read."""
    captured = Captured()
    readable = [kind async for kind in _readable(api, order, captured)]
    if order.needed and not any(kind.kind in order.needed for kind, _ in readable):
        raise ApiError(403, "Forbidden", captured.refusal)
    header = Header(
        server_version=await server_version(api),
        taken_at=timestamp(order.at + timedelta(seconds=api.server_ahead_s)),
        redact=order.level.value,
        program=order.program,
        namespace=redactor.namespace(order.namespace),
        kinds=[f"{kind.api_version}/{kind.kind}" for kind, _ in readable],
        missing=[_redacted(absence, redactor) for absence in captured.missing],
    )
    write(encoded(header))
    incomplete: list[Absence] = []
    for kind, namespace in readable:
        count = Count()
        captured.counts[kind.kind] = count
        try:
            async for page in _pages(api, kind, namespace, count):
                for obj in _objects(page):
                    write(encoded(redactor.redacted(obj, kind)))
                    count.objects += 1
                progress(kind.kind, count.objects, count.objects + _remaining(page))
        except ApiError as error:
            # The header is written, and could not know of it: it stands in the last line.
            captured.refused(kind, error)
            incomplete.append(captured.missing[-1])
    write(encoded(Footer(objects=captured.counts, incomplete=incomplete)))
    return captured


async def _readable(api: RawApi, order: Order, captured: Captured) -> AsyncIterator[tuple[CapturedKind, str]]:
    """Kinds that can be listed, and in which namespace (empty: in all).

    A kind that the cluster does not have is no loss; one that it refuses is.
    """
    for kind in order.kinds:
        refusal = await _refusal(api, kind, order.namespace)
        if refusal is None:
            yield kind, order.namespace
        elif refusal.code != _NO_SUCH_KIND:
            narrowed = order.fallback if kind.namespaced and not order.namespace else ""
            within = narrowed if narrowed and await _refusal(api, kind, narrowed) is None else ""
            captured.refused(kind, refusal, within)
            if within:
                yield kind, within


async def _refusal(api: RawApi, kind: CapturedKind, namespace: str) -> ApiError | None:
    """Why a kind cannot be listed. Raises ApiError: the server fails, or does not know who asks (401)."""
    try:
        await api.get_raw(f"{kind.path(namespace or None)}?limit=1")
    except ApiError as error:
        if error.code not in (*_REFUSED, _NO_SUCH_KIND):
            raise
        return error
    return None


def _redacted(absence: Absence, redactor: Redactor) -> Absence:
    return Absence(absence.kind, absence.api_version, absence.reason, redactor.namespace(absence.namespace))


async def _pages(api: RawApi, kind: CapturedKind, namespace: str, count: Count) -> AsyncIterator[JsonObject]:
    """Pages of a list. One that takes so long that it expires goes on at the moment when it did."""
    path = f"{kind.path(namespace or None)}?limit={PAGE}"
    token = ""
    while True:
        try:
            page = await api.get_raw(f"{path}&continue={quote(token, safe='')}" if token else path)
        except GoneError as error:
            if not error.resume or error.resume == token:
                raise
            token, count.consistent = error.resume, False
            continue
        if not isinstance(page, dict):
            return
        count.resource_version = count.resource_version or _meta(page, "resourceVersion")
        yield page
        token = _meta(page, "continue")
        if not token:
            return


def _meta(page: JsonObject, key: str) -> str:
    metadata = page.get("metadata")
    value = metadata.get(key) if isinstance(metadata, dict) else None
    return value if isinstance(value, str) else ""


def _remaining(page: JsonObject) -> int:
    metadata = page.get("metadata")
    value = metadata.get("remainingItemCount") if isinstance(metadata, dict) else None
    return value if isinstance(value, int) else 0


def _objects(page: JsonObject) -> Iterator[JsonObject]:
    items = page.get("items")
    return (obj for obj in items if isinstance(obj, dict)) if isinstance(items, list) else iter(())
