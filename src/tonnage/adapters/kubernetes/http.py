"""The Kubernetes port over HTTP: pages, watches and patches, decoded straight into our narrow Structs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, MutableSequence, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar, cast
from urllib.parse import quote

import httpx2
import msgspec

from tonnage.adapters.kubernetes.answers import (
    EVENT,
    RAW_PAGE,
    STATUS,
    AnswerPage,
    RawPage,
    Status,
    WatchLine,
    decoded,
    error_of,
    lines,
    refusal,
    unreadable,
)
from tonnage.adapters.kubernetes.transport import REQUEST_S, unreachable
from tonnage.model.errors import GoneError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.ports.kubernetes import ChangeType, Listing, PatchType, WatchEvent
from tonnage.wire.decode import UNDECODABLE
from tonnage.wire.kinds import Kind
from tonnage.wire.objects import Object

T = TypeVar("T", bound=Object)
R = TypeVar("R")

PAGE: Final = 500
WATCH_S: Final = 240
"""After this the server ends a watch, which is then resumed."""
_SILENCE_S: Final = WATCH_S + 30.0
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])
_MANAGER: Final = {"fieldManager": "tonnage"}


class HttpKubernetes:
    """A client of one API server. `namespace` is the one that its kubeconfig's context names.

    `server` is its address.
    """

    def __init__(self, client: httpx2.AsyncClient, *, namespace: str = "default") -> None:
        self._client = client
        self.namespace = namespace
        self.server = str(client.base_url).rstrip("/")
        self._last_date = ("", 0.0)
        """When the server gave its last answer, by its own clock and by this machine's."""
        self._pages: dict[type[Object], msgspec.json.Decoder[Any]] = {}
        self._objects: dict[type[Object], msgspec.json.Decoder[Any]] = {}

    @property
    def server_ahead_s(self) -> float:
        """How far the server's clock is ahead, to about a second; 0 where it does not say."""
        date, received = self._last_date
        try:
            return parsedate_to_datetime(date).timestamp() - received
        except ValueError:
            return 0.0

    async def get(self, kind: Kind[T], name: str, namespace: str | None = None) -> T:
        """The object. Raises ApiError 404."""
        return self._read(kind, await self._send("GET", _path(kind, namespace, name)))

    async def get_raw(self, path: str) -> JsonValue:
        """Whatever the server has at a path, such as `/version`."""
        return cast(JsonValue, decoded(msgspec.json.Decoder(), await self._send("GET", path)))

    async def get_text(self, path: str, most_bytes: int) -> str:
        """The text at a path, such as a page that a pod serves, of at most so many bytes.

        Raises ApiError, ClusterError.
        """
        content = bytearray()
        try:
            async with self._client.stream("GET", path, headers={"Accept": "*/*"}) as response:
                async for piece in response.aiter_bytes():
                    content += piece
                    if len(content) > most_bytes:
                        break
        except httpx2.HTTPError as error:
            raise unreachable(error, self._client) from None
        if response.status_code >= 400:
            raise refusal(response.status_code, bytes(content))
        return content.decode("utf-8", "replace")

    async def list(
        self,
        kind: Kind[T],
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        keep: Callable[[T], T] | None = None,
    ) -> Listing[T]:
        """All matching objects, in pages of 500, as one consistent list.

        When the pages expire before the last is read (a list that takes minutes), it is read whole instead.
        """
        path, parameters = _path(kind, namespace), _selectors(label_selector, field_selector)
        try:
            return await self._paged(kind, path, {**parameters, "limit": str(PAGE)}, keep)
        except GoneError:
            return await self._paged(kind, path, parameters, keep)

    async def _paged(
        self, kind: Kind[T], path: str, parameters: dict[str, str], keep: Callable[[T], T] | None
    ) -> Listing[T]:
        items: list[T] = []
        while True:
            page = self._read_page(kind, await self._send("GET", path, parameters))
            for obj in page.items or []:
                obj.api_version, obj.kind = kind.api_version, kind.kind  # items of a list do not carry them
            items += page.items or [] if keep is None else map(keep, page.items or [])
            if not page.metadata.continue_:
                break
            parameters = {**parameters, "continue": page.metadata.continue_}
        return Listing(items, page.metadata.resource_version)

    async def read_all(
        self, kind: Kind[Any], read: Callable[[bytes], R], *, namespace: str | None = None
    ) -> Sequence[R]:
        """What `read` makes of the JSON text of every object: as `list`, but never holds more than a page.

        `read` may raise what is UNDECODABLE. Objects of a list do not say of which kind they are.
        """
        path = _path(kind, namespace)
        try:
            return await self._read_pages(path, {"limit": str(PAGE)}, read)
        except GoneError:
            return await self._read_pages(path, {}, read)

    async def _read_pages(
        self, path: str, parameters: dict[str, str], read: Callable[[bytes], R]
    ) -> Sequence[R]:
        objects: MutableSequence[R] = []
        while True:
            page: RawPage = decoded(RAW_PAGE, await self._send("GET", path, parameters))
            try:
                objects += [read(bytes(obj)) for obj in page.items or ()]
            except UNDECODABLE as error:
                raise unreadable(error) from None
            if not page.metadata.continue_:
                return objects
            parameters = {**parameters, "continue": page.metadata.continue_}

    async def watch(
        self,
        kind: Kind[T],
        *,
        resource_version: str,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[WatchEvent[T]]:
        """Every change after `resource_version`, bookmarks included; ends after four minutes.

        Raises GoneError, and ClusterError when the connection breaks or falls silent.
        """
        parameters = {
            **_selectors(label_selector, field_selector),
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(WATCH_S),
        }
        request = self._client.build_request(
            "GET",
            _path(kind, namespace),
            params=parameters,
            headers={"Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(REQUEST_S, read=_SILENCE_S),
        )
        try:
            response = await self._client.send(request, stream=True)
            try:
                if response.status_code >= 400:
                    raise refusal(response.status_code, await response.aread())
                async for line in lines(response.aiter_raw()):
                    yield self._read_change(kind, line)
            finally:
                await response.aclose()
        except httpx2.HTTPError as error:
            raise unreachable(error, self._client) from None

    async def dry_run_create(self, kind: Kind[T], body: JsonObject, *, namespace: str | None = None) -> T:
        """The object as the server would store it, which it does not. Raises ApiError as `create` does."""
        parameters = {**_MANAGER, "dryRun": "All"}
        path = _path(kind, namespace or _metadata(body, "namespace"))
        return self._read(kind, await self._send("POST", path, parameters, _whole(kind, body)))

    async def create(self, kind: Kind[T], body: JsonObject | T, *, namespace: str | None = None) -> T:
        """The object as stored. Raises ApiError 409 AlreadyExists, 422 Invalid."""
        plain = _whole(kind, body)
        path = _path(kind, namespace or _metadata(plain, "namespace"))
        return self._read(kind, await self._send("POST", path, _MANAGER, plain))

    async def replace(
        self, kind: Kind[T], body: JsonObject, *, namespace: str | None = None, subresource: str = ""
    ) -> T:
        """PUT of the whole object. Raises ApiError 409 Conflict when its resourceVersion is stale."""
        plain = _whole(kind, body)
        name = _metadata(plain, "name") or ""
        path = _path(kind, namespace or _metadata(plain, "namespace"), name, subresource)
        return self._read(kind, await self._send("PUT", path, _MANAGER, plain))

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
        """The object after the patch."""
        path = _path(kind, namespace, name, subresource)
        query = {**_MANAGER, "force": "true"} if patch_type is PatchType.APPLY else _MANAGER
        return self._read(kind, await self._send("PATCH", path, query, patch, patch_type.value))

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
        """Ask for deletion; with `uid`, only if the object still is that one. Raises ApiError 404, 409."""
        options: JsonObject = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
            **({} if grace_period_s is None else {"gracePeriodSeconds": grace_period_s}),
            **({} if uid is None else {"preconditions": {"uid": uid}}),
        }
        await self._send("DELETE", _path(kind, namespace, name), body=options)

    async def create_subresource(
        self, kind: Kind[T], name: str, subresource: str, body: JsonObject, *, namespace: str | None = None
    ) -> JsonObject:
        """The answer to a POST to a subresource, such as a pod's `binding` or `eviction`."""
        answer = await self._send("POST", _path(kind, namespace, name, subresource), _MANAGER, body)
        return cast(JsonObject, decoded(_OBJECT, answer))

    async def _send(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str] | None = None,
        body: JsonValue = None,
        content_type: str = "application/json",
    ) -> bytes:
        """The answer's bytes. Raises ApiError, GoneError, ClusterError."""
        content = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": content_type} if content is not None else {}
        try:
            response = await self._client.request(
                method, path, params=parameters or {}, content=content, headers=headers
            )
        except httpx2.HTTPError as error:
            raise unreachable(error, self._client) from None
        self._last_date = (response.headers.get("Date", ""), time.time())
        if response.status_code >= 400:
            raise refusal(response.status_code, response.content)
        return response.content

    def _read(self, kind: Kind[T], content: bytes) -> T:
        decoder = self._objects.get(kind.type)
        if decoder is None:
            decoder = self._objects[kind.type] = msgspec.json.Decoder(kind.type)
        obj = cast(T, decoded(decoder, content))
        obj.api_version, obj.kind = obj.api_version or kind.api_version, obj.kind or kind.kind
        return obj

    def _read_page(self, kind: Kind[T], content: bytes) -> AnswerPage[T]:
        decoder = self._pages.get(kind.type)
        if decoder is None:
            decoder = self._pages[kind.type] = msgspec.json.Decoder(AnswerPage[kind.type])  # type: ignore[name-defined]
        return cast(AnswerPage[T], decoded(decoder, content))

    def _read_change(self, kind: Kind[T], line: bytes) -> WatchEvent[T]:
        event: WatchLine = decoded(EVENT, line)
        if event.type == "ERROR":
            status: Status = decoded(STATUS, bytes(event.object))
            raise error_of(status.code or 500, status)
        try:
            change = ChangeType(event.type)
        except ValueError as error:
            raise unreadable(error) from None
        return WatchEvent(change, self._read(kind, bytes(event.object)))


def _path(kind: Kind[T], namespace: str | None, name: str | None = None, subresource: str = "") -> str:
    return kind.path(
        quote(namespace, safe="") if namespace else None, quote(name, safe="") if name else None, subresource
    )


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in selectors.items() if value}


def _whole(kind: Kind[T], body: JsonObject | T) -> JsonObject:
    plain: JsonObject = msgspec.to_builtins(body) if isinstance(body, Object) else body
    return {**plain, "apiVersion": kind.api_version, "kind": kind.kind}


def _metadata(body: JsonObject, key: str) -> str | None:
    metadata = body.get("metadata")
    value = metadata.get(key) if isinstance(metadata, dict) else None
    return value if isinstance(value, str) else None
