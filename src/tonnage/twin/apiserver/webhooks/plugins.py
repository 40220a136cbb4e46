"""The two admission plugins that ask webhooks: one after the other to change, all at once to judge.

Source: k8s.io/apiserver pkg/admission/plugin/webhook/{mutating,validating,generic} (v1.35).
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from tonnage.decide.kubernetes.api.encoding.body import BodyError
from tonnage.decide.kubernetes.api.patches.json_patches import PatchError, json_patch
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.model.json_access import copied, mapping, mappings, number, text
from tonnage.twin.apiserver.codec import Codec
from tonnage.twin.apiserver.object_store import ObjectStore, Resource
from tonnage.twin.apiserver.policies.evaluation import (
    Activation,
    EvaluationError,
    conditions_met,
)
from tonnage.twin.apiserver.rbac.decisions import Authorizers
from tonnage.twin.apiserver.requests import ApiRequest, FieldValidation
from tonnage.twin.apiserver.resources import Registry, ServedResource
from tonnage.twin.apiserver.statuses import bad_request, forbidden
from tonnage.twin.apiserver.webhooks.client import post
from tonnage.twin.apiserver.webhooks.matching import (
    CONNECT,
    AdmissionRequest,
    is_exempt,
    selector_at,
    selects_namespace,
    selects_object,
    version_asked,
)
from tonnage.twin.apiserver.webhooks.review import (
    Answer,
    CallError,
    call_failed,
    denial,
    internal,
    read_answer,
    review,
    review_version,
)

MUTATING: Final[Resource] = ("admissionregistration.k8s.io", "mutatingwebhookconfigurations")
VALIDATING: Final[Resource] = ("admissionregistration.k8s.io", "validatingwebhookconfigurations")
_DEFAULT_S: Final = 10
_PREFIXES: Final = {MUTATING: "mutation.webhook.admission.k8s.io/", VALIDATING: ""}
_OPEN: Final = {
    MUTATING: "failed-open.mutating.webhook.admission.k8s.io/",
    VALIDATING: "failed-open.validating.webhook.admission.k8s.io/",
}


class WebhookPlugin(Protocol):
    """An admission plugin, as in `admission`."""

    async def admit(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None: ...


@dataclass(frozen=True, slots=True)
class Hook:
    """A webhook of a configuration, and its place among all of its sort."""

    configuration: str
    index: int
    written: JsonObject

    @property
    def name(self) -> str:
        """Its full name."""
        return text(self.written, "name")

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from all others."""
        return self.configuration, self.name

    @property
    def may_fail(self) -> bool:
        """Whether requests go on when it cannot be asked."""
        return text(self.written, "failurePolicy") == "Ignore"


class _Webhooks:
    """What both plugins have in common: which webhooks a request meets, and asking one of them."""

    def __init__(
        self, store: ObjectStore, registry: Registry, codec: Codec, sort: Resource, authority: Authorizers
    ) -> None:
        self._store = store
        self._registry = registry
        self._codec = codec
        self._sort = sort
        self._authority = authority

    def hooks(self) -> Iterator[Hook]:
        """All of them, by the names of their configurations."""
        index = 0
        for stored in self._store.list(self._sort):
            for written in mappings(stored.object, "webhooks"):
                yield Hook(text(stored.object, "metadata", "name"), index, written)
                index += 1

    def version(self, hook: Hook, admission: AdmissionRequest) -> ServedResource | None:
        """In which version the webhook wants to see the request; None if it is not to be asked.

        Raises:
            ApiError: its conditions cannot be evaluated, and it must not be passed over.
        """
        written = hook.written
        if not selects_namespace(selector_at(written, "namespaceSelector"), admission, self._store):
            return None
        if not selects_object(selector_at(written, "objectSelector"), admission):
            return None
        policy = text(written, "matchPolicy") or "Equivalent"
        served = version_asked(mappings(written, "rules"), policy, admission, self._registry)
        conditions = mappings(written, "matchConditions")
        if served is None or not conditions:
            return served
        shown = admission.shown(self._codec.in_version, served)
        activation = Activation(admission, served, shown, self._authority)
        try:
            return served if conditions_met(conditions, activation, may_fail=hook.may_fail) else None
        except EvaluationError as error:
            raise forbidden(admission.request.resource, admission.name, str(error)) from None

    async def ask(self, hook: Hook, admission: AdmissionRequest, served: ServedResource) -> Answer:
        """The webhook's answer. Raises CallError, ApiError 400 for a dry run that it would not survive."""
        dry = admission.request.options.dry_run
        if dry and text(hook.written, "sideEffects") not in ("None", "NoneOnDryRun"):
            raise bad_request(f'admission webhook "{hook.name}" does not support dry run')
        version = review_version(hook.written)
        uid = str(uuid.uuid4())
        shown = admission.shown(self._codec.in_version, served)
        body = review(uid, version, admission, served, shown)
        timeout_s = min(max(number(hook.written, "timeoutSeconds", default=_DEFAULT_S), 1), 30)
        reply = await post(mapping(hook.written, "clientConfig"), self._store, body, timeout_s)
        answer = read_answer(reply, uid, version, mutating=self._sort == MUTATING)
        for words in answer.warnings:
            admission.request.notes.warn(words)
        for key, value in answer.audit.items():
            admission.request.notes.audit[f"{hook.name}/{key}"] = value
        return answer

    def failed_open(self, hook: Hook, admission: AdmissionRequest, place: int, round_: int = 0) -> None:
        """Note that a webhook which may fail has failed, at its place among those that were asked."""
        admission.request.notes.audit[f"{_OPEN[self._sort]}round_{round_}_index_{place}"] = hook.name


_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Round:
    """What a round did: whether the object was changed, which webhooks that may be asked twice were asked,
    and which of them before some later one changed it.
    """

    changed: bool
    invoked: frozenset[_Key]
    again: frozenset[_Key]


class MutatingWebhookPlugin:
    """Asks one webhook after the other, each about what the ones before it made of the object."""

    def __init__(
        self,
        store: ObjectStore,
        registry: Registry,
        codec: Codec,
        before: Sequence[WebhookPlugin],
        authority: Authorizers,
    ) -> None:
        """`before`: the plugins that have completed the object; they are asked again if it is changed."""
        self._webhooks = _Webhooks(store, registry, codec, MUTATING, authority)
        self._codec = codec
        self._before = before

    async def admit(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Change the object as webhooks want it. Raises ApiError."""
        if is_exempt(request):
            return
        hooks = list(self._webhooks.hooks())
        if not hooks:
            return
        first = await self._round(hooks, AdmissionRequest(request, obj, old), None)
        if not first.changed or obj is None or request.verb == CONNECT:
            return
        before = copied(obj)
        for plugin in self._before:
            await plugin.admit(request, obj, old)
        hooks_again = first.invoked if obj != before else first.again
        await self._round(hooks, AdmissionRequest(request, obj, old), hooks_again)

    async def _round(
        self, hooks: list[Hook], admission: AdmissionRequest, only: frozenset[_Key] | None
    ) -> _Round:
        """Ask all, or `only` some."""
        changed_ever = False
        invoked, again = set[_Key](), set[_Key]()
        for hook in hooks:
            served = self._webhooks.version(hook, admission)
            if served is None or (only is not None and hook.key not in only):
                continue
            if await self._ask(hook, admission, served, 0 if only is None else 1):
                changed_ever = True
                again |= invoked
            if text(hook.written, "reinvocationPolicy") == "IfNeeded":
                invoked.add(hook.key)
        return _Round(changed_ever, frozenset(invoked), frozenset(again))

    async def _ask(
        self, hook: Hook, admission: AdmissionRequest, served: ServedResource, round_: int
    ) -> bool:
        try:
            answer = await self._webhooks.ask(hook, admission, served)
        except CallError as error:
            self._note(hook, admission, round_, changed=False)
            if hook.may_fail:
                self._webhooks.failed_open(hook, admission, hook.index, round_)
                return False
            raise call_failed(hook.name, str(error)) from None
        if not answer.allowed:
            self._note(hook, admission, round_, changed=False)
            raise denial(hook.name, answer)
        changed = bool(answer.patch) and self._patched(hook, admission, served, answer)
        self._note(hook, admission, round_, changed=changed)
        return changed

    def _patched(
        self, hook: Hook, admission: AdmissionRequest, served: ServedResource, answer: Answer
    ) -> bool:
        """Apply a patch to the object in place; whether that changed it. Raises ApiError 500."""
        obj = admission.obj
        if obj is None:
            raise internal(
                f'admission webhook "{hook.name}" attempted to modify the object, which is not supported for '
                "this operation"
            )
        own = admission.request.served
        before = self._codec.in_version(served, obj)
        try:
            patched = json_patch(copied(before), list(answer.patch))
            if admission.request.verb == CONNECT or _speaks_another_kind(admission.request):
                new = mapping({"object": patched}, "object")
            else:
                decoded, _ = self._codec.decode(served, patched, FieldValidation.IGNORE)
                new = self._codec.in_version(own, self._codec.default(served, decoded))
        except (PatchError, BodyError) as error:
            raise internal(error.detail) from None
        changed = new != obj
        obj.clear()
        obj.update(new)
        return changed

    def _note(self, hook: Hook, admission: AdmissionRequest, round_: int, *, changed: bool) -> None:
        note = {"configuration": hook.configuration, "webhook": hook.name, "mutated": changed}
        key = f"{_PREFIXES[MUTATING]}round_{round_}_index_{hook.index}"
        admission.request.notes.audit[key] = json.dumps(note, separators=(",", ":"))


def _speaks_another_kind(request: ApiRequest) -> bool:
    """Whether a subresource's objects are of a kind of their own, as Bindings and Scales are."""
    row = request.served.row
    part = row.subresource(request.subresource) if request.subresource else None
    return part is not None and part.kind != row.kind


class ValidatingWebhookPlugin:
    """Asks all webhooks at once; the first refusal counts, in the order in which they come."""

    def __init__(self, store: ObjectStore, registry: Registry, codec: Codec, authority: Authorizers) -> None:
        self._webhooks = _Webhooks(store, registry, codec, VALIDATING, authority)

    async def admit(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Refuse what a webhook denies. Raises ApiError."""
        if is_exempt(request):
            return
        admission = AdmissionRequest(request, obj, old)
        hooks = [
            (h, served) for h in self._webhooks.hooks() if (served := self._webhooks.version(h, admission))
        ]
        if not hooks:
            return
        refusals: list[ApiError] = []

        async def ask(place: int, hook: Hook, served: ServedResource) -> None:
            try:
                answer = await self._webhooks.ask(hook, admission, served)
            except CallError as error:
                if hook.may_fail:
                    self._webhooks.failed_open(hook, admission, place)
                else:
                    refusals.append(call_failed(hook.name, str(error)))
            except ApiError as error:
                refusals.append(error)
            else:
                if not answer.allowed:
                    refusals.append(denial(hook.name, answer))

        async with asyncio.TaskGroup() as group:
            for place, (hook, served) in enumerate(hooks):
                group.create_task(ask(place, hook, served))
        if refusals:
            raise refusals[0]
