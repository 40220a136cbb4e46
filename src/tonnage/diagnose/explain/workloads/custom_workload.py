"""Why an object of a custom kind has not the pods that it should have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tonnage.diagnose.explain.workloads.missing_pods import explain_family
from tonnage.diagnose.explain.workloads.pods import Family, family_of
from tonnage.model.kubernetes.cluster import Manifest, Pod, Snapshot
from tonnage.model.kubernetes.selectors import Labels
from tonnage.model.kubernetes.workloads import WorkloadKey, WorkloadState
from tonnage.model.verdict import Explanation, Verdict


def custom_family(key: WorkloadKey, snapshot: Snapshot, labels: Iterable[Labels] = ()) -> Family:
    """An object with its pods: those that its owners lead to, and those with all of some of the labels."""
    family = family_of(WorkloadState(key), snapshot)
    alternatives = [some for some in labels if some]
    of_owners = {pod.key for pod in family.pods}
    labelled = (
        pod
        for pod in snapshot.pods
        if pod.namespace == key.namespace
        and pod.key not in of_owners
        and any(some.items() <= pod.labels.items() for some in alternatives)
    )
    return replace(family, pods=(*family.pods, *labelled))


def explain_custom(
    family: Family,
    manifests: Sequence[Manifest],
    snapshot: Snapshot,
    *,
    version: str = "",
    ended: bool = False,
) -> Explanation:
    """The explanation of a custom workload. `manifests`: one for each of its pod templates; none where only
    its controller knows how many pods there should be. `ended`: it makes no more pods.
    """
    finished = sum(pod.finished for pod in family.pods)
    planned = sum(manifest.replicas for manifest in manifests)
    counted = bool(manifests) and not ended and (planned == 0 or finished < planned)
    desired = max(len(family.living), planned - finished) if counted else None
    family = replace(family, head=replace(family.head, desired=desired))
    key = family.head.key
    pods = family.pods or (Pod(name=key.name, namespace=key.namespace),)
    short = max(manifests, key=lambda m: _lacking(m, family.pods), default=None)
    manifest = short or Manifest(key.kind, key.name, pods[0])
    explanation = explain_family(family, manifest, snapshot, version=version, custom=True)
    if not explanation.verdict.good or family.living or not (ended or finished):
        return explanation
    message = f"{finished} of {len(family.pods)} pods have ended" if finished else "it has ended"
    return replace(explanation, verdict=Verdict.ENDED, message=message)


def _lacking(manifest: Manifest, pods: Iterable[Pod]) -> int:
    """How many pods of a template do not exist."""
    labels = manifest.pod_set.labels if manifest.pod_set is not None else {}
    return manifest.replicas - sum(labels.items() <= pod.labels.items() for pod in pods)
