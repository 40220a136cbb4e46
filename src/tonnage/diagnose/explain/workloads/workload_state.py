"""What a workload's own spec, conditions and Events say about the pods that it does not make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from tonnage.diagnose.explain.workloads.pods import Family
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.kubernetes.name_words import without_pattern
from tonnage.model.kubernetes.workloads import WorkloadState
from tonnage.model.layer import Layer
from tonnage.model.reasons.pod.admission import WebhookDenied, WebhookUnreachable
from tonnage.model.reasons.pod.workloads import (
    WorkloadDeadline,
    WorkloadEnded,
    WorkloadInOrder,
    WorkloadPaused,
    WorkloadPodsRefused,
    WorkloadWantsNone,
)
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import Explanation

_DENIED: Final = re.compile(
    r'admission webhook "([^"]{1,253})" denied the request(?: without explanation|: ?)(.*)', re.DOTALL
)
_FAILED: Final = re.compile(r'failed calling webhook "([^"]{1,253})"')
_QUOTA: Final = re.compile(r"(?:exceeded|failed) quota: ([^,:]{1,253})")
_PREFIX: Final = "Error creating: "
_LONGEST: Final = 1000
_State: TypeAlias = WorkloadDeadline | WorkloadEnded | WorkloadInOrder | WorkloadPaused | WorkloadWantsNone


@dataclass(frozen=True, slots=True)
class OwnerMessage:
    """What the API server said to an owner that tried to make a pod, and whose object or Event holds it."""

    text: str
    source: str
    about: str

    def alike(self, explanation: Explanation) -> bool:
        """Whether it is the refusal that is foreseen, so that its exact words may stand for ours."""
        words = re.sub(r'^pods "[^"]*" is forbidden: ', "", explanation.upstream_message)
        return words.split(":")[0] in self.text and (
            not (quota := _QUOTA.search(words)) or f"quota: {quota[1]}" in self.text
        )

    def reasons(self) -> tuple[Reason, ...]:
        """The refusal, of which nothing can be seen in other objects now."""
        denied, failed = _DENIED.search(self.text), _FAILED.search(self.text)
        if denied:
            message = denied[2].strip() or "it does not say why"
            return (
                WebhookDenied(
                    subject=self.about,
                    message=f"the admission webhook {denied[1]} refuses its pods: {message}",
                    remedy="change the pod template as it says",
                    source=self.source,
                    layer=self._layer,
                    webhook=denied[1],
                    said=message,
                ),
            )
        if failed:
            return (
                WebhookUnreachable(
                    subject=self.about,
                    message=f"the API server could not ask the admission webhook {failed[1]}: {self.text}",
                    remedy="check the webhook's Service, its endpoints, its pods and its certificate "
                    "(kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations)",
                    source=self.source,
                    layer=self._layer,
                    webhook=failed[1],
                ),
            )
        words = without_pattern(self.text)
        return (
            WorkloadPodsRefused(
                subject=self.about,
                message=f"the API server refused its pods at the last attempt: {words}",
                remedy="if the cause is gone, wait: the controller tries again, after some minutes at most",
                source=self.source,
                layer=self._layer,
            ),
        )

    @property
    def _layer(self) -> Layer:
        return Layer.QUOTA if _QUOTA.search(self.text) else Layer.ADMISSION


def refused_before(family: Family, snapshot: Snapshot) -> OwnerMessage | None:
    """The newest refusal that the workload, or what it made, has met."""
    for owner in reversed(family.everyone):
        stated = owner.condition("ReplicaFailure")
        if stated is not None and stated.reason == "FailedCreate":
            return OwnerMessage(stated.message[:_LONGEST], "condition ReplicaFailure", str(owner.key))
    keys = {owner.key for owner in family.everyone}
    events = [h for h in snapshot.events if h.about in keys and h.reason == "FailedCreate"]
    if not events:
        return None
    newest = max(events, key=lambda h: h.last.timestamp() if h.last else 0.0)
    text = newest.message.removeprefix(_PREFIX)[:_LONGEST]
    return OwnerMessage(text, "Event FailedCreate", str(newest.about))


def state_reasons(family: Family) -> Iterator[Reason]:
    """Why the workload makes no pods by its own word."""
    head = family.head
    kind, namespace, name = head.key
    own = f"{kind.lower()} {name} -n {namespace}"
    ended = head.condition("Failed") if kind == "Job" else None
    # What has ended comes first: a failed Job that is suspended as well would be resumed in vain.
    if ended is not None:
        message = f"it has failed ({ended.reason}): {ended.message}"
        remedy = (
            "find out why its pods failed and fix that; then delete it "
            f"(kubectl delete job {name} -n {namespace}) and apply its manifest again"
        )
        yield _reason(head, WorkloadEnded, message, remedy)
        return
    if head.condition("Complete") and kind == "Job":
        return
    if head.paused and kind in ("Job", "CronJob"):
        remedy = f'kubectl patch {own} --type=merge -p \'{{"spec":{{"suspend":false}}}}\''
        message = "it is suspended, so it creates no pods" + (
            "; a queue such as Kueue resumes it by itself" if kind == "Job" else ""
        )
        yield _reason(head, WorkloadPaused, message, remedy)
    elif head.paused and kind not in ("Deployment", "Rollout"):
        message = "it is suspended, so it creates no pods; a queue such as Kueue resumes it by itself"
        yield _reason(head, WorkloadPaused, message, f"kubectl edit {own}: set suspend to false")
    elif head.paused and not family.made:
        message = "its rollout is paused, so it has created no pods"
        remedy = f"kubectl rollout resume {own.replace(' ', '/', 1)}"
        yield _reason(head, WorkloadPaused, message, remedy)
    elif head.desired == 0 and not family.living:
        if kind == "DaemonSet":
            message = "no node matches its pods: its node selector, affinity or the nodes' taints"
            remedy = (
                f"kubectl get daemonset {name} -n {namespace} -o yaml: compare nodeSelector with the nodes"
            )
        elif kind == "Job":
            message, remedy = (
                "its parallelism is 0, so it creates no pods",
                f"kubectl edit {own}: set parallelism",
            )
        else:
            message, remedy = "it is scaled to 0 replicas", f"kubectl scale {own} --replicas=1"
        yield _reason(head, WorkloadWantsNone, message, remedy)
    else:
        yield from _in_order(family)


def _in_order(family: Family) -> Iterator[Reason]:
    """A StatefulSet that waits for one of its pods before it makes the next."""
    head = family.head
    waiting = [pod for pod in family.living if pod.status.phase != "Running" or pod.status.waiting]
    if not head.in_order or not waiting or len(family.living) >= (head.desired or 0):
        return
    name = min(waiting, key=lambda pod: (len(pod.name), pod.name)).name
    message = (
        f"it creates its next pod only when {name} is ready ({len(family.living)} of {head.desired} exist)"
    )
    remedy = f"tonnage explain pod {name} -n {head.key.namespace}; or set podManagementPolicy: Parallel"
    yield _reason(head, WorkloadInOrder, message, remedy)


def aside_reasons(family: Family) -> Iterator[Reason]:
    """What goes beside the cause."""
    late = family.head.condition("Progressing", "False")
    if late is not None and late.reason == "ProgressDeadlineExceeded":
        seconds = family.head.progress_deadline_s
        message = f"its rollout has made no progress for {seconds} seconds ({late.reason})"
        yield _reason(family.head, WorkloadDeadline, message, "")


def _reason(head: WorkloadState, kind: type[_State], message: str, remedy: str) -> Reason:
    source = f"{head.key.kind} spec and status"
    return kind(subject=str(head.key), message=message, remedy=remedy, source=source)
