"""Changes of workloads: more pods, fewer, others; or all of them placed anew."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Final

from tonnage.decide.kubernetes.admission.chain import admission_of
from tonnage.diagnose.rules.order import MANIFEST_RULES
from tonnage.diagnose.simulate.changed_cluster import Fork, Origin, WaitingPod, fresh
from tonnage.model.changes import AddWorkload, Replay, ScaleWorkload, WorkloadChange
from tonnage.model.errors import Problem
from tonnage.model.kubernetes.cluster import Manifest, Pod
from tonnage.model.reasons.pod.quota import QuotaRowsReason

MOST_PODS: Final = 1_000_000
_LATEST: Final = datetime.max.replace(tzinfo=UTC)
_HASH: Final = "pod-template-hash"
_KINDS: Final = {"deploy": "deployment", "rs": "replicaset", "sts": "statefulset", "ds": "daemonset"}


def change_workloads(fork: Fork, change: WorkloadChange) -> None:
    """Carry out one change."""
    match change:
        case AddWorkload():
            _add(fork, change)
        case ScaleWorkload():
            _scale(fork, change)
        case Replay():
            _replay(fork)


def _add(fork: Fork, change: AddWorkload) -> None:
    for manifest in change.manifests:
        count = manifest.replicas if change.replicas is None else change.replicas
        if len(fork.queue) + count > MOST_PODS:
            fork.problems.append(Problem(f"more than {MOST_PODS} pods", change.where))
            return
        problems = _unusable(manifest, fork)
        fork.problems += [
            replace(problem, where=f"{change.where} {problem.where}".strip()) for problem in problems
        ]
        if not problems:
            pod = _let_in(manifest, count, fork)
            if pod is not None:
                name, alone = manifest.name or "pod", manifest.kind == "Pod"
                fork.add(_numbered(pod, name, count, fork, alone=alone))


def _unusable(manifest: Manifest, fork: Fork) -> list[Problem]:
    pod = manifest.pod
    if manifest.kind.startswith("DaemonSet"):
        message = "the number of a DaemonSet's pods depends on the nodes"
        return [Problem(message, manifest.name, remedy="give a Deployment or a Pod that asks for the same")]
    errors = [error for rule in MANIFEST_RULES for error in rule.errors(manifest)]
    if errors:
        return [Problem(e.reason.message, e.path, e.text, e.reason.remedy) for e in errors]
    names = {cls.name for cls in fork.base.snapshot.priority_classes}
    problems = [problem for problem in pod.problems if problem.remedy]
    system = pod.priority_class.startswith("system-")
    unread = "PriorityClass" in fork.base.snapshot.missing
    if pod.priority_class and not (pod.priority_class in names or system or unread):
        near = get_close_matches(pod.priority_class, names, n=1)
        remedy = f"use {near[0]} if you meant that" if near else "create it, or leave it out"
        problems.append(
            Problem(f"priority class {pod.priority_class[:63]} does not exist", pod.name, remedy=remedy)
        )
    return problems


def _let_in(manifest: Manifest, count: int, fork: Fork) -> Pod | None:
    """The pod with what admission fills in; None where it is refused, whatever quotas have left."""
    admission = admission_of(manifest, fork.base.snapshot, minor=fork.base.profile.minor)
    reasons = [
        refusal.reason for refusal in admission.refusals if not isinstance(refusal.reason, QuotaRowsReason)
    ]
    if not reasons:
        return admission.manifest.pod
    pods = _numbered(manifest.pod, manifest.name or "pod", count, fork, alone=manifest.kind == "Pod")
    fork.refused += [(WaitingPod(pod, Origin.ADDED), reasons[0]) for pod in pods]
    return None


def _numbered(pod: Pod, name: str, count: int, fork: Fork, *, alone: bool) -> list[Pod]:
    """Copies of a pod under names that are not taken."""
    names = {candidate.pod.key for candidate in fork.queue} | {p.key for p in fork.base.snapshot.pods}
    names |= {candidate.pod.key for candidate, _ in fork.refused}
    if alone and count == 1 and (pod.namespace, name) not in names:
        return [replace(fresh(pod), name=name, uid="", created=None)]
    copies: list[Pod] = []
    number = 0
    while len(copies) < count:
        called = f"{name}-new-{number}"
        number += 1
        if (pod.namespace, called) not in names:
            copies.append(replace(fresh(pod), name=called, uid="", created=None))
    return copies


def _scale(fork: Fork, change: ScaleWorkload) -> None:
    kind = _KINDS.get(change.kind.lower(), change.kind.lower().removesuffix("s"))
    pods = [pod for pod in _everyone(fork) if pod.namespace == change.namespace
            and belongs(pod, kind, change.name)]  # fmt: skip
    if not pods:
        names = sorted({_owner(pod) for pod in _everyone(fork) if pod.namespace == change.namespace} - {""})
        near = get_close_matches(change.name, names, n=1)
        remedy = (
            f"use {near[0]} if you meant that" if near else "add it from its manifest (--add-workload FILE)"
        )
        message = f"{change.kind or 'a workload'} {change.name} in namespace {change.namespace} has no pods"
        fork.problems.append(
            Problem(message, change.where, "Tonnage cannot tell what its pods ask for", remedy)
        )
        return
    waiting = {candidate.pod.key for candidate in fork.queue}
    order = sorted(pods, key=lambda pod: (pod.key in waiting, pod.created or _LATEST, pod.name))
    fork.end(order[change.replicas :])
    more = change.replicas - len(order)
    if more > MOST_PODS:
        fork.problems.append(Problem(f"more than {MOST_PODS} pods", change.where))
    elif more > 0:
        fork.add(_numbered(order[0], change.name, more, fork, alone=False))


def _everyone(fork: Fork) -> Iterable[Pod]:
    """Pods that hold something or wait."""
    for name in fork.names():
        yield from fork.pods_on(name)
    for candidate in fork.queue:
        yield candidate.pod


def belongs(pod: Pod, kind: str, name: str) -> bool:
    """Whether a pod is of a workload of its namespace, or is the pod of that name; any kind if empty."""
    owner = pod.owner
    if owner is None:
        return kind in ("pod", "") and pod.name == name
    if owner.name == name and kind in (owner.kind.lower(), ""):
        return True
    return kind in ("deployment", "") and owner.kind == "ReplicaSet" and _owner(pod) == name


def _owner(pod: Pod) -> str:
    """The workload's name: the Deployment's, where its ReplicaSet's ends with the hash of the template."""
    if pod.owner is None:
        return ""
    ending = f"-{pod.labels.get(_HASH, '')}"
    return pod.owner.name.removesuffix(ending) if len(ending) > 1 else pod.owner.name


def _replay(fork: Fork) -> None:
    """Everything but kubelet's own pods and those that are ending looks for a place again."""
    fork.in_order = True
    for name in fork.names():
        stay = tuple(p for p in fork.pods_on(name) if p.owner is not None and p.owner.kind == "Node")
        moved = [p for p in fork.pods_on(name) if p not in stay and not p.status.terminating]
        fork.queue += [WaitingPod(fresh(pod), Origin.REPLAYED, name) for pod in moved]
        fork.held[name] = stay
    fork.queue = [
        replace(candidate, origin=Origin.REPLAYED) if candidate.origin is not Origin.ADDED else candidate
        for candidate in fork.queue
    ]
