"""ResourceQuotaScope: which pods and other objects a quota with scopes counts.

Source: k8s.io/kubernetes pkg/quota/v1/evaluator/core (pods.go, podMatchesScopeFunc;
persistent_volume_claims.go, pvcMatchesScopeFunc), 1.35.
"""

from __future__ import annotations

from tonnage.decide.kubernetes.admission.object_charges import CLAIM, Resource
from tonnage.decide.kubernetes.admission.written_pod import mapping
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Pod, PodTerm
from tonnage.model.kubernetes.policies import Quota, QuotaScope

_COMPUTE = ("cpu", "memory")
_ATTRIBUTES = "VolumeAttributesClass"


def counts(quota: Quota, pod: Pod) -> bool:
    """Whether the pod matches all scopes of the quota; one without scopes counts every pod."""
    return all(_matches(scope, pod) for scope in quota.scopes)


def counts_object(quota: Quota, resource: Resource, obj: JsonObject) -> bool:
    """Whether an object that is no pod matches all scopes of the quota; no scope but one is about such."""
    return all(
        resource == CLAIM
        and scope.name == _ATTRIBUTES
        and any(_of_class(scope, name) for name in _attribute_classes(obj))
        for scope in quota.scopes
    )


def _attribute_classes(claim: JsonObject) -> set[str]:
    """The VolumeAttributesClasses that a claim asks for, has and is being given; the empty name of none."""
    spec, status = mapping(claim.get("spec")), mapping(claim.get("status"))
    names = (
        spec.get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        mapping(status.get("modifyVolumeStatus")).get("targetVolumeAttributesClassName"),
    )
    return {str(name) for name in names if name} or {""}


def _matches(scope: QuotaScope, pod: Pod) -> bool:
    match scope.name:
        case "Terminating":
            return pod.deadline_s is not None
        case "NotTerminating":
            return pod.deadline_s is None
        case "BestEffort":
            return _best_effort(pod)
        case "NotBestEffort":
            return not _best_effort(pod)
        case "PriorityClass":
            return _of_class(scope, pod.priority_class)
        case "CrossNamespacePodAffinity":
            weighed = (preferred.term for preferred in pod.affinity.pods_preferred)
            terms = (*pod.affinity.pods, *pod.affinity.anti, *weighed)
            return any(_crosses(term) for term in terms)
        case _:  # The one of volume claims.
            return False


def _of_class(scope: QuotaScope, name: str) -> bool:
    match scope.operator:
        case "In":
            return name in scope.values and bool(name)
        case "NotIn":
            return name not in scope.values
        case "DoesNotExist":
            return not name
        case _:
            return bool(name)


def _crosses(term: PodTerm) -> bool:
    return bool(term.namespaces) or term.namespace_selector is not None


def _best_effort(pod: Pod) -> bool:
    """No container asks for, or is limited in, cpu or memory, nor does the pod as a whole."""
    parts = [pod.pod_requests, pod.pod_limits]
    for container in (*pod.containers, *pod.init_containers):
        parts += [container.requests, container.limits]
    return not any(part.get(name, 0) > 0 for part in parts for name in _COMPUTE)
