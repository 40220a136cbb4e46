"""Subresources that are objects of their own: scale and binding.

Source: pkg/registry/{apps,core/pod}/storage and apiextensions' customresource scale (v1.35).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tonnage.decide.kubernetes.api.encoding.body import BodyError
from tonnage.decide.kubernetes.api.problems import InvalidError, invalid, invalid_status
from tonnage.decide.kubernetes.api.selectors import label_requirements
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors
from tonnage.decide.kubernetes.api.validation.metadata import namespaced_metadata
from tonnage.decide.kubernetes.api.validation.pods.pod import binding
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, copied, drop, mapping, mappings, number, opened, put, text
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.twin.apiserver.object_store import StaleError
from tonnage.twin.apiserver.ownership.configurations import AppliedConfiguration
from tonnage.twin.apiserver.pods.topology_labels import topology_labels
from tonnage.twin.apiserver.requests import ApiRequest, WriteOutcome
from tonnage.twin.apiserver.resources import ServedResource
from tonnage.twin.apiserver.statuses import DONE, StatusError, bad_request, conflict, no_such_path
from tonnage.twin.apiserver.writing.pipeline import Change, Unreadable, WritePipeline
from tonnage.twin.apiserver.writing.preconditions import check_name, other_uid
from tonnage.wire.schema import KindRow

_ATTEMPTS: Final = 5
_UNSET: Final = -(1 << 31)
"""Replicas that nobody asked for yet."""
_SCALE: Final = KindRow("autoscaling", "v1", "Scale", "scales", "scale", True, (), "autoscaling/v1.Scale")
SCALE: Final = ServedResource(_SCALE, "ScaleList")
"""The kind of every subresource `scale`."""


def scale_of(served: ServedResource, obj: JsonObject) -> JsonObject:
    """The Scale of an object."""
    path, current, selector = _scale_paths(served)
    metadata = mapping(obj, "metadata")
    keys = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    pod_selector, replicas = at(obj, *selector) if selector else None, number(obj, *path)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in keys if key in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {
            "replicas": number(obj, *current),
            **({"selector": selector_text(pod_selector)} if pod_selector else {}),
        },
    }


def scale_shown(served: ServedResource, obj: JsonObject) -> JsonObject:
    """The Scale of an object that says how many replicas it wants. Raises ApiError 500."""
    if (path := _unset(served, obj)) is not None:
        why = f'the spec replicas field "{path}" does not exist'
        message = f"Internal error occurred: {why}"
        raise StatusError(500, "InternalError", message, details={"causes": [{"message": why}]})
    return scale_of(served, obj)


def _unset(served: ServedResource, obj: JsonObject) -> str | None:
    """Where an object of a custom kind would say how many replicas it wants, if it does not."""
    if served.custom is None or served.custom.scale is None:
        return None
    replicas = at(obj, *_scale_paths(served)[0])
    return text(served.custom.scale, "specReplicasPath") if not isinstance(replicas, int) else None


async def rescale(
    pipeline: WritePipeline,
    request: ApiRequest,
    change: Change | AppliedConfiguration,
    unreadable: Unreadable | None = None,
) -> WriteOutcome:
    """The Scale after a change of it, or with a configuration applied. Raises ApiError 409, 422, 500."""
    served = request.served
    path, _, _ = _scale_paths(served)
    # Admission sees the Scale; the object that is written below is not admitted once more.
    await _admit_scale(pipeline, request, change)
    whole = replace(request, verb="update", subresource="", admitted=True)

    ownership, manager = pipeline.ownership, request.options.field_manager
    written = change if isinstance(change, AppliedConfiguration) else AppliedConfiguration({}, force=True)

    def scaled(old: JsonObject) -> JsonValue:
        scale, unset = scale_of(served, old), _unset(served, old)
        if unset is not None:
            scale["spec"] = {"replicas": _UNSET}
        owners = ownership.rescaling(request, old, scale)
        if isinstance(change, AppliedConfiguration):
            custom = served.custom is not None
            replicas = owners.applied(change, manager, ownership.now(), custom=custom)
            version = at(change.config, "metadata", "resourceVersion")
        else:
            body = scale = scale_sent(pipeline, request, change(scale), unreadable)
            replicas, version = number(body, "spec", "replicas"), at(body, "metadata", "resourceVersion")
            _expect_same(request, whole, body, old)
            written.entries = owners.updated(manager, ownership.now(), replicas)
        if replicas == _UNSET:
            raise bad_request(f'the spec replicas field "{unset}" cannot be empty')
        if served.custom is None and (wrong := tuple(_scale_problems(replicas, scale))):
            raise InvalidError(invalid_status(_SCALE, request.name, wrong))
        rescaled = copied(old)
        put(rescaled, replicas, *path)
        if version:
            put(rescaled, version, "metadata", "resourceVersion")
        return rescaled

    outcome = await pipeline.update(whole, scaled, applied=written)
    return WriteOutcome(scale_of(served, outcome.object))


def _expect_same(request: ApiRequest, whole: ApiRequest, scale: JsonObject, old: JsonObject) -> None:
    """Refuse a Scale of another object of the same name; patches of custom ones may say so. Raises 409."""
    uid, own = text(scale, "metadata", "uid"), text(old, "metadata", "uid")
    if uid in ("", own):
        return
    if request.verb == "update":
        raise other_uid(whole, uid, own)
    if request.served.custom is None:
        group, plural = request.plural_resource
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {own}"
        raise conflict((group, f"{plural}/scale"), request.name, why)


def _scale_problems(replicas: int, scale: JsonObject) -> FieldErrors:
    """What is wrong with a Scale of a built-in kind."""
    yield from namespaced_metadata(scale)
    if replicas < 0:
        yield invalid("spec.replicas", replicas, "must be greater than or equal to 0")


def scale_sent(
    pipeline: WritePipeline, request: ApiRequest, body: JsonValue, unreadable: Unreadable | None = None
) -> JsonObject:
    """The Scale that a body is; of fields that it has not the client is warned. Raises ApiError 400, 422."""
    try:
        scale, warnings = pipeline.codec.decode(SCALE, body, request.options.field_validation)
    except BodyError as error:
        raise (unreadable(body, error) if unreadable else error) from None
    request.notes.warn(*warnings)
    pipeline.address(replace(request, served=SCALE), scale)
    return scale


async def _admit_scale(
    pipeline: WritePipeline, request: ApiRequest, change: Change | AppliedConfiguration
) -> None:
    """Ask admission about the Scale that is wanted. Raises ApiError."""
    stored = pipeline.read(request)
    old = scale_of(request.served, stored.object)
    desired: JsonValue = change.config if isinstance(change, AppliedConfiguration) else change(copied(old))
    new: JsonObject = {**old, "spec": {"replicas": number(desired, "spec", "replicas")}}
    await pipeline.admit(request, new, old)
    await pipeline.validate(request, new, old)


def _scale_paths(served: ServedResource) -> tuple[list[str], list[str], list[str]]:
    """Where wanted replicas, current replicas and the selector stand."""
    if served.custom is None:
        return ["spec", "replicas"], ["status", "replicas"], ["spec", "selector"]
    scale = served.custom.scale
    if scale is None:
        raise no_such_path()
    keys = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
    paths = [[part for part in text(scale, key).split(".") if part] for key in keys]
    return paths[0], paths[1], paths[2]


def selector_text(selector: JsonValue) -> str:
    """A selector as label selectors are written: `a=b,c in (d,e)`."""
    if isinstance(selector, str):
        return selector
    if not isinstance(selector, dict):
        return ""
    terms = []
    plain = selector if "matchLabels" not in selector and "matchExpressions" not in selector else None
    requirements = label_requirements({"matchLabels": plain} if plain is not None else selector)
    for requirement in sorted(requirements, key=lambda entry: entry.key):
        match requirement.operator:
            case "in" if len(requirement.values) == 1:
                terms.append(f"{requirement.key}={requirement.values[0]}")
            case "exists":
                terms.append(requirement.key)
            case "missing":
                terms.append(f"!{requirement.key}")
            case operator:
                terms.append(f"{requirement.key} {operator} ({','.join(requirement.values)})")
    return ",".join(terms)


async def bind(pipeline: WritePipeline, request: ApiRequest, body: JsonObject) -> JsonObject:
    """Assign a pod to the node that a Binding names. Raises ApiError 409 when it has one, or is going."""
    if text(body, "metadata", "name") != request.name:
        raise bad_request("name in URL does not match name in Binding object")
    if wrong := [str(problem) for problem in binding(body)]:
        raise StatusError(500, "", wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]")
    check_name(request.name)
    node = text(body, "target", "name")
    uid = text(body, "metadata", "uid")

    def bound(pod: JsonObject) -> None:
        _bindable(request, pod, uid)
        put(pod, node, "spec", "nodeName")
        annotations = mapping(body, "metadata", "annotations")
        if annotations:
            put(pod, {**mapping(pod, "metadata", "annotations"), **annotations}, "metadata", "annotations")
        labels = {**mapping(body, "metadata", "labels"), **topology_labels(pipeline.store, node)}
        if labels:
            put(pod, {**mapping(pod, "metadata", "labels"), **labels}, "metadata", "labels")
        drop(pod, "status", "nominatedNodeName")
        _set_scheduled(pod, timestamp(pipeline.clock.now()))

    _rewrite(pipeline, request, bound)
    return DONE


def _bindable(request: ApiRequest, pod: JsonObject, uid: str) -> None:
    resource = ("", "pods/binding")
    current = text(pod, "metadata", "uid")
    if uid and uid != current:
        raise other_uid(request, uid, current)
    if text(pod, "metadata", "deletionTimestamp"):
        why = f"pod {request.name} is being deleted, cannot be assigned to a host"
        raise conflict(resource, request.name, why)
    node = text(pod, "spec", "nodeName")
    if node:
        raise conflict(resource, request.name, f'pod {request.name} is already assigned to node "{node}"')
    if at(pod, "spec", "schedulingGates"):
        why = f"pod {request.name} has non-empty .spec.schedulingGates"
        raise conflict(resource, request.name, why)


def _set_scheduled(pod: JsonObject, now: str) -> None:
    conditions = mappings(pod, "status", "conditions")
    places = [
        place for place, condition in enumerate(conditions) if text(condition, "type") == "PodScheduled"
    ]
    scheduled: JsonObject = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    place = places[0] if places else len(conditions)
    whole: list[JsonValue] = [*conditions[:place], scheduled, *conditions[place + 1 :]]
    put(pod, whole, "status", "conditions")


def _rewrite(pipeline: WritePipeline, request: ApiRequest, change: Callable[[JsonObject], None]) -> None:
    """Change a stored object past the checks that bind its writers."""
    for _ in range(_ATTEMPTS):
        stored = pipeline.read(request)
        obj = opened(stored.object)
        change(obj)
        if request.options.dry_run:
            return
        try:
            pipeline.store.update(request.resource, request.key, obj, read=stored)
        except StaleError:
            continue
        return
    raise conflict(request.resource, request.name)
