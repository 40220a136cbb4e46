"""What the server makes of a new pod, and what it drops of every pod and template of pods.

Source: pkg/registry/core/pod/strategy.go (PrepareForCreate), pkg/api/pod/util.go (dropDisabledFields), v1.35.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.decide.kubernetes.api.pod_amounts import qos_class
from tonnage.decide.kubernetes.api.pod_containers import every_container
from tonnage.decide.kubernetes.api.validation.pods.security_contexts import APP_ARMOR_OF, app_armor_profile
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, drop, items, mapping, mappings, put, text, texts
from tonnage.model.kubernetes.well_known import PREFERRED, REQUIRED

TEMPLATES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("", "podtemplates"): ("template",),
    ("", "replicationcontrollers"): ("spec", "template"),
    ("apps", "daemonsets"): ("spec", "template"),
    ("apps", "deployments"): ("spec", "template"),
    ("apps", "replicasets"): ("spec", "template"),
    ("apps", "statefulsets"): ("spec", "template"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
    ("batch", "jobs"): ("spec", "template"),
}
"""Where kinds have their templates of pods."""
_GATED_SOURCES: Final = ("clusterTrustBundle", "podCertificate")
_PLAIN_PROFILES: Final = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault"}


def drop_gated_of_pods(spec: JsonObject) -> None:
    """Drop from a pod's spec what a server of this version takes only with a gate, all off.

    The gates are ContainerStopSignals, ClusterTrustBundleProjection, PodCertificateRequest, GenericWorkload.
    """
    spec.pop("workloadRef", None)
    for container, _ in every_container(spec, ""):
        lifecycle = mapping(container, "lifecycle")
        if lifecycle.pop("stopSignal", None) is not None and not lifecycle:
            drop(container, "lifecycle")
    for volume in mappings(spec, "volumes"):
        for source in mappings(volume, "projected", "sources"):
            for key in _GATED_SOURCES:
                source.pop(key, None)


def complete_pod(pod: JsonObject) -> Iterator[str]:
    """Write into a new pod what the server knows better; the warnings about its annotations."""
    spec = mapping(pod, "spec")
    put(pod, qos_class(spec), "status", "qosClass")
    if at(spec, "schedulingGates"):
        put(pod, [_gated(text(pod, "metadata", "creationTimestamp"))], "status", "conditions")
    labels = mapping(pod, "metadata", "labels")
    for term in _terms(spec):
        _select_own(term, labels)
    yield from _app_armor(pod)


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


def _terms(spec: JsonObject) -> Iterator[JsonObject]:
    """What places a pod by the labels of others."""
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = mapping(spec, "affinity", kind)
        yield from mappings(affinity, REQUIRED)
        for term in mappings(affinity, PREFERRED):
            yield mapping(term, "podAffinityTerm")
    yield from mappings(spec, "topologySpreadConstraints")


def _select_own(term: JsonObject, labels: JsonObject) -> None:
    """Add to a selector that others have, or have not, the pod's own value of a label."""
    if not isinstance(term.get("labelSelector"), dict):
        return
    expressions: list[JsonValue] = list(items(term, "labelSelector", "matchExpressions"))
    for keys, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        expressions += [
            {"key": key, "operator": operator, "values": [labels[key]]}
            for key in texts(term, keys)
            if key in labels
        ]
    if expressions:
        put(term, expressions, "labelSelector", "matchExpressions")


def _app_armor(pod: JsonObject) -> Iterator[str]:
    """Move what old annotations say of AppArmor into the fields that have taken their place."""
    spec, annotations = mapping(pod, "spec"), mapping(pod, "metadata", "annotations")
    if not annotations or text(spec, "os", "name") == "windows":
        return
    of_pod = at(spec, "securityContext", "appArmorProfile")
    for container, _ in every_container(spec, ""):
        key = APP_ARMOR_OF + text(container, "name")
        if key not in annotations or at(container, "securityContext", "appArmorProfile") is not None:
            continue
        profile = _profile(str(annotations[key]))
        if profile is not None and profile == of_pod:
            continue
        if profile is not None:
            put(container, profile, "securityContext", "appArmorProfile")
        yield f'metadata.annotations[{key}]: deprecated since v1.30; use the "appArmorProfile" field instead'


def _profile(annotation: str) -> JsonObject | None:
    if kind := _PLAIN_PROFILES.get(annotation):
        return {"type": kind}
    prefix, _, name = annotation.partition("localhost/")
    profile: JsonObject = {"type": "Localhost", "localhostProfile": name}
    return None if prefix or not name or list(app_armor_profile(profile, "")) else profile
