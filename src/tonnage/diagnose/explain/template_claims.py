"""The claims that would be made for a pod that is not there yet, out of their templates."""

from __future__ import annotations

from dataclasses import replace

from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.model.kubernetes.resource_claims import ClaimTemplate, PodClaim, ResourceClaim


def with_made_claims(pod: Pod, snapshot: Snapshot) -> tuple[Pod, Snapshot]:
    """The pod and the cluster as they would be once every claim that has a template is made."""
    templates = {(t.namespace, t.name): t for t in snapshot.claim_templates}
    entries: list[PodClaim] = []
    made: list[ResourceClaim] = []
    for entry in pod.claims:
        template = templates.get((pod.namespace, entry.template)) if entry.template else None
        if template is None or entry.made:
            entries.append(entry)
            continue
        claim = _made(pod, entry, template)
        made.append(claim)
        entries.append(replace(entry, made=claim.name))
    if not made:
        return pod, snapshot
    return replace(pod, claims=tuple(entries)), replace(snapshot, claims=(*snapshot.claims, *made))


def _made(pod: Pod, entry: PodClaim, template: ClaimTemplate) -> ResourceClaim:
    """As kube-controller-manager names it, but for the random part at the end."""
    name = f"{pod.name}-{entry.name}-"
    return ResourceClaim(
        pod.namespace,
        name,
        requests=template.requests,
        constraints=template.constraints,
        owner=pod.uid,
        problems=template.problems,
    )
