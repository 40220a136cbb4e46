"""Evictions: deletions of a pod that ask its disruption budget first.

Nothing here waits between reading a budget and taking from it, so two evictions never share one allowance.

Source: pkg/registry/core/pod/storage/eviction.go of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tonnage.decide.kubernetes.api.problems import InvalidError, invalid, invalid_status
from tonnage.decide.kubernetes.api.selectors import label_requirements, labels_of, matches_labels
from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, copied, flag, mapping, mappings, number, put, text, texts
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.twin.apiserver.object_store import Resource, Stored
from tonnage.twin.apiserver.requests import ApiRequest, DeleteOptions
from tonnage.twin.apiserver.statuses import (
    DONE,
    StatusCause,
    StatusError,
    bad_request,
    forbidden,
    too_many_requests,
)
from tonnage.twin.apiserver.writing.deletion import delete, expect
from tonnage.twin.apiserver.writing.deletion_options import deletion_options
from tonnage.twin.apiserver.writing.pipeline import WritePipeline
from tonnage.wire.schema import KindRow

BUDGET: Final[Resource] = ("policy", "poddisruptionbudgets")
EVICTION: Final = KindRow("policy", "v1", "Eviction", "evictions", "eviction", True, (), "policy/v1.Eviction")
_REFUSED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_RETRY_S: Final = 10
_MOST_DISRUPTED: Final = 2000
_STORE_ERRORS: Final = "ignoreStoreReadErrorWithClusterBreakingPotential"
_AMBIGUOUS: Final = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)


async def evict(pipeline: WritePipeline, request: ApiRequest, body: JsonObject) -> JsonObject:
    """A Status of success once the pod is being deleted. Raises ApiError 400, 403, 404, 409, 422, 429."""
    delete_options, dry_run = _delete_options(request, body)
    stored = pipeline.read(request)
    if not _unguarded(stored.object):
        budgets = _budgets_of(pipeline, request, stored.object)
        if len(budgets) > 1:
            raise StatusError(500, "", _AMBIGUOUS)
        for budget in budgets:
            if not _passes_by(budget.object, stored.object):
                _take(pipeline, budget, request.name, dry_run=dry_run)
    # As the genuine one: what is not the pod that was meant has taken from the budget all the same.
    if not dry_run:
        meant = mapping(delete_options, "preconditions")
        expect(request, stored, DeleteOptions(None, "", text(meant, "uid"), text(meant, "resourceVersion")))
        _mark(pipeline, request, stored)
    options, _ = deletion_options(delete_options)
    write = replace(request.options, dry_run=dry_run)
    going = replace(request, verb="delete", subresource="", options=write)
    # The mark has raised the version that the evictor may have asked for.
    await delete(pipeline, going, options if dry_run else replace(options, resource_version=""))
    return DONE


def _delete_options(request: ApiRequest, body: JsonObject) -> tuple[JsonObject, bool]:
    """How the pod is to be deleted, and whether that is only tried."""
    if text(body, "metadata", "name") != request.name:
        raise bad_request("name in URL does not match name in Eviction object")
    delete_options = mapping(body, "deleteOptions")
    if flag(delete_options, _STORE_ERRORS):
        words = "can not be set for pod eviction, try after removing the option"
        fault = invalid(f"deleteOptions.{_STORE_ERRORS}", True, words)
        raise InvalidError(invalid_status(EVICTION, request.name, (fault,)))
    in_query, in_body = ["All"] if request.options.dry_run else [], texts(delete_options, "dryRun")
    if in_query and in_body and in_query != in_body:
        shown = f"[{' '.join(in_query)}] and [{' '.join(in_body)}]"
        raise StatusError(500, "", f"Non-matching dry-run options in request and content: {shown}")
    return delete_options, bool(in_query or in_body)


def _unguarded(pod: JsonObject) -> bool:
    """Whether a pod disrupts nothing when it goes: it is on its way, has ended or has yet to start."""
    phase = text(pod, "status", "phase")
    return phase in ("Pending", "Succeeded", "Failed") or bool(text(pod, "metadata", "deletionTimestamp"))


def _budgets_of(pipeline: WritePipeline, request: ApiRequest, pod: JsonObject) -> list[Stored]:
    labels = labels_of(pod)
    return [
        stored
        for stored in pipeline.store.list(BUDGET, namespace=request.namespace)
        if at(stored.object, "spec", "selector") is not None
        and matches_labels(label_requirements(mapping(stored.object, "spec", "selector")), labels)
    ]


def _passes_by(budget: JsonObject, pod: JsonObject) -> bool:
    """Whether the pod, not ready, goes without taking from the budget."""
    if any(
        (text(c, "type"), text(c, "status")) == ("Ready", "True")
        for c in mappings(pod, "status", "conditions")
    ):
        return False
    if text(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    needed = number(budget, "status", "desiredHealthy")
    return number(budget, "status", "currentHealthy") >= needed > 0


def _take(pipeline: WritePipeline, stored: Stored, pod: str, *, dry_run: bool) -> None:
    """Take one disruption from a budget. Raises ApiError 429, 403."""
    budget = copied(stored.object)
    _check(budget)
    if dry_run:
        return
    now = timestamp(pipeline.clock.now())
    allowed = number(budget, "status", "disruptionsAllowed") - 1
    put(budget, allowed, "status", "disruptionsAllowed")
    if allowed == 0:
        _say_insufficient(budget, now)
    put(budget, now, "status", "disruptedPods", pod)
    metadata = mapping(budget, "metadata")
    name = (text(metadata, "namespace"), text(metadata, "name"))
    pipeline.ownership.sign_status(BUDGET, budget, stored.object)
    pipeline.store.update(BUDGET, name, budget, read=stored)


def _check(budget: JsonObject) -> None:
    name, status = text(budget, "metadata", "name"), mapping(budget, "status")
    if number(status, "observedGeneration") < number(budget, "metadata", "generation"):
        why = f"The disruption budget {name} is still being processed by the server."
        causes = [StatusCause("DisruptionBudget", why, "")]
        raise too_many_requests(_REFUSED, retry_after_s=_RETRY_S, causes=causes)
    allowed = number(status, "disruptionsAllowed")
    if allowed < 0:
        raise forbidden(("policy", "poddisruptionbudget"), name, "pdb disruptions allowed is negative")
    if len(mapping(status, "disruptedPods")) > _MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden(("policy", "poddisruptionbudget"), name, why)
    if allowed == 0:
        raise too_many_requests(_REFUSED, causes=[StatusCause("DisruptionBudget", _why(name, status), "")])


def _why(name: str, status: JsonObject) -> str:
    """Why a budget has nothing to give."""
    not_now = f"The disruption budget {name} does not allow evicting pods currently"
    condition = _allowance(status)
    message = text(condition, "message") if text(condition, "status") == "False" else ""
    reason = text(condition, "reason")
    if message and reason == "SyncFailed":
        return f"{not_now} because it failed sync: {message}"
    needed, healthy = number(status, "desiredHealthy"), number(status, "currentHealthy")
    if healthy <= needed:
        return f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
    return f"{not_now} ({reason}): {message}" if message else not_now


def _allowance(status: JsonObject) -> JsonObject:
    conditions = mappings(status, "conditions")
    return next((condition for condition in conditions if text(condition, "type") == "DisruptionAllowed"), {})


def _say_insufficient(budget: JsonObject, now: str) -> None:
    old = _allowance(mapping(budget, "status"))
    condition: JsonObject = {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": number(budget, "status", "observedGeneration"),
        "lastTransitionTime": text(old, "lastTransitionTime") if text(old, "status") == "False" else now,
        "reason": "InsufficientPods",
        "message": "",
    }
    others = [entry for entry in mappings(budget, "status", "conditions") if entry is not old]
    put(budget, [*others, condition], "status", "conditions")


def _mark(pipeline: WritePipeline, request: ApiRequest, stored: Stored) -> None:
    """Tell in the pod's status that it is evicted; a controller may count such an end differently."""
    pod = copied(stored.object)
    conditions = mappings(pod, "status", "conditions")
    old = next((entry for entry in conditions if text(entry, "type") == "DisruptionTarget"), {})
    since = text(old, "lastTransitionTime") if text(old, "status") == "True" else ""
    condition: JsonObject = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": since or timestamp(pipeline.clock.now()),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    others = [entry for entry in conditions if entry is not old]
    put(pod, [*others, condition], "status", "conditions")
    if pod != stored.object:
        pipeline.store.update(request.resource, request.key, pod, read=stored)
