"""A priority that a pod brings along: it must be the one that its class gives it.

Source: k8s.io/kubernetes plugin/pkg/admission/priority/admission.go (admitPod), 1.34 to 1.37 alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tonnage.decide.kubernetes.admission.refusal import AdmissionRefusal, subject_of
from tonnage.decide.kubernetes.admission.written_pod import mapping
from tonnage.model.kubernetes.cluster import Manifest, PriorityClass, Snapshot
from tonnage.model.names import SYSTEM_PRIORITIES
from tonnage.model.reasons.admission import PriorityNotOfClass

_MAY: Final = "PreemptLowerPriority"


def _refusal(
    manifest: Manifest, found: PriorityClass, field: str, given: str, computed: str
) -> AdmissionRefusal:
    """A field of the pod, `priority` or `preemptionPolicy`, says other than its class computes."""
    what = f"integer value of {field}" if field == "priority" else "string value of PreemptionPolicy"
    own = f"its class {found.name} gives" if found.name else "without a class it is"
    reason = PriorityNotOfClass(
        subject=subject_of(manifest),
        message=f"spec.{field} says {given}, and {own} {computed}",
        remedy=f"leave {field} out, and name a PriorityClass that gives what is wanted",
        source="API server, Priority admission",
        field=field,
        given=given,
        computed=computed,
    )
    text = (
        f"the {what} ({given}) must not be provided in pod spec; priority admission controller computed "
        f"{computed} from the given PriorityClass name"
    )
    return AdmissionRefusal(text, reason)


def other_priority(manifest: Manifest, snapshot: Snapshot) -> Iterator[AdmissionRefusal]:
    """The first field that the server refuses; none where the class is not known."""
    spec = mapping(manifest.written.get("spec"))
    found = class_of(manifest, snapshot)
    if found is None:
        return
    priority, policy = spec.get("priority"), spec.get("preemptionPolicy")
    own = _MAY if found.may_preempt else "Never"
    if isinstance(priority, int) and priority != found.value:
        yield _refusal(manifest, found, "priority", str(priority), str(found.value))
    elif isinstance(policy, str) and policy != own:
        yield _refusal(manifest, found, "preemptionPolicy", policy, own)


def class_of(manifest: Manifest, snapshot: Snapshot) -> PriorityClass | None:
    """The class that the pod gets, nameless where none is the default; None where that is not known."""
    name, classes = manifest.pod.priority_class, snapshot.priority_classes
    if name in SYSTEM_PRIORITIES:
        return PriorityClass(name, SYSTEM_PRIORITIES[name])
    if name:
        return next((cls for cls in classes if cls.name == name), None)
    defaults = [cls for cls in classes if cls.default]
    if defaults:
        return min(defaults, key=lambda cls: cls.value)
    known = bool(classes) or "PriorityClass" in snapshot.complete
    return PriorityClass("", 0) if known else None


def without(field: str, manifest: Manifest, snapshot: Snapshot) -> Manifest:
    """The manifest that leaves the field to its class."""
    found = class_of(manifest, snapshot) or PriorityClass("", 0)
    spec = {key: value for key, value in mapping(manifest.written.get("spec")).items() if key != field}
    pod = replace(manifest.pod, priority=found.value, may_preempt=found.may_preempt)
    return replace(manifest, pod=pod, written={**manifest.written, "spec": spec})
