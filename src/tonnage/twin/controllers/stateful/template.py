"""The pods, claims and revisions of a StatefulSet.

Source: pkg/controller/statefulset/stateful_set_utils.go of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, Final

from tonnage.loop.ownership import controller_reference
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.well_known import CONTROLLER_REVISION_HASH
from tonnage.twin.controllers.pod_templates import kept_template, pod_from, revision_hash, without_label
from tonnage.wire.kinds import CONTROLLER_REVISION, STATEFUL_SET
from tonnage.wire.objects import ControllerRevision, Pod
from tonnage.wire.workloads import StatefulSet

_HASH_LABEL: Final = "controller.kubernetes.io/hash"
_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
_NAME: Final = re.compile(r"(.*)-([0-9]+)")


def ordinal_of(pod: Pod, stateful_set: StatefulSet) -> int | None:
    """The number in the pod's name; None of a pod that is not called after the set."""
    match = _NAME.fullmatch(pod.metadata.name)
    if match is None or match[1] != stateful_set.metadata.name or int(match[2]) >= 1 << 31:
        return None
    return int(match[2])


def start_of(stateful_set: StatefulSet) -> int:
    """The first ordinal."""
    return (stateful_set.spec.ordinals or {}).get("start", 0)


def revision_of(pod: Pod) -> str:
    """The name of the revision that the pod is of."""
    return pod.metadata.labels.get(CONTROLLER_REVISION_HASH, "")


def identity(stateful_set: StatefulSet, ordinal: int) -> dict[str, str]:
    """Labels by which a pod is told from the others."""
    return {_NAME_LABEL: f"{stateful_set.metadata.name}-{ordinal}", _INDEX_LABEL: str(ordinal)}


def stateful_pod(stateful_set: StatefulSet, revision: ControllerRevision, ordinal: int) -> JsonObject:
    """The body of a pod of a revision."""
    name = f"{stateful_set.metadata.name}-{ordinal}"
    controller = controller_reference(stateful_set, STATEFUL_SET)
    prefix = f"{stateful_set.metadata.name}-"
    body: dict[str, Any] = pod_from(template_in(revision), prefix, controller)
    metadata = body["metadata"]
    marks = {**identity(stateful_set, ordinal), CONTROLLER_REVISION_HASH: revision.metadata.name}
    labels = {**(metadata.get("labels") or {}), **marks}
    spec = {**body["spec"], "hostname": name}
    if stateful_set.spec.service_name:
        spec["subdomain"] = stateful_set.spec.service_name
    claims = {str(entry["metadata"]["name"]): entry for entry in stateful_set.spec.volume_claim_templates}
    if claims:
        own = [{"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{name}"}} for claim in claims]
        spec["volumes"] = [
            *own,
            *(entry for entry in spec.get("volumes") or [] if entry["name"] not in claims),
        ]
    return {**body, "metadata": {**metadata, "name": name, "labels": labels}, "spec": spec}


def claim_bodies(stateful_set: StatefulSet, ordinal: int) -> list[JsonObject]:
    """The claims of a pod; they outlive it, and the set unless its policy says otherwise."""
    bodies: list[JsonObject] = []
    for template in stateful_set.spec.volume_claim_templates:
        metadata = template.get("metadata") or {}
        labels = {**(metadata.get("labels") or {}), **stateful_set.spec.selector.match_labels}
        name = f"{metadata.get('name')}-{stateful_set.metadata.name}-{ordinal}"
        annotations = {"annotations": metadata["annotations"]} if metadata.get("annotations") else {}
        bodies.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {**annotations, "name": name, "labels": labels},
                "spec": template.get("spec") or {},
            }
        )
    return bodies


def claim_owner(stateful_set: StatefulSet, pod: Pod, ordinal: int) -> JsonObject | None:
    """Who takes the pod's claims with him when he goes, by the retention policy."""
    policy = stateful_set.spec.persistent_volume_claim_retention_policy or {}
    spec, start = stateful_set.spec, start_of(stateful_set)
    within = start <= ordinal < start + spec.replicas
    if policy.get("whenScaled") == "Delete" and not within:
        reference: JsonObject = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod.metadata.name,
            "uid": pod.metadata.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        return reference
    if policy.get("whenDeleted") == "Delete":
        return controller_reference(stateful_set, STATEFUL_SET)
    return None


def template_in(revision: ControllerRevision) -> JsonObject:
    """The pod template that a revision keeps."""
    template: JsonObject = (revision.data.get("spec") or {}).get("template") or {}
    return {key: value for key, value in template.items() if key != "$patch"}


def equal_revisions(
    stateful_set: StatefulSet, revisions: Iterable[ControllerRevision]
) -> list[ControllerRevision]:
    """The revisions of the present template, oldest first."""
    template = without_label(stateful_set.spec.template, CONTROLLER_REVISION_HASH)
    return [
        revision
        for revision in revisions
        if without_label(template_in(revision), CONTROLLER_REVISION_HASH) == template
    ]


def revision_body(stateful_set: StatefulSet, number: int, collisions: int) -> JsonObject:
    """The revision of the present template, named after the template's hash."""
    template: JsonObject = stateful_set.spec.template
    content = kept_template(template)
    digest = revision_hash(content, collisions)
    metadata = template.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    body: JsonObject = {
        "apiVersion": CONTROLLER_REVISION.api_version,
        "kind": CONTROLLER_REVISION.kind,
        "metadata": {
            "name": f"{stateful_set.metadata.name}-{digest}",
            "namespace": stateful_set.metadata.namespace,
            "labels": {**(labels if isinstance(labels, dict) else {}), _HASH_LABEL: digest},
            "annotations": {**stateful_set.metadata.annotations},
            "ownerReferences": [controller_reference(stateful_set, STATEFUL_SET)],
        },
        "data": content,
        "revision": number,
    }
    return body


def surplus(
    revisions: list[ControllerRevision], live: Collection[str], limit: int
) -> list[ControllerRevision]:
    """Revisions beyond the history limit that nothing is of any more, oldest first."""
    idle = [revision for revision in revisions if revision.metadata.name not in live]
    return idle[: max(len(idle) - limit, 0)] if limit >= 0 else []
