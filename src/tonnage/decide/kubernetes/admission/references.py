"""What a pod names and the API server looks up before it lets the pod exist, and what it adds from there.

Source: k8s.io/kubernetes plugin/pkg/admission (namespace, serviceaccount, priority, runtimeclass), 1.35.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tonnage.decide.kubernetes.admission.priority import OtherPriority, other_priority
from tonnage.model.kubernetes.cluster import Manifest, Pod, Snapshot
from tonnage.model.kubernetes.policies import RuntimeClass
from tonnage.model.kubernetes.selectors import Toleration


@dataclass(frozen=True, slots=True)
class NotThere:
    """Something that the pod names and that does not exist. `others`: what there is of the kind."""

    kind: str
    name: str
    namespace: str = ""
    others: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The server's words."""
        match self.kind:
            case "ServiceAccount":
                where = f"{self.namespace}/{self.name}"
                return f'error looking up service account {where}: serviceaccount "{self.name}" not found'
            case "RuntimeClass":
                return f'pod rejected: RuntimeClass "{self.name}" not found'
            case _:
                return f"no PriorityClass with name {self.name} was found"


@dataclass(frozen=True, slots=True)
class ClassConflict:
    """A pod that says other than its runtime class wants."""

    runtime_class: str
    text: str


@dataclass(frozen=True, slots=True)
class NamespaceEnding:
    """A namespace that is being deleted: nothing new comes into it."""

    namespace: str

    @property
    def text(self) -> str:
        """The server's words."""
        return f"unable to create new content in namespace {self.namespace} because it is being terminated"


Lookup = NotThere | ClassConflict | NamespaceEnding | OtherPriority


def lookups(manifest: Manifest, snapshot: Snapshot) -> Iterator[Lookup]:
    """What stands against the pod, in the order in which the server asks."""
    pod = manifest.pod
    if pod.namespace in snapshot.ending_namespaces:
        yield NamespaceEnding(pod.namespace)
    yield from _account(pod, snapshot)
    yield from _priority(pod, snapshot)
    yield from other_priority(manifest, snapshot)
    yield from _runtime(pod, snapshot)


def _account(pod: Pod, snapshot: Snapshot) -> Iterator[Lookup]:
    """`default` is made with every namespace, unless that has just come to be."""
    name = pod.service_account
    there = tuple(sorted(n for space, n in snapshot.service_accounts if space == pod.namespace))
    known = "ServiceAccount" in snapshot.complete or bool(there)
    if name and name != "default" and known and name not in there:
        yield NotThere("ServiceAccount", name, pod.namespace, there)


def _priority(pod: Pod, snapshot: Snapshot) -> Iterator[Lookup]:
    """A cluster always has some classes: one without was captured without looking at them."""
    name = pod.priority_class
    there = tuple(sorted(cls.name for cls in snapshot.priority_classes))
    if name and there and name not in there and not name.startswith("system-"):
        yield NotThere("PriorityClass", name, others=there)


def _runtime(pod: Pod, snapshot: Snapshot) -> Iterator[Lookup]:
    name = pod.runtime_class
    found = _class_of(pod, snapshot)
    if name and found is None:
        there = tuple(sorted(cls.name for cls in snapshot.runtime_classes))
        if there or "RuntimeClass" in snapshot.complete:
            yield NotThere("RuntimeClass", name, others=there)
        return
    if pod.overhead and found is not None and found.overhead and dict(pod.overhead) != dict(found.overhead):
        yield ClassConflict(
            name, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        )
    elif pod.overhead and (found is None or not found.overhead):
        told = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        yield ClassConflict(name, told)
    for key, value in sorted(found.node_selector.items()) if found is not None else ():
        own = pod.node_selector.get(key, value)
        if own != value:
            told = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
            yield ClassConflict(name, f"{told}pod.spec.nodeSelector[{key}] = {own}")


def _class_of(pod: Pod, snapshot: Snapshot) -> RuntimeClass | None:
    return next((cls for cls in snapshot.runtime_classes if cls.name == pod.runtime_class), None)


def with_runtime_class(manifest: Manifest, snapshot: Snapshot) -> Manifest:
    """The manifest with the overhead, node labels and tolerations that its runtime class adds."""
    pod = manifest.pod
    found = _class_of(pod, snapshot) if pod.runtime_class else None
    if found is None:
        return manifest
    added: tuple[Toleration, ...] = tuple(t for t in found.tolerations if t not in pod.tolerations)
    changed = replace(
        pod,
        overhead=pod.overhead or found.overhead,
        node_selector={**pod.node_selector, **found.node_selector},
        tolerations=(*pod.tolerations, *added),
    )
    return replace(manifest, pod=changed)
