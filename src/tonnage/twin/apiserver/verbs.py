"""The verbs of the API, for every resource alike; HTTP and the in-process client both stand on them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mapping, text
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import PatchType
from tonnage.twin.apiserver.authentication.token_requests import TokenRequests
from tonnage.twin.apiserver.definitions.establishment import Definitions
from tonnage.twin.apiserver.object_store import ObjectStore
from tonnage.twin.apiserver.ownership.bootstrap_objects import bringing
from tonnage.twin.apiserver.ownership.configurations import AppliedConfiguration
from tonnage.twin.apiserver.pods.eviction import EVICTION, evict
from tonnage.twin.apiserver.rbac.reviews import Reviews
from tonnage.twin.apiserver.reading.listing import ListPage, ListQuery, matcher, number_of, page
from tonnage.twin.apiserver.reading.watching import CommittedEvent, WatchQuery, events
from tonnage.twin.apiserver.requests import (
    SYSTEM,
    ApiRequest,
    DeleteOptions,
    FieldValidation,
    Options,
    RequestNotes,
    ResourcePath,
    User,
    WriteOutcome,
)
from tonnage.twin.apiserver.resource_names import DEFINITION
from tonnage.twin.apiserver.resources import BINDINGS, Registry, ServedResource
from tonnage.twin.apiserver.statuses import (
    StatusError,
    forbidden,
    method_not_allowed,
    no_such_page,
    no_such_path,
    not_found,
)
from tonnage.twin.apiserver.writing import subresources
from tonnage.twin.apiserver.writing.create_on_update import put
from tonnage.twin.apiserver.writing.deletion import delete
from tonnage.twin.apiserver.writing.patches import patched, strict_complaints, strictly, unreadable_patch
from tonnage.twin.apiserver.writing.pipeline import WritePipeline
from tonnage.wire.schema import KindRow

T = TypeVar("T")
_BINDING: Final = KindRow("", "v1", "Binding", "bindings", "binding", True, (), "core/v1.Binding")
_POSTED: Final = {"binding": ServedResource(_BINDING, ""), "eviction": ServedResource(EVICTION, "")}
"""Kinds of what is posted to subresources."""

_DELETED_AT_ONCE: Final = 10_000


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """How a watch goes. `present_first`: what is there comes first, marked at its end by a bookmark."""

    bookmarks: bool = False
    present_first: bool = False
    timeout_s: float | None = None


class Verbs:
    """What may be asked of the server."""

    def __init__(
        self,
        store: ObjectStore,
        registry: Registry,
        clock: Clock,
        pipeline: WritePipeline,
        tokens: TokenRequests,
        reviews: Reviews,
    ) -> None:
        self.store = store
        self.registry = registry
        self.bring = bringing(pipeline.ownership, registry)
        self.blank = pipeline.codec.empty
        self.definitions = Definitions(store, registry, clock, pipeline.ownership)
        self._clock = clock
        self._pipeline = pipeline
        self._tokens = tokens
        self._reviews = reviews

    def request(
        self,
        verb: str,
        address: ResourcePath,
        *,
        options: Options = Options(),  # noqa: B008 - frozen
        user: User = SYSTEM,
        notes: RequestNotes | None = None,
    ) -> ApiRequest:
        """A request to what an address names. Raises ApiError 404 for what is not served."""
        served = served_at(self.registry, address)
        namespace, name, subresource = address.namespace, address.name, address.subresource
        part = served.row.subresource(subresource) if subresource else None
        if verb not in (part.verbs if part is not None else served.row.verbs):
            raise refused_method(served, verb)
        if served.row.namespaced and not namespace and verb not in ("list", "watch"):
            raise method_not_allowed()
        return ApiRequest(verb, served, namespace, name, subresource, options, user, notes or RequestNotes())

    async def get(self, request: ApiRequest) -> JsonObject:
        """The object or its subresource. Raises ApiError 404."""
        stored = self.store.durable_object(request.resource, request.key)
        if stored is None:
            raise not_found(request.plural_resource, request.name)
        obj = self._shown(request, stored.object)
        return subresources.scale_shown(request.served, obj) if request.subresource == "scale" else obj

    def page(self, request: ApiRequest, query: ListQuery) -> ListPage:
        """A page of the list. Raises ApiError 400, 410."""
        return page(self.store, request.served, query)

    def watch(
        self, request: ApiRequest, query: ListQuery, options: WatchOptions
    ) -> AsyncIterator[list[CommittedEvent]]:
        """Every change after the query's resource version or, without one, from now on. Raises ApiError."""
        since = number_of(query.resource_version) or self.store.durable
        watched = WatchQuery(
            request.resource,
            query.namespace,
            matcher(request.served, query.label_selector, query.field_selector),
            since,
            options.present_first,
            options.bookmarks,
            options.timeout_s,
        )
        return events(self.store, self._clock, watched)

    async def create(self, request: ApiRequest, body: JsonValue) -> WriteOutcome:
        """The object as stored; of a Binding a Status, of a review its answer."""
        if request.served.row.kind.endswith("Review") and request.served.custom is None:
            return self._reviews.answer(request, body)
        if request.resource == BINDINGS:
            pods = self.registry.find("", "v1", "pods")
            assert pods is not None
            read = {**self._read(request, body, request.served)}
            read["metadata"] = {
                key: value for key, value in mapping(read, "metadata").items() if key != "uid"
            }
            name = text(read, "metadata", "name")
            bound = replace(request, served=pods, name=name, subresource="binding")
            return WriteOutcome(await self.create_subresource(bound, read))
        if request.served.custom is not None and request.served.custom.terminating:
            words = "create not allowed while custom resource definition is terminating"
            raise forbidden(request.resource, text(body, "metadata", "name"), words)
        return await self._durable(self._settled(request, self._pipeline.create(request, body)))

    async def update(self, request: ApiRequest, body: JsonValue) -> WriteOutcome:
        """The object after a PUT."""
        if request.subresource == "scale":
            scale = subresources.scale_sent(self._pipeline, request, body)
            return await self._durable(subresources.rescale(self._pipeline, request, lambda _old: scale))
        return await self._durable(self._settled(request, put(self._pipeline, request, body)))

    async def patch(self, request: ApiRequest, patch_type: PatchType, patch: JsonValue) -> WriteOutcome:
        """The object after a patch."""
        schema = self.registry.schema
        change = patched(schema, request.served, request.subresource, patch_type, patch)
        unreadable = unreadable_patch(schema, patch_type, patch)
        kind = subresources.SCALE if request.subresource == "scale" else request.served
        read = partial(self._pipeline.codec.decode, kind, validation=FieldValidation.STRICT)
        change = strictly(change, request, strict_complaints(patch_type, patch), unreadable, read)
        if request.subresource == "scale":
            return await self._durable(subresources.rescale(self._pipeline, request, change, unreadable))
        return await self._durable(self._settled(request, self._pipeline.update(request, change, unreadable)))

    async def apply(
        self, request: ApiRequest, config: JsonObject, *, force: bool
    ) -> tuple[WriteOutcome, bool]:
        """The object once a configuration is applied, and whether that made it."""
        application = AppliedConfiguration(config, force)
        if request.subresource == "scale":
            scaling = subresources.rescale(self._pipeline, request, application)
            return await self._durable(scaling), False
        outcome = await self._durable(self._settled(request, self._pipeline.apply(request, application)))
        return outcome, application.made

    async def delete(self, request: ApiRequest, options: DeleteOptions) -> JsonObject:
        """The object while it still stands, else a Status."""
        deleted = await self._durable(delete(self._pipeline, request, options))
        await self._defined(request, request.name)
        return deleted if deleted.get("kind") == "Status" else self._shown(request, deleted)

    async def delete_collection(
        self, request: ApiRequest, query: ListQuery, options: DeleteOptions
    ) -> ListPage:
        """The page of the list that was deleted, as it was."""
        listed = self.page(request, replace(query, limit=query.limit or _DELETED_AT_ONCE))
        for stored in listed.items:
            metadata = stored.object["metadata"]
            assert isinstance(metadata, dict)
            deletion = ApiRequest(
                "delete",
                request.served,
                str(metadata.get("namespace", "")),
                str(metadata["name"]),
                options=request.options,
                user=request.user,
                notes=request.notes,
            )
            await self.delete(deletion, options)
        return listed

    async def create_subresource(self, request: ApiRequest, body: JsonValue) -> JsonObject:
        """POST to `binding` or `eviction`: a Status; to `token`: the TokenRequest with its token."""
        if request.subresource == "token":
            return await self._tokens.answer(request, body)
        if request.subresource not in _POSTED:
            raise method_not_allowed()
        read = self._read(request, body, _POSTED[request.subresource])
        await self._pipeline.admit(request, read, None)
        await self._pipeline.validate(request, read, None)
        deed = subresources.bind if request.subresource == "binding" else evict
        return await self._durable(deed(self._pipeline, request, read))

    def _read(self, request: ApiRequest, body: JsonValue, served: ServedResource) -> JsonObject:
        """A body of a kind that is kept nowhere. Raises ApiError 400."""
        if text(body, "apiVersion") == "policy/v1beta1" and isinstance(body, dict):
            body = {**body, "apiVersion": served.row.api_version}
        read, warnings = self._pipeline.codec.decode(served, body, request.options.field_validation)
        request.notes.warn(*warnings)
        self._pipeline.address(replace(request, served=served), read)
        return read

    def _shown(self, request: ApiRequest, obj: JsonObject) -> JsonObject:
        return self.in_version(request.served, obj)

    def in_version(self, served: ServedResource, obj: JsonObject) -> JsonObject:
        """A stored object as a version shows it."""
        return self._pipeline.codec.in_version(served, obj)

    async def _settled(self, request: ApiRequest, writing: Awaitable[WriteOutcome]) -> WriteOutcome:
        """The outcome in the version asked for, once what a definition means is in force."""
        outcome = await writing
        await self._defined(request, text(outcome.object, "metadata", "name"))
        return WriteOutcome(self._shown(request, outcome.object), outcome.made)

    async def _defined(self, request: ApiRequest, name: str) -> None:
        """Put in force what a write means for custom kinds: one defined, or one whose last objects may go."""
        custom = request.served.custom
        if request.options.dry_run or not (
            request.resource == DEFINITION or (custom is not None and custom.terminating)
        ):
            return
        await self.store.on_disk()
        self.definitions.settle(name if custom is None else custom.definition)
        await self.store.on_disk()

    async def _durable(self, writing: Awaitable[T]) -> T:
        """What a write comes to, a refusal too, once all that it may stand on is on disk. Raises ApiError."""
        try:
            return await writing
        finally:
            await self.store.on_disk()


def served_at(registry: Registry, address: ResourcePath) -> ServedResource:
    """What is served at an address, whatever may be asked of it. Raises ApiError 404."""
    served = registry.find(*address.path)
    if served is None:
        raise unserved(registry, address)
    if address.subresource and address.subresource not in served.subresources:
        raise not_found(served.key, address.name) if served.custom is not None else no_such_path()
    scattered = bool(address.name) or "list" not in served.row.verbs
    if bool(address.namespace) != served.row.namespaced and (address.namespace or scattered):
        raise no_such_path() if served.custom is None else no_such_page()
    if address.watched and (address.subresource or "watch" not in served.row.verbs):
        raise no_such_path()
    return served


def refused_method(served: ServedResource, verb: str) -> StatusError:
    """405 of a verb that a resource has not."""
    if served.custom is None:
        return method_not_allowed()
    group, plural = served.key
    message = f'{verb} is not supported on resources of kind "{plural}.{group}"'
    return StatusError(405, "MethodNotAllowed", message, details={"group": group, "kind": plural})


def unserved(registry: Registry, address: ResourcePath) -> StatusError:
    """The 404 of an address: plain outside of groups that are served; the core's versions are one."""
    is_group = not address.path[0] or registry.builds_in(address.path[0])
    return no_such_path() if is_group else no_such_page()
