"""The Kubernetes port in process: the same pipeline as over HTTP, without the wire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TypeVar

import msgspec

from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mapping
from tonnage.ports.kubernetes import KubernetesApi, Listing, PatchType, WatchEvent
from tonnage.twin.apiserver.audit import Trail
from tonnage.twin.apiserver.authentication.users import node_user
from tonnage.twin.apiserver.rbac.node_restriction import may_label
from tonnage.twin.apiserver.reading.listing import ListQuery
from tonnage.twin.apiserver.requests import SYSTEM, ApiRequest, DeleteOptions, Options, ResourcePath, User
from tonnage.twin.apiserver.statuses import status_of
from tonnage.twin.apiserver.verbs import Verbs, WatchOptions
from tonnage.wire.kinds import Kind
from tonnage.wire.objects import Object

T = TypeVar("T", bound=Object)
R = TypeVar("R")
Follow = Callable[[ApiRequest, str], Trail]
"""Begins the trail of a request by a program of this name."""


class LocalKubernetes:
    """A client of the server in the same process. What it lists and watches it shares with all others there:
    nobody changes it; what other verbs give is its own.
    """

    def __init__(
        self,
        verbs: Verbs,
        manager: str = "kube-controller-manager",
        user: User = SYSTEM,
        follow: Follow | None = None,
    ) -> None:
        """`manager` owns the fields that are written here; `user` is whom admission and `follow` see."""
        self._verbs = verbs
        self._user = user
        self._options = Options(field_manager=manager)
        self._follow = follow

    @property
    def server_ahead_s(self) -> float:
        """Both have one clock."""
        return 0.0

    def acting_as(self, user: User) -> LocalKubernetes:
        """The same client under another name. What it may do is not asked: it is part of the server."""
        return LocalKubernetes(self._verbs, self._options.field_manager, user, self._follow)

    async def _audited(
        self, request: ApiRequest, writing: Awaitable[R], code: int = 200, sent: JsonObject | None = None
    ) -> R:
        """The outcome of a write, of which the audit log is told, if there is one."""
        if self._follow is None:
            return await writing
        trail = self._follow(request, self._options.field_manager)
        trail.sent(mapping(sent, "metadata"))
        try:
            outcome = await writing
        except ApiError as error:
            trail.answered(status_of(error))
            trail.started(error.code)
            trail.ended()
            raise
        trail.started(code)
        trail.ended()
        return outcome

    async def get(self, kind: Kind[T], name: str, namespace: str | None = None) -> T:
        """The object. Raises ApiError 404."""
        request = self._verbs.request("get", _address(kind, namespace, name))
        return _read(kind, await self._verbs.get(request))

    async def list(
        self,
        kind: Kind[T],
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        keep: Callable[[T], T] | None = None,
    ) -> Listing[T]:
        """All matching objects as one consistent list."""
        request = self._verbs.request("list", _address(kind, namespace))
        page = self._verbs.page(request, ListQuery(namespace or "", label_selector, field_selector))
        items = [stored.as_type(kind.type) for stored in page.items]
        return Listing(items if keep is None else list(map(keep, items)), str(page.revision))

    async def watch(
        self,
        kind: Kind[T],
        *,
        resource_version: str,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[WatchEvent[T]]:
        """Every change after `resource_version`; ends when the watches are cut. Raises GoneError."""
        request = self._verbs.request("watch", _address(kind, namespace))
        query = ListQuery(namespace or "", label_selector, field_selector, resource_version=resource_version)
        options = WatchOptions(bookmarks=True, present_first=resource_version in ("", "0"))
        async for fresh in self._verbs.watch(request, query, options):
            for event in fresh:
                if event.stored is None:
                    obj = kind.type(api_version=kind.api_version, kind=kind.kind)
                    obj.metadata.resource_version = str(event.revision)
                else:
                    obj = event.stored.as_type(kind.type)
                yield WatchEvent(event.type, obj)

    async def dry_run_create(self, kind: Kind[T], body: JsonObject, *, namespace: str | None = None) -> T:
        """The object as it would be stored, which it is not. Raises ApiError as `create` does."""
        return await self._create(kind, body, namespace, replace(self._options, dry_run=True))

    async def create(self, kind: Kind[T], body: JsonObject | T, *, namespace: str | None = None) -> T:
        """The object as stored. Raises ApiError 409 AlreadyExists, 422 Invalid."""
        return await self._create(kind, body, namespace, self._options)

    async def _create(
        self, kind: Kind[T], body: JsonObject | T, namespace: str | None, options: Options
    ) -> T:
        plain = _plain(body)
        address = _address(kind, namespace or _namespace(plain))
        request = self._verbs.request("create", address, options=options, user=self._user)
        return _read(
            kind, (await self._audited(request, self._verbs.create(request, plain), 201, plain)).object
        )

    async def replace(
        self, kind: Kind[T], body: JsonObject, *, namespace: str | None = None, subresource: str = ""
    ) -> T:
        """PUT of the whole object. Raises ApiError 409 Conflict when its resourceVersion is stale."""
        plain = _plain(body)
        metadata = plain.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else ""
        address = _address(kind, namespace or _namespace(plain), str(name or ""), subresource)
        request = self._verbs.request("update", address, options=self._options, user=self._user)
        return _read(kind, (await self._audited(request, self._verbs.update(request, plain))).object)

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
        request = self._verbs.request(
            "patch", _address(kind, namespace, name, subresource), options=self._options, user=self._user
        )
        if patch_type is PatchType.APPLY and isinstance(patch, dict):
            head: JsonObject = {"apiVersion": kind.api_version, "kind": kind.kind}
            applied, _ = await self._audited(request, self._verbs.apply(request, head | patch, force=True))
            return _read(kind, applied.object)
        outcome = await self._audited(request, self._verbs.patch(request, patch_type, patch))
        return _read(kind, outcome.object)

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
        """Ask for deletion. Raises ApiError 404, 409."""
        request = self._verbs.request("delete", _address(kind, namespace, name), user=self._user)
        options = DeleteOptions(grace_period_s, propagation, uid or "")
        await self._audited(request, self._verbs.delete(request, options))

    async def create_subresource(
        self, kind: Kind[T], name: str, subresource: str, body: JsonObject, *, namespace: str | None = None
    ) -> JsonObject:
        """The answer to a POST to a subresource, such as a pod's `binding` or `eviction`."""
        request = self._verbs.request("create", _address(kind, namespace, name, subresource), user=self._user)
        return await self._audited(request, self._verbs.create_subresource(request, body), 201)


def kubelet_client(api: KubernetesApi, node: str, labels: Mapping[str, str]) -> KubernetesApi:
    """The client as that node's kubelet. One whose labels no kubelet may set goes on as it is."""
    if not isinstance(api, LocalKubernetes) or not may_label(labels):
        return api
    return api.acting_as(node_user(node))


def _address(kind: Kind[T], namespace: str | None, name: str = "", subresource: str = "") -> ResourcePath:
    path = (kind.group, kind.version, kind.plural)
    return ResourcePath(path, (namespace or "") if kind.namespaced else "", name, subresource)


def _read(kind: Kind[T], obj: JsonObject) -> T:
    return msgspec.convert(obj, kind.type)


def _plain(body: JsonObject | Object) -> JsonObject:
    if isinstance(body, dict):
        return body
    plain = msgspec.to_builtins(body)
    assert isinstance(plain, dict)
    return plain


def _namespace(body: JsonObject) -> str:
    metadata = body.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else ""
    return namespace if isinstance(namespace, str) else ""
