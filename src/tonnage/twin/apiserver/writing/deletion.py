"""Deletions: preconditions, grace periods, finalizers, and what becomes of dependants.

An object that somebody still waits for gets a deletionTimestamp and stays; whoever takes the last finalizer
away, or (a kubelet) ends the grace period with 0, makes it go. Dependants are the garbage collector's work:
the server only leaves it the finalizers `orphan` and `foregroundDeletion`.

Source: apiserver's registry store.go and rest.BeforeDelete, pod and namespace strategies (v1.35).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, copied, mapping, mappings, number, put, text, texts
from tonnage.model.kubernetes.timestamps import moment_of, timestamp
from tonnage.model.kubernetes.well_known import FOREGROUND, ORPHAN
from tonnage.twin.apiserver.definitions.establishment import CLEANUP
from tonnage.twin.apiserver.object_store import StaleError, Stored
from tonnage.twin.apiserver.requests import ApiRequest, DeleteOptions
from tonnage.twin.apiserver.resource_names import DEFINITION, JOB, NAMESPACE, POD
from tonnage.twin.apiserver.statuses import conflict, success
from tonnage.twin.apiserver.strategies.by_kind import counts_generations
from tonnage.twin.apiserver.writing.pipeline import WritePipeline, may_go

_SHOWN_AGAIN: Final = frozenset(
    {
        POD,
        NAMESPACE,
        *(
            ("", plural)
            for plural in (
                "persistentvolumeclaims",
                "persistentvolumes",
                "podtemplates",
                "resourcequotas",
                "serviceaccounts",
                "services",
            )
        ),
        *(
            ("resource.k8s.io", plural)
            for plural in ("deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices")
        ),
        *(
            ("storage.k8s.io", plural)
            for plural in (
                "csidrivers",
                "csinodes",
                "storageclasses",
                "volumeattachments",
                "volumeattributesclasses",
            )
        ),
    }
)
"""Kinds that answer with themselves even when they are gone."""
ORPHANING: Final = frozenset({JOB, ("", "replicationcontrollers")})
"""Kinds whose dependants stay unless the deleter says otherwise."""
_ATTEMPTS: Final = 5
_DEFAULT_GRACE_S: Final = 30


async def delete(pipeline: WritePipeline, request: ApiRequest, options: DeleteOptions) -> JsonObject:
    """The object while it still stands, else a Status of success. Raises ApiError 404, 409, 403."""
    for _ in range(_ATTEMPTS):
        stored = pipeline.read(request)
        expect(request, stored, options)
        await pipeline.admit(request, None, stored.object)
        await pipeline.validate(request, None, stored.object)
        obj = _marked(pipeline, request, stored, options)
        try:
            return _settle(pipeline, request, stored, obj)
        except StaleError:
            continue
    raise conflict(request.plural_resource, request.name)


def expect(request: ApiRequest, stored: Stored, options: DeleteOptions) -> None:
    """Hold the deleter's uid and resource version against the object's. Raises ApiError 409."""
    uid, version = text(stored.object, "metadata", "uid"), str(stored.revision)
    if request.resource == NAMESPACE:
        for field, expected, actual in (
            ("UID", options.uid, uid),
            ("ResourceVersion", options.resource_version, version),
        ):
            if expected not in ("", actual):
                words = (
                    f"Precondition failed: {field} in precondition: {expected}, "
                    f"{field} in object meta: {actual}"
                )
                raise conflict(NAMESPACE, request.name, words)
    if options.uid and options.uid != uid:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid}). "
            "The object might have been deleted and then recreated"
        )
        raise conflict((request.served.row.group, request.served.row.kind), request.name, why)
    if options.resource_version and options.resource_version != version:
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match "
            f"the ResourceVersion in record ({version}). The object might have been modified"
        )
        raise conflict((request.served.row.group, request.served.row.kind), request.name, why)


def _settle(pipeline: WritePipeline, request: ApiRequest, stored: Stored, obj: JsonObject) -> JsonObject:
    """Remove the object when nobody waits for it, else store it as it is marked."""
    # A namespace goes with a second request; the first one only lets it end.
    ends = request.resource != NAMESPACE or bool(text(stored.object, "metadata", "deletionTimestamp"))
    gone, last = ends and may_go(request, obj), stored
    if not request.options.dry_run:
        if obj != stored.object and (not gone or _shows_update(request, stored)):
            last = pipeline.store.update(request.resource, request.key, obj, read=stored)
            obj = last.object
        if gone:
            pipeline.store.delete(request.resource, request.key, read=last)
    if not gone:
        return obj
    if request.resource in _SHOWN_AGAIN:
        return obj if request.resource in (POD, NAMESPACE) else stored.object
    return success(request.plural_resource, request.name, text(obj, "metadata", "uid"))


def _shows_update(request: ApiRequest, stored: Stored) -> bool:
    """Whether watchers see what a deletion makes of an object before they see it go."""
    return request.resource == POD or texts(stored.object, "metadata", "finalizers") != []


def _marked(
    pipeline: WritePipeline, request: ApiRequest, stored: Stored, options: DeleteOptions
) -> JsonObject:
    """The object with deletionTimestamp, grace period and finalizers as this deletion wants them."""
    obj = copied(stored.object)
    metadata = mapping(obj, "metadata")
    grace = _grace_s(request, obj, options)
    grace_before = at(metadata, "deletionGracePeriodSeconds")
    now = pipeline.clock.now()
    if not text(metadata, "deletionTimestamp"):
        _set_finalizers(metadata, options, orphans=request.resource in ORPHANING)
        if request.resource == DEFINITION:
            return _ending(obj, timestamp(now))
        metadata["deletionTimestamp"] = timestamp(now + timedelta(seconds=grace))
        if request.resource == NAMESPACE:
            put(obj, "Terminating", "status", "phase")
            return obj
        metadata["deletionGracePeriodSeconds"] = grace
        if counts_generations(request.served) and number(metadata, "generation") > 0:
            metadata["generation"] = number(metadata, "generation") + 1
    elif (
        request.resource != POD or not grace_before
    ):  # a pod whose grace period is over is deleted as if anew
        _set_finalizers(metadata, options, orphans=request.resource in ORPHANING)
    elif isinstance(grace_before, int) and options.grace_period_s is not None:
        _shorten(metadata, grace_before, _wanted_s(options.grace_period_s), now)
    return obj


def _shorten(metadata: JsonObject, before: int, grace: int, now: datetime) -> None:
    """A second deletion can only make it shorter, and counts from the first."""
    if grace >= before:
        return
    end = moment_of(text(metadata, "deletionTimestamp")) + timedelta(seconds=grace - before)
    if end < now:
        end, grace = now, min(grace, 1)
    metadata["deletionTimestamp"] = timestamp(end)
    metadata["deletionGracePeriodSeconds"] = grace


def _ending(definition: JsonObject, now: str) -> JsonObject:
    """A definition whose instances are to go before it."""
    finalizers = texts(definition, "metadata", "finalizers")
    put(definition, [*finalizers, *([] if CLEANUP in finalizers else [CLEANUP])], "metadata", "finalizers")
    put(definition, now, "metadata", "deletionTimestamp")
    words = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    pending: JsonObject = {
        "type": "Terminating", "status": "True", "lastTransitionTime": now,
        "reason": "InstanceDeletionPending", "message": words,
    }  # fmt: skip
    conditions = mappings(definition, "status", "conditions")
    others: list[JsonValue] = [
        condition for condition in conditions if text(condition, "type") != "Terminating"
    ]
    put(definition, [*others, pending], "status", "conditions")
    return definition


def _set_finalizers(metadata: JsonObject, options: DeleteOptions, *, orphans: bool) -> None:
    finalizers = texts(metadata, "finalizers")
    if not options.propagation and orphans and not {ORPHAN, FOREGROUND} & set(finalizers):
        finalizers.append(ORPHAN)
    if options.propagation:
        finalizers = [name for name in finalizers if name not in (ORPHAN, FOREGROUND)]
        match options.propagation:
            case "Orphan":
                finalizers.append(ORPHAN)
            case "Foreground":
                finalizers.append(FOREGROUND)
            case _:
                pass
    if set(finalizers) == set(texts(metadata, "finalizers")):
        return
    metadata.pop("finalizers", None)
    if finalizers:
        metadata["finalizers"] = list(finalizers)


def _grace_s(request: ApiRequest, obj: JsonObject, options: DeleteOptions) -> int:
    """Seconds that the object's holder has. Only pods on a node that still run have any."""
    if request.resource != POD:
        return 0
    unbound = not text(obj, "spec", "nodeName")
    if unbound or text(obj, "status", "phase") in ("Failed", "Succeeded"):
        return 0
    if options.grace_period_s is not None:
        return _wanted_s(options.grace_period_s)
    return _wanted_s(number(obj, "spec", "terminationGracePeriodSeconds", default=_DEFAULT_GRACE_S))


def _wanted_s(seconds: int) -> int:
    return seconds if seconds >= 0 else 1
