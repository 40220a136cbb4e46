"""DynamicResources: devices for the pod's claims, or reach of the devices that they have."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

from tonnage.decide.kubernetes.claims.alike import kind_on
from tonnage.decide.kubernetes.claims.allocator import (
    AllocationAnswer,
    AllocationUnknown,
    AllocatorError,
    ClaimDevices,
    NodeCannotAllocate,
)
from tonnage.decide.kubernetes.claims.extended_resources import backed_by_classes, claim_on
from tonnage.decide.kubernetes.claims.pod_claims import PodClaims, claims_of
from tonnage.decide.kubernetes.matching import term_matches
from tonnage.decide.kubernetes.scheduler.refusal import Check, PluginRefusal
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.model.kubernetes.cluster import Node, Pod
from tonnage.model.kubernetes.resource_claims import ResourceClaim
from tonnage.model.reasons.pod.claims import ClaimElsewhere, ClaimError, ClaimNotAllocatable
from tonnage.model.reasons.pod.pods import NotModelled
from tonnage.model.reasons.reason import Reason

NAME: Final = "DynamicResources"
CANNOT_ALLOCATE: Final = "cannot allocate all claims"
NOT_THERE: Final = "resourceclaim not available on the node"


def prepare(pod: Pod, view: ClusterView) -> Check | None:
    """Refuse nodes that cannot give the claims without devices some, or cannot reach those of the others."""
    if not view.profile.allocates:
        return None
    by_class = bool(backed_by_classes(pod, view.supply))
    claims = claims_of(pod, view.supply.claims)
    if not claims.claims and not by_class:
        return None

    refusals: dict[Hashable, AllocationAnswer] = {}

    def answer_of(node: Node, waiting: tuple[ResourceClaim, ...]) -> AllocationAnswer:
        """The allocator's answer; a refusal is that of every node whose devices are alike."""
        kind = kind_on(node, waiting, view.supply) if by_class else None
        if kind in refusals:
            return refusals[kind]
        answer = view.allocator.on(node, waiting)
        if kind is not None and isinstance(answer, NodeCannotAllocate):
            refusals[kind] = answer
        return answer

    def check(node: NodeView) -> PluginRefusal | None:
        waiting = claims.waiting
        if by_class and (own := claim_on(pod, node.node, view.supply)) is not None:
            waiting = (*waiting, own)
        if waiting:
            answer = answer_of(node.node, waiting)
            if not isinstance(answer, ClaimDevices):
                return _refused(waiting, answer, node)
        away = unreachable(claims, node)
        if not away:
            return None
        reasons = tuple(_elsewhere(claim, node) for claim in away)
        return PluginRefusal(NAME, (NOT_THERE,), unresolvable=True, reasons=reasons)

    return check


def freed_by(
    pod: Pod, refusals: Iterable[PluginRefusal], claims: tuple[ResourceClaim, ...]
) -> ResourceClaim | None:
    """The claim that such refusals make the scheduler free: one that nobody else uses."""
    reasons = (reason for refusal in refusals for reason in refusal.reasons)
    away = {reason.claim for reason in reasons if isinstance(reason, ClaimElsewhere)}
    freed = (claim for claim in claims if str(claim) in away)
    return next(
        (candidate for candidate in freed if {user.uid for user in candidate.reserved_for} <= {pod.uid}), None
    )


def unreachable(claims: PodClaims, node: NodeView) -> tuple[ResourceClaim, ...]:
    """Claims whose devices a node does not reach."""
    return tuple(
        claim
        for claim in claims.claims
        if claim.allocation is not None
        and claim.allocation.nodes is not None
        and not any(term_matches(term, node.node) for term in claim.allocation.nodes)
    )


def _refused(
    waiting: tuple[ResourceClaim, ...],
    answer: AllocatorError | NodeCannotAllocate | AllocationUnknown,
    node: NodeView,
) -> PluginRefusal:
    names = tuple(str(claim) for claim in waiting)
    reason: Reason
    if isinstance(answer, AllocatorError):
        reason = ClaimError(
            subject=f"Node {node.name}",
            message=f"{answer.upstream_message} (it fails the pod on every node)",
            remedy="correct the claim or the class",
            source=NAME,
            claims=names,
            error=answer.upstream_message,
        )
        text = f'running "{NAME}" filter plugin: {answer.upstream_message}'
        return PluginRefusal(NAME, (text,), unresolvable=True, reasons=(reason,), fatal=True)
    if isinstance(answer, AllocationUnknown):
        reason = NotModelled(
            subject=f"Node {node.name}",
            message=f"not decided here: {answer.cause}",
            source=NAME,
            lasting=False,
            claims=names,
        )
        return PluginRefusal(NAME, (), unresolvable=True, reasons=(reason,), unknown=answer.cause)
    message = answer.upstream_message or f"no devices on it meet {', '.join(names)}"
    reason = ClaimNotAllocatable(
        subject=f"Node {node.name}",
        message=message,
        remedy="see what its slices offer: kubectl get resourceslices -o yaml",
        source=NAME,
        claims=names,
    )
    text = answer.upstream_message or CANNOT_ALLOCATE
    return PluginRefusal(NAME, (text,), unresolvable=True, reasons=(reason,))


def _elsewhere(claim: ResourceClaim, node: NodeView) -> Reason:
    devices = tuple(str(device.id) for device in claim.allocation.devices) if claim.allocation else ()
    users = tuple(consumer.name for consumer in claim.reserved_for)
    return ClaimElsewhere(
        subject=f"Node {node.name}",
        message=f"the claim {claim} has {', '.join(devices)}, which this node does not reach",
        remedy="use a claim of its own for each pod: a ResourceClaimTemplate",
        source=NAME,
        claim=str(claim),
        devices=devices,
        reserved_for=users,
    )
