"""NamespaceLifecycle, ServiceAccount, Priority, RuntimeClass: what a pod names, and what they add.

Source: k8s.io/kubernetes plugin/pkg/admission (namespace, serviceaccount, priority, runtimeclass), 1.35.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from tonnage.decide.kubernetes.admission.priority import other_priority
from tonnage.decide.kubernetes.admission.refusal import AdmissionRefusal, subject_of
from tonnage.model.kubernetes.cluster import Manifest, Pod, Snapshot
from tonnage.model.kubernetes.policies import RuntimeClass
from tonnage.model.kubernetes.selectors import Toleration
from tonnage.model.name_lists import listed
from tonnage.model.reasons.pod.admission import (
    NameMissing,
    NamespaceTerminating,
    PriorityClassUnknown,
    RuntimeClassConflict,
    RuntimeClassMissing,
    ServiceAccountMissing,
)

_MISSING: Final[Mapping[str, type[NameMissing]]] = {
    "ServiceAccount": ServiceAccountMissing,
    "RuntimeClass": RuntimeClassMissing,
    "PriorityClass": PriorityClassUnknown,
}
_WORDS: Final = {
    "ServiceAccount": "service account",
    "RuntimeClass": "runtime class",
    "PriorityClass": "priority class",
}


def lookups(manifest: Manifest, snapshot: Snapshot) -> Iterator[AdmissionRefusal]:
    """What stands against the pod, in the order in which the server asks."""
    if manifest.pod.namespace in snapshot.ending_namespaces:
        yield _ending(manifest)
    yield from _account(manifest, snapshot)
    yield from _priority(manifest, snapshot)
    yield from other_priority(manifest, snapshot)
    yield from _runtime(manifest, snapshot)


def _ending(manifest: Manifest) -> AdmissionRefusal:
    """Nothing new comes into a namespace that is being deleted."""
    namespace = manifest.pod.namespace
    reason = NamespaceTerminating(
        subject=subject_of(manifest),
        message=f"the namespace {namespace} is being deleted, and takes nothing new",
        remedy=f"wait until it is gone and make it again, or use another; what holds it is told by "
        f"kubectl get namespace {namespace} -o yaml",
        source="API server, NamespaceLifecycle admission",
        namespace=namespace,
    )
    text = f"unable to create new content in namespace {namespace} because it is being terminated"
    return AdmissionRefusal(text, reason)


def _account(manifest: Manifest, snapshot: Snapshot) -> Iterator[AdmissionRefusal]:
    """`default` is made with every namespace, unless that has just come to be."""
    name, namespace = manifest.pod.service_account, manifest.pod.namespace
    there = tuple(sorted(n for space, n in snapshot.service_accounts if space == namespace))
    accounts_are_complete = "ServiceAccount" in snapshot.complete or bool(there)
    if name and name != "default" and accounts_are_complete and name not in there:
        text = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        yield AdmissionRefusal(text, _missing(manifest, "ServiceAccount", name, there))


def _priority(manifest: Manifest, snapshot: Snapshot) -> Iterator[AdmissionRefusal]:
    """A cluster always has some classes: one without was captured without looking at them."""
    name = manifest.pod.priority_class
    there = tuple(sorted(cls.name for cls in snapshot.priority_classes))
    if name and there and name not in there and not name.startswith("system-"):
        text = f"no PriorityClass with name {name} was found"
        yield AdmissionRefusal(text, _missing(manifest, "PriorityClass", name, there))


def _runtime(manifest: Manifest, snapshot: Snapshot) -> Iterator[AdmissionRefusal]:
    pod = manifest.pod
    name = pod.runtime_class
    runtime_class = _class_of(pod, snapshot)
    if name and runtime_class is None:
        there = tuple(sorted(cls.name for cls in snapshot.runtime_classes))
        if there or "RuntimeClass" in snapshot.complete:
            text = f'pod rejected: RuntimeClass "{name}" not found'
            yield AdmissionRefusal(text, _missing(manifest, "RuntimeClass", name, there))
        return
    if (
        pod.overhead
        and runtime_class is not None
        and runtime_class.overhead
        and dict(pod.overhead) != dict(runtime_class.overhead)
    ):
        text = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        yield _conflict(manifest, text)
    elif pod.overhead and (runtime_class is None or not runtime_class.overhead):
        text = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        yield _conflict(manifest, text)
    for key, value in sorted(runtime_class.node_selector.items()) if runtime_class is not None else ():
        own = pod.node_selector.get(key, value)
        if own != value:
            text = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
            yield _conflict(manifest, f"{text}pod.spec.nodeSelector[{key}] = {own}")


def _missing(manifest: Manifest, kind: str, name: str, there: tuple[str, ...]) -> NameMissing:
    """Something that the pod names and that does not exist. `there`: what there is of the kind."""
    words, where = _WORDS[kind], f" in {manifest.pod.namespace}" if kind == "ServiceAccount" else ""
    others = [candidate for candidate in there if not candidate.startswith("system-")]
    present = f"; there are {listed(others)}" if others else ""
    return _MISSING[kind](
        subject=subject_of(manifest),
        message=f"the {words} {name} does not exist{where}{present}",
        remedy=f"create the {words}, or name one that exists",
        source=f"API server, {kind.removesuffix('Class')} admission",
        kind=kind,
        name=name,
        others=there,
    )


def _conflict(manifest: Manifest, text: str) -> AdmissionRefusal:
    """A pod says other than its runtime class wants."""
    name = manifest.pod.runtime_class
    reason = RuntimeClassConflict(
        subject=subject_of(manifest),
        message=f"it says other than its runtime class {name} wants: {text}",
        remedy="leave out what the class sets by itself (overhead, node labels)",
        source="API server, RuntimeClass admission",
        class_=name,
    )
    return AdmissionRefusal(text, reason)


def _class_of(pod: Pod, snapshot: Snapshot) -> RuntimeClass | None:
    return next((cls for cls in snapshot.runtime_classes if cls.name == pod.runtime_class), None)


def with_runtime_class(manifest: Manifest, snapshot: Snapshot) -> Manifest:
    """The manifest with the overhead, node labels and tolerations that its runtime class adds."""
    pod = manifest.pod
    runtime_class = _class_of(pod, snapshot) if pod.runtime_class else None
    if runtime_class is None:
        return manifest
    added: tuple[Toleration, ...] = tuple(t for t in runtime_class.tolerations if t not in pod.tolerations)
    changed = replace(
        pod,
        overhead=pod.overhead or runtime_class.overhead,
        node_selector={**pod.node_selector, **runtime_class.node_selector},
        tolerations=(*pod.tolerations, *added),
    )
    return replace(manifest, pod=changed)
