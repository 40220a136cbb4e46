"""A priority that a pod brings along: it must be the one that its class gives it.

Source: k8s.io/kubernetes plugin/pkg/admission/priority/admission.go (admitPod), 1.34 to 1.37 alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tonnage.decide.kubernetes.admission.written_pod import mapping
from tonnage.model.kubernetes.cluster import Manifest, PriorityClass, Snapshot
from tonnage.model.names import SYSTEM_PRIORITIES

_MAY: Final = "PreemptLowerPriority"


@dataclass(frozen=True, slots=True)
class OtherPriority:
    """A field of the pod, `priority` or `preemptionPolicy`, that says other than its class."""

    field: str
    given: str
    computed: str
    priority_class: str

    @property
    def text(self) -> str:
        """The server's words."""
        what = (
            f"integer value of priority ({self.given})"
            if self.field == "priority"
            else f"string value of PreemptionPolicy ({self.given})"
        )
        return (
            f"the {what} must not be provided in pod spec; priority admission controller computed "
            f"{self.computed} from the given PriorityClass name"
        )


def other_priority(manifest: Manifest, snapshot: Snapshot) -> Iterator[OtherPriority]:
    """The first field that the server refuses; none where the class is not known."""
    spec = mapping(manifest.written.get("spec"))
    found = class_of(manifest, snapshot)
    if found is None:
        return
    priority, policy = spec.get("priority"), spec.get("preemptionPolicy")
    own = _MAY if found.may_preempt else "Never"
    if isinstance(priority, int) and priority != found.value:
        yield OtherPriority("priority", str(priority), str(found.value), found.name)
    elif isinstance(policy, str) and policy != own:
        yield OtherPriority("preemptionPolicy", policy, own, found.name)


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
