"""The claims that would be made for a pod that is not there yet, out of their templates."""

from __future__ import annotations

from dataclasses import replace

from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.model.kubernetes.resource_claims import ClaimTemplate, PodClaim, ResourceClaim


def with_made_claims(pod: Pod, snapshot: Snapshot) -> tuple[Pod, Snapshot]:
    """The pod and the cluster as they would be once every claim that has a template is made."""
    templates = {(t.namespace, t.name): t for t in snapshot.claim_templates}
    pod_claims: list[PodClaim] = []
    made: list[ResourceClaim] = []
    for pod_claim in pod.claims:
        template = templates.get((pod.namespace, pod_claim.template)) if pod_claim.template else None
        if template is None or pod_claim.made:
            pod_claims.append(pod_claim)
            continue
        claim = _made(pod, pod_claim, template)
        made.append(claim)
        pod_claims.append(replace(pod_claim, made=claim.name))
    if not made:
        return pod, snapshot
    return replace(pod, claims=tuple(pod_claims)), replace(snapshot, claims=(*snapshot.claims, *made))


def _made(pod: Pod, pod_claim: PodClaim, template: ClaimTemplate) -> ResourceClaim:
    """As kube-controller-manager names it, but for the random part at the end."""
    name = f"{pod.name}-{pod_claim.name}-"
    return ResourceClaim(
        pod.namespace,
        name,
        requests=template.requests,
        constraints=template.constraints,
        owner=pod.uid,
        problems=template.problems,
    )
