"""What the server itself writes into an object, per kind: metadata, status, generation.

Source: the registry strategies of k8s.io/kubernetes (pkg/registry/*/*/strategy.go) and
apiserver's rest.FillObjectMetaSystemFields, BeforeCreate, BeforeUpdate (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api.patches.json_patches import same_json
from tonnage.decide.kubernetes.api.strategies.device_gates import forget_freed_devices
from tonnage.decide.kubernetes.api.strategies.feature_gates import drop_gated
from tonnage.decide.kubernetes.api.strategies.identity import CREATED_WITH_STATUS
from tonnage.decide.kubernetes.api.strategies.pods import complete_pod
from tonnage.decide.kubernetes.api.strategies.volumes import date_phase
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, copied, drop, items, mapping, number, opened, put, text
from tonnage.model.kubernetes.well_known import NAMESPACE_NAME
from tonnage.twin.apiserver.object_store import Resource
from tonnage.twin.apiserver.pods.statuses import complete_status
from tonnage.twin.apiserver.requests import ApiRequest
from tonnage.twin.apiserver.resource_names import (
    API_SERVICE,
    DEPLOYMENT,
    DEVICE_CLAIM,
    ENDPOINT_SLICE,
    JOB,
    NAMESPACE,
    NODE,
    POD,
    VOLUME,
)
from tonnage.twin.apiserver.resources import ServedResource
from tonnage.twin.apiserver.strategies.creation import ON_CREATE_BY
from tonnage.twin.apiserver.strategies.updates import AT_CHANGE

_COUNTED: Final[frozenset[Resource]] = frozenset(
    {
        POD,
        ("", "podtemplates"),
        ("", "replicationcontrollers"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("apps", "daemonsets"),
        ("apps", "deployments"),
        ("apps", "replicasets"),
        ("apps", "statefulsets"),
        ("batch", "cronjobs"),
        ("batch", "jobs"),
        ENDPOINT_SLICE,
        ("flowcontrol.apiserver.k8s.io", "flowschemas"),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
        ("networking.k8s.io", "ingressclasses"),
        ("networking.k8s.io", "ingresses"),
        ("networking.k8s.io", "networkpolicies"),
        ("policy", "poddisruptionbudgets"),
        ("resource.k8s.io", "deviceclasses"),
        ("resource.k8s.io", "resourceslices"),
        ("scheduling.k8s.io", "priorityclasses"),
    }
)
"""Kinds whose metadata.generation counts changes of what is desired."""
_COUNTED_FROM_NONE: Final = frozenset({("storage.k8s.io", "csidrivers")})
"""Such kinds that have none before the first change."""

CREATED_BY_UPDATE: Final[frozenset[Resource]] = frozenset(
    {
        ("", "endpoints"),
        ("", "events"),
        ("", "limitranges"),
        ("", "services"),
        ("coordination.k8s.io", "leases"),
        ("node.k8s.io", "runtimeclasses"),
        ("rbac.authorization.k8s.io", "clusterrolebindings"),
        ("rbac.authorization.k8s.io", "clusterroles"),
        ("rbac.authorization.k8s.io", "rolebindings"),
        ("rbac.authorization.k8s.io", "roles"),
    }
)
"""Kinds of which an update makes the object that is not there yet."""

UPDATED_BY_VERSION: Final[frozenset[Resource]] = frozenset(
    {
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        API_SERVICE,
        ("coordination.k8s.io", "leases"),
        ("node.k8s.io", "runtimeclasses"),
        ("policy", "poddisruptionbudgets"),
        ("storage.k8s.io", "csidrivers"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "csistoragecapacities"),
        ("storage.k8s.io", "volumeattachments"),
    }
)
"""Kinds whose update must say which version it is of, as all custom ones."""

_COUNTED_WITH_EMPTIES: Final = frozenset(
    {
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
        ("networking.k8s.io", "networkpolicies"),
    }
)
"""Kinds of which an empty list or map that is sent counts as a change, though none is kept."""
_PARTS: Final = ("status", "approval", "finalize", "ephemeralcontainers")
_NEVER_RAISED: Final = frozenset({("scheduling.k8s.io", "priorityclasses")})
"""Kinds whose generation stays what it was at birth."""

_FIRST_STATUS: Final[dict[Resource, JsonObject]] = {
    POD: {"phase": "Pending"},
    NAMESPACE: {"phase": "Active"},
    ("", "persistentvolumes"): {"phase": "Pending"},
    ("", "persistentvolumeclaims"): {"phase": "Pending"},
}
_STATUS_IN_CHANGES: Final = frozenset({("networking.k8s.io", "servicecidrs")})
"""Kinds whose status a write of the whole object changes, too, though it is written apart."""
_COUNTED_AS_SENT: Final = frozenset({ENDPOINT_SLICE, ("resource.k8s.io", "resourceslices")})
"""Kinds of which a change counts even if it is of fields that are dropped."""


_METADATA: Final = ("labels", "annotations", "finalizers", "ownerReferences")
_METADATA_OF_STATUS: Final[dict[Resource, tuple[str, ...]]] = {
    POD: ("labels", "annotations", "finalizers"),
    DEPLOYMENT: ("annotations", "finalizers", "ownerReferences"),
    **dict.fromkeys(
        (
            ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
            API_SERVICE,
            ("flowcontrol.apiserver.k8s.io", "flowschemas"),
            ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
            ("networking.k8s.io", "servicecidrs"),
            DEVICE_CLAIM,
            ("storage.k8s.io", "volumeattachments"),
        ),
        (),
    ),
}
"""What of the metadata a writer of `status` may change: of custom kinds nothing, of others everything."""


def prepare_create(request: ApiRequest, obj: JsonObject, empty_status: JsonObject | None) -> None:
    """Make `obj` what a fresh object looks like. `empty_status` is what the kind's status is when unset."""
    served = request.served
    metadata = mapping(obj, "metadata")
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields"):
        metadata.pop(key, None)
    if counts_generations(served) and served.key not in _COUNTED_FROM_NONE:
        metadata["generation"] = 1
    if served.has_status and served.key not in CREATED_WITH_STATUS:
        first = _FIRST_STATUS.get(served.key, empty_status)
        if first is None:
            obj.pop("status", None)
        else:
            obj["status"] = copied(first)
    if rule := ON_CREATE_BY.get(served.key):
        rule(obj, request.user)
    drop_gated(served.key, obj, {}, served.gates)
    if served.key == POD:
        request.notes.warn(*complete_pod(obj))


def finish_create(request: ApiRequest, obj: JsonObject) -> None:
    """What reading a new object back from its store adds to it, unchecked."""
    labels = mapping(obj, "spec", "template", "metadata", "labels")
    if request.resource == JOB and labels and not mapping(obj, "metadata", "labels"):
        put(obj, copied(labels), "metadata", "labels")
    if request.resource == ("", "namespaces") and not request.options.dry_run:
        put(obj, text(obj, "metadata", "name"), "metadata", "labels", NAMESPACE_NAME)


def prepare_update(
    request: ApiRequest, obj: JsonObject, old: JsonObject, now: str, body: JsonValue = None
) -> JsonObject:
    """What `obj`, read from the body that was sent to this (sub)resource, makes of `old`."""
    served = request.served
    if request.subresource in _PARTS:
        return _with_part(request, obj, old, now)
    if served.has_status and served.key not in _STATUS_IN_CHANGES:
        obj.pop("status", None)
        if "status" in old:
            obj["status"] = copied(mapping(old, "status"))
    keep_identity(obj, old)
    if served.key in _COUNTED_AS_SENT:
        count_generation(served, obj, old)
    if rule := AT_CHANGE.get(served.key):
        rule(obj, old)
    drop_gated(served.key, obj, old, served.gates)
    if served.key not in _COUNTED_AS_SENT:
        count_generation(served, obj, old)
    before = number(old, "metadata", "generation")
    if served.key in _COUNTED_WITH_EMPTIES and number(obj, "metadata", "generation") == before:
        changed = any(_has_empties(at(body, key), at(obj, key)) for key in ("spec", "webhooks"))
        put(obj, before + changed, "metadata", "generation")
    return obj


def _has_empties(sent: JsonValue, obj: JsonValue) -> bool:
    """Whether a selector or a peer that was sent has an empty list or map that nothing was filled into."""
    if isinstance(sent, dict):
        fields = mapping(obj)
        if sent.get("matchLabels") == {}:
            return True
        return any(_has_empties(value, fields.get(key)) for key, value in sent.items())
    if not isinstance(sent, list) or not sent:
        return sent == [] and not obj
    return isinstance(obj, list) and any(map(_has_empties, sent, obj))


def _with_part(request: ApiRequest, obj: JsonObject, old: JsonObject, now: str) -> JsonObject:
    """The old object with the part of `obj` that the subresource stands for."""
    served = request.served
    if request.subresource == "status":
        whole = _with_status(served, obj, old)
        if served.key == POD:
            complete_status(whole, old, served.gates)
        elif served.key == NODE:
            drop(whole, "status", "config")
        elif served.key == VOLUME:
            date_phase(whole, old, now)
        elif served.key == DEVICE_CLAIM:
            drop_gated(served.key, whole, old, served.gates)
            forget_freed_devices(whole, old)
    elif request.subresource == "approval":
        whole = _with_status(served, obj, old)
    elif request.subresource == "finalize":
        whole = {key: value for key, value in obj.items() if key != "status"}
        whole["spec"] = {key: value for key, value in mapping(obj, "spec").items() if value}
        whole["status"] = mapping(old, "status")
        keep_identity(whole, old)
    else:
        whole = copied(old)
        drop(whole, "spec", "ephemeralContainers")
        if containers := items(obj, "spec", "ephemeralContainers"):
            put(whole, containers, "spec", "ephemeralContainers")
        drop_gated(served.key, whole, old, served.gates)
        count_generation(served, whole, old)
    if served.custom is None:
        _leave_identity(request, whole, obj)
    return whole


def _leave_identity(request: ApiRequest, whole: JsonObject, obj: JsonObject) -> None:
    """Leave what the writer of a part says of identity in the object, to be refused where it is another."""
    metadata = mapping(obj, "metadata")
    keys = ["generateName", "uid", "deletionGracePeriodSeconds"]
    served = request.served
    ends = _METADATA_OF_STATUS.get(served.key, _METADATA) or served.key == API_SERVICE
    if request.subresource == "status" and ends and served.key != POD:
        keys += [] if at(whole, "metadata", "deletionTimestamp") else ["deletionTimestamp"]
    for key in keys:
        if metadata.get(key):
            put(whole, metadata[key], "metadata", key)


def keep_identity(obj: JsonObject, old: JsonObject) -> None:
    """Give `obj` what no writer changes. Another uid is left to be refused."""
    metadata, before = mapping(obj, "metadata"), mapping(old, "metadata")
    for key in ("creationTimestamp", "generation"):
        metadata.pop(key, None)
        if key in before:
            metadata[key] = before[key]
    # What a writer sets of these where nothing was is left to be refused, too.
    for key in ("uid", "deletionGracePeriodSeconds"):
        if key in before and not metadata.get(key):
            metadata[key] = before[key]
    if "deletionTimestamp" in before:
        metadata["deletionTimestamp"] = before["deletionTimestamp"]
    for key in ("managedFields", "selfLink"):
        metadata.pop(key, None)


def counts_generations(served: ServedResource) -> bool:
    """Whether metadata.generation means something for the kind."""
    return served.custom is not None or served.key in _COUNTED | _COUNTED_FROM_NONE


def count_generation(served: ServedResource, obj: JsonObject, old: JsonObject) -> None:
    """Raise metadata.generation above the old object's when what is desired has changed."""
    if "generation" in mapping(old, "metadata"):
        put(obj, at(old, "metadata", "generation"), "metadata", "generation")
    if served.key in _NEVER_RAISED:
        return
    if not counts_generations(served):
        return
    desired, before = _desired(served, obj), _desired(served, old)
    # Custom kinds may tell 1 from true, which Python does not.
    if desired != before or (served.custom is not None and not same_json(desired, before)):
        put(obj, number(old, "metadata", "generation") + 1, "metadata", "generation")


def _desired(served: ServedResource, obj: JsonObject) -> JsonObject:
    passed_over = {"metadata", "status", "apiVersion", "kind"} if served.has_status else {"metadata"}
    desired: JsonObject = {key: value for key, value in obj.items() if key not in passed_over}
    if served.key == DEPLOYMENT:
        desired["annotations"] = mapping(obj, "metadata", "annotations")
    if served.key == ENDPOINT_SLICE:
        desired["labels"] = mapping(obj, "metadata", "labels")
    return desired


def _with_status(served: ServedResource, obj: JsonObject, old: JsonObject) -> JsonObject:
    whole = opened(old)
    drop(whole, "status")
    if "status" in obj:
        whole["status"] = mapping(obj, "status")
    custom: tuple[str, ...] = () if served.custom is not None else _METADATA
    for key in _METADATA_OF_STATUS.get(served.key, custom):
        drop(whole, "metadata", key)
        if key in mapping(obj, "metadata"):
            put(whole, mapping(obj, "metadata")[key], "metadata", key)
    return whole
