"""Whose the pod is: another scheduler's, or nobody's, since no scheduler serves its name."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from difflib import get_close_matches
from typing import Final

from tonnage.diagnose.case import Case
from tonnage.diagnose.explain.nodes.closed_nodes import utc
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.kubernetes.scheduler_profile import DEFAULT_NAME
from tonnage.model.reasons.pod.pods import OtherScheduler, SchedulerSilent
from tonnage.model.reasons.reason import Reason

_SCHEDULERS: Final = {
    "volcano": ("Volcano", "volcano-scheduler"),
    "hami-scheduler": ("HAMi", "hami-scheduler"),
    "kai-scheduler": ("the KAI scheduler", "kai-scheduler"),
    "runai-scheduler": ("Run:ai", "runai-scheduler"),
    "yunikorn": ("YuniKorn", "yunikorn-scheduler"),
    "koord-scheduler": ("Koordinator", "koord-scheduler"),
    "scheduler-plugins-scheduler": ("the scheduler-plugins", "scheduler-plugins"),
}
"""Schedulers by the name that pods give, with their pods' usual name."""
_NO_SCHEDULER: Final = {
    "kueue": "Kueue is not a scheduler: name its queue by the label kueue.x-k8s.io/queue-name",
    "karpenter": "Karpenter is not a scheduler: it adds nodes for pods of the default scheduler",
}
_SOURCE: Final = "spec.schedulerName"
_SOON: Final = timedelta(minutes=2)
"""A scheduler that works says something about a pod within this time."""


def reasons(case: Case) -> Iterator[Reason]:
    """One reason where the pod's scheduler is not the default one, or where that one is silent."""
    pod, decision = case.pod, case.decision
    if decision.gates or decision.held or not case.view.nodes:
        return
    silent = not pod.status.unschedulable_reason and not _young(case)
    if pod.scheduler_name == DEFAULT_NAME or pod.scheduler_name in case.view.snapshot.schedulers:
        if silent and _old(case) and not pod.status.nominated_node:
            yield _default_silent(case)
    elif silent and not _served(case):
        yield _nobody(case)
    else:
        yield _anothers(case)


def _anothers(case: Case) -> Reason:
    name = case.pod.scheduler_name
    description = f" ({_SCHEDULERS[name][0]})" if name in _SCHEDULERS else ""
    message = f"placed by {name}{description}; what follows is what the default scheduler would do"
    return OtherScheduler(
        subject=f"Pod {case.pod.namespace}/{case.pod.name}",
        message=message,
        remedy=f"ask {name}",
        source=_SOURCE,
        scheduler=name,
    )


def _nobody(case: Case) -> Reason:
    name = case.pod.scheduler_name
    names = [DEFAULT_NAME, *_SCHEDULERS, *{p.scheduler_name for p in case.view.snapshot.pods if p.node_name}]
    near = get_close_matches(name, names, n=1, cutoff=0.75)
    remedy = f"start the scheduler {name}, or leave schedulerName out"
    if name in _NO_SCHEDULER:
        remedy = _NO_SCHEDULER[name]
    elif name in _SCHEDULERS:
        whose, pods = _SCHEDULERS[name]
        remedy = f"install or start {whose} (kubectl get pods -A shows no {pods} that runs)"
    elif near:
        remedy = f"use {near[0]} if you meant that"
    message = (
        f"no scheduler named {name} is visible: none has reported on this pod, none of its pods has a "
        "node, and no running pod has that name"
    )
    return _silent(case, message, remedy)


def _default_silent(case: Case) -> Reason:
    created = case.pod.created
    since = f" since {utc(created)}" if created else ""
    fits = f"; it would fit {case.decision.chosen}" if case.decision.chosen else ""
    message = (
        f"no scheduler has reported on this pod, which waits{since}: kube-scheduler may not be running{fits}"
    )
    remedy = "check it: kubectl get pods -n kube-system -l component=kube-scheduler, and read its log"
    return _silent(case, message, remedy, lasting=False)


def _served(case: Case) -> bool:
    """Whether something shows that the pod's scheduler is, or was, at work."""
    name = case.pod.scheduler_name
    marker = _SCHEDULERS[name][1] if name in _SCHEDULERS else name
    return any(
        (pod.scheduler_name == name and (pod.node_name or pod.status.unschedulable_reason))
        or (pod.scheduler_name != name and pod.status.phase == "Running" and _goes_by(pod, marker))
        for pod in case.view.snapshot.pods
    )


def _goes_by(pod: Pod, marker: str) -> bool:
    return marker in pod.name or marker in pod.labels.values() or pod.namespace == marker


def _young(case: Case) -> bool:
    """Whether it is known that the pod has hardly waited yet."""
    now, created = case.view.snapshot.now, case.pod.created
    return now is not None and created is not None and now - created < _SOON


def _old(case: Case) -> bool:
    return case.view.snapshot.now is not None and case.pod.created is not None and not _young(case)


def _silent(case: Case, message: str, remedy: str, *, lasting: bool = True) -> Reason:
    return SchedulerSilent(
        subject=f"Pod {case.pod.namespace}/{case.pod.name}",
        message=message,
        remedy=remedy,
        source=_SOURCE,
        lasting=lasting,
        scheduler=case.pod.scheduler_name,
    )
