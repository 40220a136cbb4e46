"""Writes, in stages: decode, default, prepare, admit, validate, count, store; each a function of one object.

Access rules belong before `decode`, mutating and validating webhooks are admission plugins, and server-side
apply is one more way (beside the three patches) to get from the stored object to the wanted one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Final

from tonnage.decide.kubernetes.api.encoding.body import BodyError
from tonnage.decide.kubernetes.api.encoding.go_json import go_json
from tonnage.decide.kubernetes.api.patches.json_patches import same_json
from tonnage.decide.kubernetes.api.problems import InvalidError, invalid_status
from tonnage.decide.kubernetes.api.strategies.identity import drop_identity, generated_name
from tonnage.decide.kubernetes.api.warnings.by_kind import notices
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, drop, items, mapping, number, put, text
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.model.kubernetes.well_known import SAFE_LETTERS
from tonnage.ports.clock import Clock
from tonnage.twin.apiserver.admission.admin_access import admin_access_problems
from tonnage.twin.apiserver.admission.chain import AdmissionPlugin
from tonnage.twin.apiserver.codec import Codec
from tonnage.twin.apiserver.object_store import ObjectStore, StaleError, Stored
from tonnage.twin.apiserver.ownership.configurations import AppliedConfiguration
from tonnage.twin.apiserver.ownership.field_manager import (
    FieldOwnership,
    as_sent,
    put_entries,
    without_entries,
)
from tonnage.twin.apiserver.ownership.manager_names import entry_problems
from tonnage.twin.apiserver.ownership.refusals import check_new, unconvertible
from tonnage.twin.apiserver.policies.plugin import AdmissionPolicies
from tonnage.twin.apiserver.reading.listing import revision_of
from tonnage.twin.apiserver.requests import ApiRequest, WriteOutcome
from tonnage.twin.apiserver.resource_names import NAMESPACE, POD
from tonnage.twin.apiserver.statuses import (
    StatusError,
    already_exists,
    bad_request,
    conflict,
    no_space,
    not_found,
)
from tonnage.twin.apiserver.strategies.by_kind import (
    finish_create,
    prepare_create,
    prepare_update,
)
from tonnage.twin.apiserver.webhooks.plugins import MutatingWebhookPlugin, ValidatingWebhookPlugin
from tonnage.twin.apiserver.writing.owner_references import keep_owners_once
from tonnage.twin.apiserver.writing.preconditions import expect_version, other_uid, row_of

Change = Callable[[JsonObject], JsonValue]
"""From the object as it is (in the request's version; not to be changed) to the body that is wanted."""

Unreadable = Callable[[JsonValue, BodyError], ApiError]
"""What to say of a wanted body that is no object of the kind."""

_ATTEMPTS: Final = 5
_NAME_ATTEMPTS: Final = 8
_LITTLE_BYTES: Final = 1 << 10
"""By which an object may grow where there is no room: conditions, and the time of its deletion."""


@dataclass(frozen=True, slots=True)
class Ids:
    """Where uids and name suffixes come from."""

    uid: Callable[[], str]
    random: Random

    def suffix(self) -> str:
        """Five characters that spell nothing."""
        return "".join(self.random.choice(SAFE_LETTERS) for _ in range(5))


class WritePipeline:
    """Creates and updates. Deletions are in `deletion`, which shares `admit`."""

    def __init__(
        self,
        store: ObjectStore,
        codec: Codec,
        clock: Clock,
        ids: Ids,
        plugins: Sequence[AdmissionPlugin],
        gates: Sequence[AdmissionPlugin] = (),
    ) -> None:
        """`gates` are asked last, once the object is valid, and change nothing of it."""
        self._gates = gates
        self.store = store
        self.codec = codec
        self.clock = clock
        self.ids = ids
        self._plugins = plugins
        self.ownership = FieldOwnership(codec, clock)

    async def create(
        self, request: ApiRequest, body: JsonValue, applied: AppliedConfiguration | None = None
    ) -> WriteOutcome:
        """The object as stored; `applied` is the configuration that it is made of. Raises ApiError."""
        served = request.served
        obj, warnings = self._read(request, body, body, unconvertible if applied else None)
        request.notes.warn(*warnings)
        self.address(request, obj)
        drop_identity(obj)
        obj = self.codec.default(served, obj)
        keep_owners_once(obj, request.notes, admitted=False)
        sent = at(obj, "metadata", "managedFields")
        owners = applied.entries if applied else self.ownership.created(request, as_sent(obj, body), sent)
        put_entries(obj, owners)
        versioned = bool(mapping(obj, "metadata").pop("resourceVersion", ""))
        await self.admit(request, obj, None)
        keep_owners_once(obj, request.notes, admitted=True)
        prefix = self._identify(obj)
        prepare_create(request, obj, self.codec.empty_status(served))
        put_entries(obj, owners)
        self._check(request, obj, None)
        await self.validate(request, obj, None)
        finish_create(request, obj)
        obj = self.codec.for_store(served, obj)
        if request.options.dry_run:
            name = text(obj, "metadata", "name")
            if self.store.get(request.resource, (request.namespace, name)) is not None:
                raise already_exists(request.plural_resource, name, ending=self._ends(request, name))
            return WriteOutcome(self.store.shapes.shaped(obj))
        if versioned:
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        return WriteOutcome(self._create(request, obj, prefix).object)

    def _create(self, request: ApiRequest, obj: JsonObject, prefix: str) -> Stored:
        """ObjectStore a new object; a name generated from `prefix` that is taken is made anew."""
        if self.store.full:
            raise no_space()
        name = text(obj, "metadata", "name")
        for _ in range(_NAME_ATTEMPTS):
            try:
                return self.store.create(request.resource, (request.namespace, name), obj)
            except StaleError:
                if not prefix:
                    break
                name = generated_name(prefix, self.ids.suffix())
                put(obj, name, "metadata", "name")
        generated = bool(text(obj, "metadata", "generateName"))
        raise already_exists(
            request.plural_resource, name, ending=self._ends(request, name), generated=generated
        )

    def _ends(self, request: ApiRequest, name: str) -> bool:
        """Whether the object that has the name already is being deleted."""
        stored = self.store.get(request.resource, (request.namespace, name))
        return stored is not None and bool(text(stored.object, "metadata", "deletionTimestamp"))

    async def apply(self, request: ApiRequest, application: AppliedConfiguration) -> WriteOutcome:
        """The object once a configuration is applied, which may make it. Raises ApiError."""
        change = partial(self.ownership.apply, request, application)
        if request.subresource or self.store.get(request.resource, request.key) is not None:
            return await self.update(request, change, unconvertible, application)
        body = change(self.codec.empty(request.served))
        check_new(request, body)
        drop(body, "metadata", "resourceVersion")
        application.made = True
        return await self.create(replace(request, verb="create"), body, application)

    async def update(
        self,
        request: ApiRequest,
        change: Change,
        unreadable: Unreadable | None = None,
        applied: AppliedConfiguration | None = None,
    ) -> WriteOutcome:
        """The object after `change`; asked again when somebody else was faster. Raises ApiError."""
        for _ in range(_ATTEMPTS):
            stored = self.read(request)
            old = self.codec.in_version(request.served, stored.object)
            body = change(old)
            sent, whole = at(body, "metadata", "managedFields"), body
            if sent is not None and sent == at(old, "metadata", "managedFields"):
                # Most writers send back who owns what, which is much to read for nothing.
                body, sent = without_entries(body), None
            unchanged = _unchanged(request, body, old)
            obj, warnings = self._read(request, _less(body, unchanged), whole, unreadable)
            request.notes.warn(*warnings)
            self.address(request, obj)
            if applied is None:
                expect_version(request, obj)
            self._expect(request, obj, old)
            obj = self.codec.default(request.served, obj) | unchanged
            if request.verb == "update":
                keep_owners_once(obj, request.notes, admitted=False)
            # Who owns what follows from what was sent, so before admission changes the object.
            owners = (
                applied.entries if applied else self.ownership.updated(request, as_sent(obj, body), old, sent)
            )
            put_entries(obj, owners)
            await self.admit(request, obj, old)
            keep_owners_once(obj, request.notes, admitted=True)
            obj = prepare_update(request, obj, old, timestamp(self.clock.now()), body)
            put_entries(obj, owners)  # again: admission may have put in others
            put(obj, at(old, "metadata", "resourceVersion"), "metadata", "resourceVersion")
            self._check(request, obj, old)
            await self.validate(request, obj, old)
            obj = self.ownership.settled(self.codec.for_store(request.served, obj), stored.object)
            if request.options.dry_run or _same(request, obj, stored.object):
                return WriteOutcome(self.store.shapes.shaped(obj))
            try:
                return WriteOutcome(self._replace(request, obj, stored))
            except StaleError:
                continue
        raise conflict(request.plural_resource, request.name)

    def read(self, request: ApiRequest) -> Stored:
        """The object that a request names. Raises ApiError 404."""
        stored = self.store.get(request.resource, request.key)
        if stored is None:
            raise not_found(request.plural_resource, request.name)
        return stored

    async def admit(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Ask every plugin that may complete the object. Raises ApiError."""
        for plugin in () if request.admitted else self._plugins:
            await plugin.admit(request, obj, old)

    async def connect(self, request: ApiRequest, options: JsonObject) -> None:
        """Ask webhooks and policies whether a stream with these options may be opened. Raises ApiError."""
        for plugin in (*self._plugins, *self._gates):
            if isinstance(plugin, MutatingWebhookPlugin | ValidatingWebhookPlugin | AdmissionPolicies):
                await plugin.admit(request, options, None)

    async def validate(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Ask every plugin that only lets pass or refuses. Raises ApiError."""
        for gate in () if request.admitted else self._gates:
            await gate.admit(request, obj, old)

    def _read(
        self, request: ApiRequest, body: JsonValue, whole: JsonValue, unreadable: Unreadable | None
    ) -> tuple[JsonObject, tuple[str, ...]]:
        """The object that a body is; refusals show the `whole` one."""
        try:
            return self.codec.decode(request.served, body, request.options.field_validation)
        except BodyError as error:
            raise (unreadable(whole, error) if unreadable else error) from None

    def _replace(self, request: ApiRequest, obj: JsonObject, stored: Stored) -> JsonObject:
        """ObjectStore an update, which ends the object when it was only waiting to be let go."""
        if may_go(request, obj):
            self.store.delete(request.resource, request.key, read=stored)
            return self.store.shapes.shaped(obj)
        if self.store.full and len(go_json(obj)) > len(stored.json) + _LITTLE_BYTES:
            raise no_space()
        return self.store.update(request.resource, request.key, obj, read=stored).object

    def address(self, request: ApiRequest, obj: JsonObject) -> None:
        """Fill in the namespace and name of the path. Raises ApiError 400 where the body says otherwise."""
        metadata = obj.setdefault("metadata", {})
        if not isinstance(metadata, dict):
            raise bad_request("metadata is not an object")
        namespace, name = text(metadata, "namespace"), text(metadata, "name")
        if request.served.row.namespaced:
            if namespace not in ("", request.namespace):
                raise bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request"
                )
            metadata["namespace"] = request.namespace
        else:
            metadata.pop("namespace", None)
        if request.verb != "create" and name != request.name:
            message = f"the name of the object ({name}) does not match the name on the URL ({request.name})"
            nameless = (
                f"the name of the object ({request.name} based on URL) was undeterminable: "
                "name must be provided"
            )
            raise bad_request(message if name else nameless)

    def _identify(self, obj: JsonObject) -> str:
        """Give a new object its name, uid and time of birth; the prefix if its name was generated."""
        metadata = mapping(obj, "metadata")
        prefix = "" if text(metadata, "name") else text(metadata, "generateName")
        if prefix:
            metadata["name"] = generated_name(prefix, self.ids.suffix())
        metadata["uid"] = self.ids.uid()
        metadata["creationTimestamp"] = timestamp(self.clock.now())
        return prefix

    def _expect(self, request: ApiRequest, obj: JsonObject, old: JsonObject) -> None:
        """Hold the writer's uid (not a patch's) and resource version against the object's. Raises 409."""
        uid, current = text(obj, "metadata", "uid"), text(old, "metadata", "uid")
        if uid and uid != current and request.verb == "update":
            raise other_uid(request, uid, current)
        version = text(obj, "metadata", "resourceVersion")
        if version and not _number(version):
            return  # As good as none.
        if version and version != text(old, "metadata", "resourceVersion"):
            raise conflict(request.plural_resource, request.name)

    def _check(self, request: ApiRequest, obj: JsonObject, old: JsonObject | None) -> None:
        errors = (
            *admin_access_problems(self.store, request, obj, old),
            *self.codec.problems(request.served, obj, old, request.subresource, request.notes.warn),
            *entry_problems(at(obj, "metadata", "managedFields")),
        )
        if errors:
            raise InvalidError(invalid_status(row_of(request, obj), text(obj, "metadata", "name"), errors))
        custom = request.served.custom is not None
        for words in notices(request.resource, request.subresource, obj, old, custom=custom):
            request.notes.warn(words)


def _number(version: str) -> int:
    """A writer's resource version as a number. Raises ApiError 500."""
    try:
        return revision_of(version)
    except ValueError as error:
        _, at_number, why = str(error).partition("strconv.")
        raise StatusError(500, "", at_number + why) from None


def _unchanged(request: ApiRequest, body: JsonValue, old: JsonObject) -> JsonObject:
    """What the body of a writer of `status` has from the object itself, and is not to be read again."""
    if request.subresource != "status" or request.served.custom is not None or not isinstance(body, dict):
        return {}
    return {
        key: value
        for key, value in body.items()
        if key not in ("metadata", "status") and isinstance(value, dict) and value is old.get(key)
    }


def _less(body: JsonValue, unchanged: JsonObject) -> JsonValue:
    if not unchanged or not isinstance(body, dict):
        return body
    return {key: value for key, value in body.items() if key not in unchanged}


def _same(request: ApiRequest, obj: JsonObject, stored: JsonObject) -> bool:
    """Whether an update changes nothing. Custom kinds may tell 1 from true, which Python does not."""
    return obj == stored and (request.served.custom is None or same_json(obj, stored))


def may_go(request: ApiRequest, obj: JsonObject) -> bool:
    """Whether a deleted object has nobody left to wait for: no finalizer, no grace period, no content."""
    if not text(obj, "metadata", "deletionTimestamp") or items(obj, "metadata", "finalizers"):
        return False
    if request.resource == POD and number(obj, "metadata", "deletionGracePeriodSeconds") > 0:
        return False
    return not items(obj, "spec", "finalizers") if request.resource == NAMESPACE else True
