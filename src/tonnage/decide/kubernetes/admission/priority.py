"""Priority: the priority that a pod brings along must be the one that its class gives it.

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
from tonnage.model.reasons.pod.admission import PriorityNotOfClass

_MAY: Final = "PreemptLowerPriority"


def _refusal(
    manifest: Manifest, priority_class: PriorityClass, field: str, stated: str, computed: str
) -> AdmissionRefusal:
    """A field of the pod, `priority` or `preemptionPolicy`, says other than its class computes."""
    noun = f"integer value of {field}" if field == "priority" else "string value of PreemptionPolicy"
    own = f"its class {priority_class.name} gives" if priority_class.name else "without a class it is"
    reason = PriorityNotOfClass(
        subject=subject_of(manifest),
        message=f"spec.{field} says {stated}, and {own} {computed}",
        remedy=f"leave {field} out, and name a PriorityClass that gives what is wanted",
        source="API server, Priority admission",
        field=field,
        given=stated,
        computed=computed,
    )
    text = (
        f"the {noun} ({stated}) must not be provided in pod spec; priority admission controller computed "
        f"{computed} from the given PriorityClass name"
    )
    return AdmissionRefusal(text, reason)


def other_priority(manifest: Manifest, snapshot: Snapshot) -> Iterator[AdmissionRefusal]:
    """The first field that the server refuses; none where the class is not known."""
    spec = mapping(manifest.written.get("spec"))
    priority_class = class_of(manifest, snapshot)
    if priority_class is None:
        return
    priority, policy = spec.get("priority"), spec.get("preemptionPolicy")
    own = _MAY if priority_class.may_preempt else "Never"
    if isinstance(priority, int) and priority != priority_class.value:
        yield _refusal(manifest, priority_class, "priority", str(priority), str(priority_class.value))
    elif isinstance(policy, str) and policy != own:
        yield _refusal(manifest, priority_class, "preemptionPolicy", policy, own)


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
    classes_are_complete = bool(classes) or "PriorityClass" in snapshot.complete
    return PriorityClass("", 0) if classes_are_complete else None


def without(field: str, manifest: Manifest, snapshot: Snapshot) -> Manifest:
    """The manifest that leaves the field to its class."""
    priority_class = class_of(manifest, snapshot) or PriorityClass("", 0)
    spec = {key: value for key, value in mapping(manifest.written.get("spec")).items() if key != field}
    pod = replace(manifest.pod, priority=priority_class.value, may_preempt=priority_class.may_preempt)
    return replace(manifest, pod=pod, written={**manifest.written, "spec": spec})
