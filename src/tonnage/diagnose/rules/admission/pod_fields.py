"""What the API server refuses about a pod's spec outside of its containers, as `lint` has it, too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tonnage.diagnose import pod_amounts, quantities
from tonnage.diagnose.case import ManifestFieldError
from tonnage.documents.pods.container_fields import field_fault
from tonnage.documents.pods.fields import faults, written_path
from tonnage.documents.pods.placement import FieldPath, PodFault, label_faults, mapping, text_of
from tonnage.model.kubernetes.cluster import Manifest
from tonnage.model.kubernetes.name_words import wrong_in_subdomain
from tonnage.model.reasons.pod.admission import PodFieldInvalid

_SOURCE: Final = "API server, pod validation"
_STARTED_AGAIN: Final = {
    "Job": ("OnFailure", "Never"),
    "CronJob": ("OnFailure", "Never"),
    **dict.fromkeys(("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"), ("Always",)),
    "ReplicationController": ("Always",),
}


def errors(manifest: Manifest) -> Iterator[ManifestFieldError]:
    """Every refused field of the pod, or of the workload's template."""
    if not manifest.written:  # made, not read: it has its amounts alone
        yield from quantities.errors(manifest)
        return
    spec, kind = mapping(manifest.written.get("spec")), manifest.kind.split(".")[0]
    above = {"Pod": "", "CronJob": "spec.jobTemplate.spec.template."}.get(kind, "spec.template.")
    if manifest.pod_set is not None:
        above, kind = f"{manifest.pod_set.where}.", ""
    where = f"{above}spec"
    amounts = {entry.where: entry for entry in manifest.amounts}

    def at(path: FieldPath) -> Iterator[ManifestFieldError]:
        if path == ("resources",):
            return pod_amounts.errors(manifest, spec, where)
        written = amounts.get(f"{where}{written_path(path)}")
        return quantities.of(written) if written is not None else iter(())

    metadata = mapping(manifest.written.get("metadata"))
    name, labels = text_of(metadata, "name"), mapping(metadata.get("labels"))
    for why in wrong_in_subdomain(name) if name and kind == "Pod" else ():
        text, message = f"Invalid value: {json.dumps(name)}: {why}", f"{name[:100]!r} is not a valid pod name"
        yield _error(
            field_fault((), text, message, "use only lower-case letters, digits, - and ."), "metadata.name"
        )
    for fault in label_faults(labels, ("labels",)):
        yield _error(replace(fault, kind=PodFieldInvalid), f"{above or 'metadata.'}labels")
    for entry in faults(spec, at, is_pod=kind == "Pod"):
        yield (
            entry
            if isinstance(entry, ManifestFieldError)
            else _error(entry, f"{where}{written_path(entry.path)}")
        )
    yield from _of_kind(kind, text_of(spec, "restartPolicy"), f"{where}.restartPolicy")


def _of_kind(kind: str, policy: str, where: str) -> Iterator[ManifestFieldError]:
    """Some workloads bind how their pods are started again."""
    policies = _STARTED_AGAIN.get(kind, (policy,))
    if not policy or policy in policies:
        return
    listed = ", ".join(f'"{allowed}"' for allowed in policies)
    text = (
        f"Required value: valid values: {listed}"
        if len(policies) > 1
        else f"Unsupported value: {json.dumps(policy)}: supported values: {listed}"
    )
    message = f"restartPolicy of a {kind}'s pods cannot be {policy[:60]}"
    yield _error(field_fault((), text, message, f"write {' or '.join(policies)}"), where)


def _error(fault: PodFault, where: str) -> ManifestFieldError:
    message = f"{where}: {fault.message}"
    reason = fault.kind(subject="Pod", message=message, remedy=fault.remedy, source=_SOURCE, field=where)
    return ManifestFieldError(where, fault.text, reason)
