"""Claims and slices of a changed cluster: what goes with nodes and pods, and what new pods are given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tonnage.decide.kubernetes.claims.allocator import (
    AllocationUnknown,
    Allocator,
    AllocatorError,
    ClaimDevices,
    NodeCannotAllocate,
)
from tonnage.decide.kubernetes.claims.extended_resources import claim_on
from tonnage.decide.kubernetes.claims.pod_claims import claims_of
from tonnage.diagnose.explain.template_claims import with_made_claims
from tonnage.diagnose.simulate.changed_cluster import Fork, WaitingPod
from tonnage.model.errors import Problem
from tonnage.model.kubernetes.cluster import Node, Pod, Snapshot
from tonnage.model.kubernetes.resource_claims import (
    AllocatedDevice,
    ClaimAllocation,
    Consumer,
    NodeScope,
    ResourceClaim,
    ResourceSlice,
)
from tonnage.model.kubernetes.selectors import NodeSelectorTerm, Requirement

_NVIDIA: Final = "gpu.nvidia.com"
_NOT_DERIVED: Final = "its GPUs change; simulate does not derive what its DRA driver would publish"


def snapshot_after(fork: Fork) -> Snapshot:
    """The cluster's slices and claims after the changes; claims of pods that wait are made from templates."""
    snapshot = fork.base.snapshot
    templates = Snapshot(claim_templates=snapshot.claim_templates)
    made: list[ResourceClaim] = []
    queue: list[WaitingPod] = []
    for candidate in fork.queue:
        pod = candidate.pod
        if candidate.node and pod.claims:
            entries = tuple(replace(e, made="") if e.template else e for e in pod.claims)
            pod = replace(pod, claims=entries)
        pod, with_claims = with_made_claims(pod, templates)
        made += with_claims.claims
        queue.append(replace(candidate, pod=pod))
    fork.queue = queue
    claims = tuple(_claims_left(fork))
    return replace(snapshot, slices=tuple(_slices(fork)), claims=(*claims, *made))


def give_devices(pod: Pod, node: Node, allocator: Allocator) -> str:
    """Give the pod's claims their devices on the node; what hides which these are, in words, or nothing."""
    supply = allocator.supply
    waiting = claims_of(pod, supply.claims).waiting
    if (by_count := claim_on(pod, node, supply)) is not None:
        waiting = (*waiting, by_count)
    if not waiting:
        return ""
    answer = allocator.on(node, waiting)
    match answer:
        case AllocationUnknown(cause) | AllocatorError(cause):
            return cause
        case NodeCannotAllocate():
            return "the devices of its claims"
        case ClaimDevices(devices):
            pass
    here = NodeSelectorTerm(fields=(Requirement("metadata.name", "In", (node.name,)),))
    allocated: list[ResourceClaim] = []
    for claim, picked in zip(waiting, devices, strict=True):
        pools = {(entry.id.driver, entry.id.pool) for entry in picked}
        slices = [part for pool in pools for part in supply.by_pool.get(pool, ())]
        own = any(part.scope is not None and part.scope.name for part in slices)
        chosen = tuple(
            AllocatedDevice(
                *(entry.request, entry.id, entry.admin),
                *(("",) if entry.consumed is None else (f"{claim}-{place}", entry.consumed)),
            )
            for place, entry in enumerate(picked)
        )
        allocation = ClaimAllocation(chosen, (here,) if own else None)
        users = (*claim.reserved_for, Consumer(pod.uid, pod.name))
        allocated.append(replace(claim, allocation=allocation, reserved_for=users))
    allocator.put(allocated)
    return ""


def _claims_left(fork: Fork) -> Iterator[ResourceClaim]:
    """Claims without those made for pods that are gone; who has no user any more gives its devices back."""
    gone = [candidate.pod for candidate in (*fork.queue, *fork.lost) if candidate.node] + fork.left
    uids = {pod.uid for pod in gone if pod.uid}
    if not uids:
        yield from fork.base.snapshot.claims
        return
    for claim in fork.base.snapshot.claims:
        if claim.owner in uids:
            continue
        users = tuple(user for user in claim.reserved_for if user.uid not in uids)
        if users == claim.reserved_for:
            yield claim
        else:
            yield replace(claim, reserved_for=users, allocation=claim.allocation if users else None)


def _slices(fork: Fork) -> Iterator[ResourceSlice]:
    """Slices without those of nodes that are gone, and with those of nodes that are like others."""
    twins: dict[str, list[str]] = {}
    for name, like in fork.copied.items():
        if fork.is_new(name):
            twins.setdefault(like, []).append(name)
    for resource_slice in fork.base.snapshot.slices:
        scope = resource_slice.scope or NodeScope()
        if scope.name in fork.nodes and fork.nodes[scope.name] is None:
            continue
        reset = scope.name in fork.node_gpus and scope.name in fork.nodes and resource_slice.driver == _NVIDIA
        yield (
            replace(
                resource_slice,
                problems=(*resource_slice.problems, Problem(_NOT_DERIVED, resource_slice.name)),
            )
            if reset
            else resource_slice
        )
        for name in twins.get(scope.name, ()):
            pool = name if resource_slice.pool == scope.name else f"{resource_slice.pool}-{name}"
            yield replace(
                resource_slice,
                name=f"{resource_slice.name}-{name}",
                pool=pool,
                scope=replace(scope, name=name),
            )
