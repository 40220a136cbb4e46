"""Remedies of objects that exist, of which the API server changes some fields no more.

Source: Kubernetes' ValidatePodUpdate and ValidateJobUpdate.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.verdict import Explanation, Remedy

_MAY_CHANGE: Final = frozenset({"tolerations", "activeDeadlineSeconds", "terminationGracePeriodSeconds"})


def with_ways_to_change(explanation: Explanation, pod: Pod | None = None) -> Explanation:
    """The explanation of a pod or Job that exists; remedies whose patch would be refused say what to do."""
    if pod is not None and pod.gates:
        return explanation  # it may yet be narrowed
    way = _way(explanation.subject.kind, pod)
    remedies = tuple(
        replace(remedy, effect=f"{remedy.effect}; {way}" if remedy.effect else way)
        if way and _refused(explanation.subject.kind, remedy)
        else remedy
        for remedy in explanation.remedies
    )
    return replace(explanation, remedies=remedies)


def _way(kind: str, pod: Pod | None) -> str:
    if kind == "Job":
        return "delete the Job and create it again so: the template of a Job cannot be changed"
    if pod is None:
        return ""
    again = "change its workload" if pod.owner is not None else "delete the pod and create it again so"
    return f"{again}: the API server refuses this on a pod that exists"


def _refused(kind: str, remedy: Remedy) -> bool:
    spec = remedy.patch.get("spec")
    if not isinstance(spec, dict):
        return False
    return "template" in spec if kind == "Job" else bool(spec.keys() - _MAY_CHANGE)
