"""Watches over HTTP: one JSON line an event, until the client goes, the time is up, or the log moved on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Final

import msgspec

from tonnage.decide.kubernetes.api.encoding.go_json import go_json
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.object_store import Stored
from tonnage.twin.apiserver.printers.tables import Tables, check_include
from tonnage.twin.apiserver.reading.list_items import is_current
from tonnage.twin.apiserver.reading.watching import CommittedEvent
from tonnage.twin.apiserver.requests import ApiRequest, ResourcePath
from tonnage.twin.apiserver.resources import ServedResource
from tonnage.twin.apiserver.serving import parameters
from tonnage.twin.apiserver.serving.encodings.negotiation import PROTOBUF, STREAMED
from tonnage.twin.apiserver.serving.exchange import Exchange, pieces
from tonnage.twin.apiserver.statuses import status_of
from tonnage.twin.apiserver.verbs import Verbs

_SHORTEST_S: Final = 1800.0
_PIECE: Final = 64 << 10
_INITIAL_END: Final = "k8s.io/initial-events-end"


class WatchStream:
    """Runs watches for clients."""

    def __init__(self, verbs: Verbs, tables: Tables, random: Random) -> None:
        self._verbs = verbs
        self._tables = tables
        self._random = random

    async def run(self, exchange: Exchange, request: ApiRequest, address: ResourcePath) -> None:
        """Send every event that the query asks for. Raises ApiError before anything is sent."""
        query = parameters.list_query(exchange.query, address)
        if exchange.form.kind == "Table":
            check_include(exchange.query.get("includeObject", ""))
        # Spread over an hour, so that clients do not all come back at once.
        otherwise_s = _SHORTEST_S * (1 + self._random.random())
        options = parameters.watch_options(exchange.query, otherwise_s)
        form = _Form(self._tables, request.served, exchange, self._verbs)
        events = self._verbs.watch(request, query, options)
        if exchange.form.kind.endswith("List"):
            events = _nothing()  # What is no list is told as none: not at all.
        media = exchange.form.media
        await exchange.start(200, STREAMED[1] if media == PROTOBUF else media)
        # The headers must go out at once: a client waits for them before it acts.
        await exchange.chunk(b"")
        sending = asyncio.ensure_future(self._send(exchange, events, form))
        leaving = asyncio.ensure_future(exchange.gone())
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            leaving.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send(
        self, exchange: Exchange, events: AsyncIterator[list[CommittedEvent]], form: _Form
    ) -> None:
        try:
            async for fresh in events:
                for piece in pieces(map(form.line, fresh), _PIECE):
                    await exchange.chunk(piece)
        except ApiError as error:
            await exchange.chunk(form.failed(status_of(error)))
        await exchange.chunk(b"", last=True)


async def _nothing() -> AsyncIterator[list[CommittedEvent]]:
    for events in list[list[CommittedEvent]]():
        yield events


class _Form:
    """Events as the client wants them: whole objects, their metadata, or rows of a table."""

    def __init__(self, tables: Tables, served: ServedResource, exchange: Exchange, verbs: Verbs) -> None:
        self._tables = tables
        self._verbs = verbs
        self._served = served
        self._form = exchange.form
        self._include = exchange.query.get("includeObject", "Metadata")
        self._head = True

    def failed(self, status: JsonObject) -> bytes:
        """The event that ends a watch."""
        if self._form.media == PROTOBUF:
            return _message("ERROR", status)
        return b"".join((b'{"type":"ERROR","object":', go_json(status), b"}\n"))

    def line(self, event: CommittedEvent) -> bytes:
        """The event as a line of JSON."""
        if self._form.media == PROTOBUF:
            return _message(event.type, msgspec.json.decode(self._object(event)))
        head = f'{{"type":"{event.type}","object":'.encode()
        return b"".join((head, self._object(event), b"}\n"))

    def _object(self, event: CommittedEvent) -> bytes:
        if event.stored is None:
            metadata: JsonObject = {"resourceVersion": str(event.revision)}
            if event.initial_end:
                metadata["annotations"] = {_INITIAL_END: "true"}
            return self._shown({**self._verbs.blank(self._served), "metadata": metadata})
        if self._form.kind:
            return self._shown(self._whole(event.stored))
        if is_current(self._served, event.stored):
            return event.stored.json
        return go_json(self._whole(event.stored))

    def _whole(self, stored: Stored) -> JsonObject:
        return self._verbs.in_version(self._served, stored.object)

    def _shown(self, obj: JsonObject) -> bytes:
        """An object as rows of a table, as its metadata alone, or as it is."""
        if self._form.kind == "Table":
            return self._table(obj)
        if self._form.kind:
            obj = self._tables.partial(self._served, obj, self._form.version)
        return go_json(obj)

    def _table(self, obj: JsonObject) -> bytes:
        metadata = obj["metadata"]
        version = metadata.get("resourceVersion", "") if isinstance(metadata, dict) else ""
        listed: JsonObject = {"resourceVersion": version}
        table = self._tables.table(self._served, [obj], listed, self._include, self._form.version)
        if not self._head:
            table["columnDefinitions"] = None
        self._head = False
        return go_json(table)


def _message(type_: str, obj: JsonObject) -> bytes:
    # Seldom asked for, and its tables take a moment to read.
    from tonnage.decide.kubernetes.api.encoding.protobuf_writer import encode_event

    return encode_event(type_, obj)
