"""What the server itself writes into an object, per kind: metadata, status, generation.

Source: the registry strategies of k8s.io/kubernetes (pkg/registry/*/*/strategy.go) and
apiserver's rest.FillObjectMetaSystemFields, BeforeCreate, BeforeUpdate (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.twin.apiserver.access import at, copied, drop, flag, items, mapping, mappings, number, put, text
from tonnage.twin.apiserver.objects.patch import same_json
from tonnage.twin.apiserver.requests import Request, User
from tonnage.twin.apiserver.resources import Served
from tonnage.twin.apiserver.store import Resource

POD: Final[Resource] = ("", "pods")
NODE: Final[Resource] = ("", "nodes")
NAMESPACE: Final[Resource] = ("", "namespaces")
JOB: Final[Resource] = ("batch", "jobs")
DEPLOYMENT: Final[Resource] = ("apps", "deployments")
DAEMON_SET: Final[Resource] = ("apps", "daemonsets")
_SIGNING_REQUEST: Final[Resource] = ("certificates.k8s.io", "certificatesigningrequests")
DEFINITION: Final[Resource] = ("apiextensions.k8s.io", "customresourcedefinitions")

_COUNTED: Final[frozenset[Resource]] = frozenset(
    {
        POD,
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
        ("discovery.k8s.io", "endpointslices"),
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

_NEVER_RAISED: Final = frozenset({("scheduling.k8s.io", "priorityclasses")})
"""Kinds whose generation stays what it was at birth."""
_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"

_FIRST_STATUS: Final[dict[Resource, JsonObject]] = {
    POD: {"phase": "Pending"},
    NAMESPACE: {"phase": "Active"},
    ("", "persistentvolumes"): {"phase": "Pending"},
    ("", "persistentvolumeclaims"): {"phase": "Pending"},
}
# A kubelet registers its node with capacity and conditions.
_STATUS_AT_BIRTH: Final = frozenset({NODE})


_METADATA: Final = ("labels", "annotations", "finalizers", "ownerReferences")
_METADATA_OF_STATUS: Final[dict[Resource, tuple[str, ...]]] = {
    POD: ("labels", "annotations", "finalizers"),
    DEPLOYMENT: ("annotations", "finalizers", "ownerReferences"),
    **dict.fromkeys(
        (
            ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
            ("flowcontrol.apiserver.k8s.io", "flowschemas"),
            ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
            ("networking.k8s.io", "servicecidrs"),
            ("resource.k8s.io", "resourceclaims"),
            ("storage.k8s.io", "volumeattachments"),
        ),
        (),
    ),
}
"""What of the metadata a writer of `status` may change: of custom kinds nothing, of others everything."""


def prepare_create(request: Request, obj: JsonObject, empty_status: JsonObject | None) -> None:
    """Make `obj` what a fresh object looks like. `empty_status` is what the kind's status is when unset."""
    served = request.served
    metadata = mapping(obj, "metadata")
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation", "managedFields"):
        metadata.pop(key, None)
    if counts_generations(served):
        metadata["generation"] = 1
    if served.has_status and served.key not in _STATUS_AT_BIRTH:
        first = _FIRST_STATUS.get(served.key, empty_status)
        if first is None:
            obj.pop("status", None)
        else:
            obj["status"] = copied(first)
    if served.key == POD:
        put(obj, qos_class(mapping(obj, "spec")), "status", "qosClass")
        if at(obj, "spec", "schedulingGates"):
            put(obj, [_gated(text(metadata, "creationTimestamp"))], "status", "conditions")
    if served.key == NAMESPACE:
        put(obj, ["kubernetes"], "spec", "finalizers")
    if served.key == _SIGNING_REQUEST:
        _sign_asker(obj, request.user)
    if served.key == JOB:
        _select_own_pods(obj)
    _drop_gated(served, obj, {})
    if served.key == DEFINITION:
        put(obj, _stored_versions(obj), "status", "storedVersions")


def _sign_asker(signing_request: JsonObject, user: User) -> None:
    """Write into a request for a certificate who asks, whatever he says of himself."""
    spec = mapping(signing_request, "spec")
    extra: JsonObject = {key: list(values) for key, values in user.extra}
    known: JsonObject = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
    for key, value in known.items():
        spec.pop(key, None)
        if value:
            spec[key] = value


def _gated(now: str) -> JsonObject:
    """The condition of a pod that is not to be scheduled yet."""
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


def _stored_versions(definition: JsonObject) -> list[JsonValue]:
    """In what versions objects of a custom kind may be stored: the storage version beside those of old."""
    known = items(definition, "status", "storedVersions")
    storing = [at(one, "name") for one in mappings(definition, "spec", "versions") if flag(one, "storage")]
    return [*known, *(one for one in storing[:1] if one not in known)]


def _drop_gated(served: Served, obj: JsonObject, old: JsonObject) -> None:
    """Drop fields that a server of this version takes only with a feature gate, if they are new."""
    path = ("spec", "updateStrategy", "rollingUpdate", "maxUnavailable")
    if served.key == ("apps", "statefulsets") and at(old, *path) is None:
        drop(obj, *path)


def _select_own_pods(job: JsonObject) -> None:
    """Label a job's pods with its uid and select them by that, unless its writer selects himself."""
    if flag(job, "spec", "manualSelector"):
        return
    uid, name = text(job, "metadata", "uid"), text(job, "metadata", "name")
    own: JsonObject = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    labels = mapping(job, "spec", "template", "metadata", "labels")
    # A job without labels has got its pods'; what is added to the one is added to the other.
    shared = mapping(job, "metadata", "labels") is labels
    put(job, {**own, **labels}, "spec", "template", "metadata", "labels")
    if shared:
        put(job, {**own, **labels}, "metadata", "labels")
    selected: JsonObject = {
        "batch.kubernetes.io/controller-uid": uid,
        **mapping(job, "spec", "selector", "matchLabels"),
    }
    put(job, dict(sorted(selected.items())), "spec", "selector", "matchLabels")


def finish_create(request: Request, obj: JsonObject) -> None:
    """What reading a new object back from its store adds to it, unchecked."""
    labels = mapping(obj, "spec", "template", "metadata", "labels")
    if request.resource == JOB and labels and not mapping(obj, "metadata", "labels"):
        put(obj, copied(labels), "metadata", "labels")


def prepare_update(request: Request, obj: JsonObject, old: JsonObject) -> JsonObject:
    """What `obj`, sent to this (sub)resource, makes of `old`."""
    served = request.served
    if request.subresource == "status":
        return _with_status(served, obj, old)
    if request.subresource == "finalize":
        result = copied(old)
        put(result, at(obj, "spec", "finalizers") or [], "spec", "finalizers")
        return result
    if served.has_status:
        obj.pop("status", None)
        if "status" in old:
            obj["status"] = copied(mapping(old, "status"))
    if served.key == NAMESPACE:
        put(obj, at(old, "spec", "finalizers") or [], "spec", "finalizers")
    if served.key == DEFINITION:
        put(obj, _stored_versions(obj), "status", "storedVersions")
    if served.key == DAEMON_SET:
        _count_templates(obj, old)
    _drop_gated(served, obj, old)
    keep_identity(obj, old)
    count_generation(served, obj, old)
    return obj


def _count_templates(obj: JsonObject, old: JsonObject) -> None:
    """Count, in an annotation, how often a DaemonSet's pods have been described anew."""
    known = text(old, "metadata", "annotations", _TEMPLATE_GENERATION)
    count = int(known) if known.isdecimal() else 1
    count += at(obj, "spec", "template") != at(old, "spec", "template")
    put(obj, str(count), "metadata", "annotations", _TEMPLATE_GENERATION)


def drop_identity(obj: JsonObject) -> None:
    """Take from a new object what only the server writes; it is written once admission has completed it."""
    metadata = mapping(obj, "metadata")
    for key in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        metadata.pop(key, None)


def keep_identity(obj: JsonObject, old: JsonObject) -> None:
    """Give `obj` what no writer changes."""
    metadata, known = mapping(obj, "metadata"), mapping(old, "metadata")
    for key in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        metadata.pop(key, None)
        if key in known:
            metadata[key] = known[key]
    for key in ("managedFields", "selfLink"):
        metadata.pop(key, None)


def counts_generations(served: Served) -> bool:
    """Whether metadata.generation means something for the kind."""
    return served.custom is not None or served.key in _COUNTED


def count_generation(served: Served, obj: JsonObject, old: JsonObject) -> None:
    """Raise metadata.generation above the old object's when what is desired has changed."""
    if "generation" in mapping(old, "metadata"):
        put(obj, at(old, "metadata", "generation"), "metadata", "generation")
    if served.key in _NEVER_RAISED:
        return
    if not counts_generations(served):
        return
    wanted, before = _desired(served, obj), _desired(served, old)
    # Custom kinds may tell 1 from true, which Python does not.
    if wanted != before or (served.custom is not None and not same_json(wanted, before)):
        put(obj, number(old, "metadata", "generation") + 1, "metadata", "generation")


def _desired(served: Served, obj: JsonObject) -> JsonObject:
    passed_over = {"metadata", "status", "apiVersion", "kind"} if served.has_status else {"metadata"}
    desired: JsonObject = {key: value for key, value in obj.items() if key not in passed_over}
    if served.key == DEPLOYMENT:
        desired["annotations"] = mapping(obj, "metadata", "annotations")
    return desired


def _with_status(served: Served, obj: JsonObject, old: JsonObject) -> JsonObject:
    result = copied(old)
    drop(result, "status")
    if "status" in obj:
        result["status"] = copied(mapping(obj, "status"))
    if served.key == POD:
        put(result, at(old, "status", "qosClass"), "status", "qosClass")
    custom: tuple[str, ...] = () if served.custom is not None else _METADATA
    for key in _METADATA_OF_STATUS.get(served.key, custom):
        drop(result, "metadata", key)
        if key in mapping(obj, "metadata"):
            put(result, copied({key: mapping(obj, "metadata")[key]})[key], "metadata", key)
    return result


def qos_class(spec: JsonObject) -> str:
    """Guaranteed, Burstable or BestEffort, by the cpu and memory of all containers.

    >>> qos_class({"containers": [{"resources": {"requests": {"cpu": "1"}}}]})
    'Burstable'
    """
    containers = [*mappings(spec, "containers"), *mappings(spec, "initContainers")]
    if at(spec, "resources"):
        containers = [spec]
    guaranteed, asks = True, False
    for container in containers:
        requests = _compute(mapping(container, "resources", "requests"))
        limits = _compute(mapping(container, "resources", "limits"))
        asks = asks or bool(requests) or bool(limits)
        if limits.keys() != {"cpu", "memory"} or any(
            requests.get(name, amount) != amount for name, amount in limits.items()
        ):
            guaranteed = False
    if not asks:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _compute(amounts: JsonObject) -> dict[str, str]:
    return {
        name: text(amounts, name) or str(amounts[name])
        for name in ("cpu", "memory")
        if name in amounts and amounts[name] not in ("0", 0)
    }
