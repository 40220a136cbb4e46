"""The pods of a workload: whose they are, and what is told of those that are alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from tonnage.diagnose.cluster_view import Ground
from tonnage.diagnose.explain.bound.scheduled_pods import explain_placed
from tonnage.diagnose.explain.explain import explain_waiting_pod
from tonnage.model.kubernetes.cluster import Pod, PodStatus, Snapshot
from tonnage.model.kubernetes.workloads import WorkloadKey, WorkloadState
from tonnage.model.verdict import Explanation, PodGroup, Subject, Verdict

_DEEPEST: Final = 4
_MOST_ASKED: Final = 64
"""Pods of one workload that are explained one by one."""
_OWN_LABELS: Final = (
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
)
"""What alone tells pods of one workload apart."""
_WORST: Final = (
    Verdict.NEVER,
    Verdict.UNKNOWN,
    Verdict.NOT_NOW,
    Verdict.FITS,
    Verdict.RUNNING,
    Verdict.ENDED,
)


@dataclass(frozen=True, slots=True)
class Family:
    """A workload, the workloads that it made (newest first), and their pods."""

    head: WorkloadState
    made: tuple[WorkloadState, ...]
    pods: tuple[Pod, ...]

    @property
    def everyone(self) -> tuple[WorkloadState, ...]:
        """The workload and those that it made."""
        return (self.head, *self.made)

    @property
    def living(self) -> tuple[Pod, ...]:
        """Pods that have not ended and are not going."""
        return tuple(pod for pod in self.pods if not pod.finished and not pod.status.terminating)


def family_of(workload: WorkloadState, snapshot: Snapshot) -> Family:
    """A workload with all that is made by it, however its owners are tangled."""
    by_owner: dict[WorkloadKey, list[WorkloadState]] = {}
    for other in snapshot.workloads:
        if other.owner is not None:
            by_owner.setdefault(other.owner, []).append(other)
    members: dict[WorkloadKey, WorkloadState] = {workload.key: workload}
    edge = [workload.key]
    for _ in range(_DEEPEST):
        children = [child for key in edge for child in by_owner.get(key, ()) if child.key not in members]
        members |= {child.key: child for child in children}
        edge = [child.key for child in children]
    made = [other for key, other in members.items() if key != workload.key]
    made.sort(key=lambda w: (-w.revision, -(w.created.timestamp() if w.created else 0.0), w.key))
    pods = tuple(
        pod
        for pod in snapshot.pods
        if pod.owner and WorkloadKey(pod.owner.kind, pod.namespace, pod.owner.name) in members
    )
    return Family(workload, tuple(made), pods)


def groups_of(pods: Iterable[Pod], ground: Ground, *, spaced: bool = False) -> tuple[PodGroup, ...]:
    """Pods that are told alike together, the worst first. `spaced`: named with their namespaces."""
    groups: dict[tuple[str, ...], list[tuple[str, Explanation]]] = {}
    explained: list[tuple[Pod, Explanation]] = []
    for pod in sorted(pods, key=lambda p: p.name):
        explanation = _explained(pod, ground, explained)
        message = explanation.message.replace(pod.name, "it")
        codes = sorted({reason.code for reason in explanation.reasons})
        key = (explanation.verdict.value, str(explanation.layer), message if codes else "", *codes)
        name = f"{pod.namespace}/{pod.name}" if spaced else pod.name
        groups.setdefault(key, []).append((name, explanation))
    pod_groups = [PodGroup(tuple(name for name, _ in group), group[0][1]) for group in groups.values()]
    return tuple(
        sorted(pod_groups, key=lambda g: (_WORST.index(g.explanation.verdict), -len(g.names), g.names))
    )


def worst_of(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that leaves the least hope.

    >>> worst_of([Verdict.FITS, Verdict.NOT_NOW]).value
    'NOT_NOW'
    """
    return min(verdicts, key=_WORST.index, default=Verdict.FITS)


def _explained(pod: Pod, ground: Ground, explained: list[tuple[Pod, Explanation]]) -> Explanation:
    """What is said of a pod; of many that wait alike, what is said of the first."""
    subject = Subject("Pod", pod.namespace, pod.name)
    if pod.node_name or pod.finished:
        return explain_placed(pod, subject, ground.view.snapshot)
    labels = {key: value for key, value in pod.labels.items() if key not in _OWN_LABELS}
    shape = replace(pod, name="", uid="", created=None, labels=labels, status=PodStatus())
    same = next((explanation for other, explanation in explained if other == shape), None)
    if same is not None or len(explained) >= _MOST_ASKED:
        return replace(same or explained[0][1], subject=subject)
    explanation = explain_waiting_pod(ground, pod, with_remedies=not explained)
    explained.append((shape, explanation))
    return explanation
