"""VolumeRestrictions: a disk that a pod of the node has, or a volume of one pod at a time that another has.

Who has the latter is counted anew where pods are thought away or to a node, by the claim's name in any
namespace.

Source: kube-scheduler 1.35 plugins/volumerestrictions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from tonnage.decide.kubernetes.scheduler.refusal import Check, PluginRefusal
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.reasons.pod.volumes import VolumeInUse
from tonnage.model.reasons.reason import Reason

NAME: Final = "VolumeRestrictions"
DISK_IN_USE: Final = "node(s) had no available disk"
TEXT: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
    "another pod"
)
_ALONE: Final = "ReadWriteOncePod"


def prepare(pod: Pod, view: ClusterView) -> Check | None:
    """Refuse nodes with a pod that has one of the disks, and all while another pod has a claim to itself."""
    alone = _alone(pod, view)

    def check(node: NodeView) -> PluginRefusal | None:
        holder = next((other for other in node.pods if share_disk(pod, other)), None)
        if holder is not None:
            reason = _disk_in_use(node.name, pod, holder)
            return PluginRefusal(NAME, (DISK_IN_USE,), unresolvable=False, reasons=(reason,))
        return alone(node) if alone is not None else None

    return check if pod.disks else alone


def share_disk(pod: Pod, other: Pod) -> bool:
    """Whether pods cannot be on one node for a disk that both name."""
    return any(
        own.source == theirs.source
        and not own.ids.isdisjoint(theirs.ids)
        and not (own.read_only and theirs.read_only)
        for own in pod.disks
        for theirs in other.disks
    )


def _alone(pod: Pod, view: ClusterView) -> Check | None:
    """Refuse every node while another pod has a claim that is for one pod at a time."""
    claim_names = frozenset(volume.claim for volume in pod.volumes if not volume.ephemeral)
    volume_claims = view.snapshot.volume_claims if claim_names else ()
    alone = {
        claim.name
        for claim in volume_claims
        if claim.namespace == pod.namespace and claim.name in claim_names and _ALONE in claim.modes
    }
    if not alone:
        return None
    users = {
        name: other
        for node in view.nodes.values()
        for other in (node.origin or node).pods
        if other.volumes and other.namespace == pod.namespace
        for name in _used(other, alone)
    }
    if not users or len(users) + sum(_change(node, alone) for node in view.nodes.values()) <= 0:
        return None

    def check(node: NodeView) -> PluginRefusal | None:
        reasons = tuple(_reason(node.name, name, user) for name, user in sorted(users.items()))
        return PluginRefusal(NAME, (TEXT,), unresolvable=False, reasons=reasons)

    return check


def _used(pod: Pod, alone: Iterable[str]) -> list[str]:
    return [volume.claim for volume in pod.volumes if not volume.ephemeral and volume.claim in alone]


def _change(node: NodeView, alone: Iterable[str]) -> int:
    """By how many uses a node has more than the cycle found there."""
    if node.origin is None:
        return 0
    now, before = (sum(len(_used(pod, alone)) for pod in view.pods) for view in (node, node.origin))
    return now - before


def _disk_in_use(node: str, pod: Pod, holder: Pod) -> Reason:
    disks = [disk.volume for disk in pod.disks if share_disk(replace(pod, disks=(disk,)), holder)]
    return VolumeInUse(
        subject=f"Node {node}",
        message=f"{holder.namespace}/{holder.name} has the disk of the volume {disks[0]} there",
        remedy=f"wait for {holder.name} to end, use another node, or let both only read the disk",
        source=NAME,
        volume=disks[0],
        user=f"{holder.namespace}/{holder.name}",
    )


def _reason(node: str, claim: str, user: Pod) -> Reason:
    return VolumeInUse(
        subject=f"Node {node}",
        message=f"the volume of the claim {claim} is for one pod at a time, and "
        f"{user.namespace}/{user.name} has it",
        remedy=f"wait for {user.name} to end, or use a claim of its own",
        source=NAME,
        claim=claim,
        user=f"{user.namespace}/{user.name}",
    )
