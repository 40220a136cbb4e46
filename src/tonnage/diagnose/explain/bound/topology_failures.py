"""KUB-3, afterwards: a pod failed with `TopologyAffinityError`, and what the next one should ask for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tonnage.decide.kubernetes.kubelet.admission import KubeletUnknown, devices_of, layout_of, needs_of
from tonnage.decide.kubernetes.kubelet.topology_manager import REASON
from tonnage.decide.kubernetes.view import view_of
from tonnage.diagnose.explain.nodes.alignment import aligned_remedies, requested_devices
from tonnage.model.kubernetes.cluster import Pod, PodStatus, Snapshot
from tonnage.model.reasons.messages.symptoms import TopologyAffinity
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import Remedy


def not_aligned(pod: Pod, snapshot: Snapshot) -> Reason | None:
    """What happened, with the node's NUMA nodes as they are now; None for a pod that ended otherwise."""
    if pod.status.reason != REASON:
        return None
    status = snapshot.gpu.get(pod.node_name)
    policies = status.software.policies if status is not None else None
    policy = f" {policies.topology_manager}" if policies is not None else ""
    layout = _layout(pod, snapshot)
    shown = f"; there now: {'; '.join(layout)}" if layout else "; Tonnage does not know its NUMA nodes"
    owner = pod.owner
    after = (
        f"its {owner.kind} {owner.name} creates a new one, which fails the same way"
        if owner is not None
        else "no controller creates a new one"
    )
    return TopologyAffinity(
        subject=f"Pod {pod.namespace}/{pod.name}",
        message=f"failed on {pod.node_name} ({REASON}): kubelet's topology manager{policy} could not align "
        f"{requested_devices(pod) or 'its CPUs and memory'} on the node's NUMA nodes{shown}. "
        f"It is not scheduled again: {after}",
        remedy="ask for no more devices and CPUs than one NUMA node has, or relax the node's "
        "topologyManagerPolicy; "
        "then delete the pod",
        source="Pod status.reason, NodeGPUStatus",
        reason=REASON,
        policy=policies.topology_manager if policies is not None else "unknown",
        numa=tuple(layout),
    )


def for_the_next(pod: Pod, snapshot: Snapshot) -> Iterator[Remedy]:
    """What makes scheduler and kubelet take a pod like this one now, tried on the engine."""
    view = view_of(snapshot)
    if pod.node_name in view.nodes and needs_of(pod):
        again = replace(pod, node_name="", status=PodStatus(), uid="")
        yield from aligned_remedies(again, pod.node_name, view)


def _layout(pod: Pod, snapshot: Snapshot) -> tuple[str, ...]:
    status = snapshot.gpu.get(pod.node_name)
    node = view_of(replace(snapshot, nodes=tuple(n for n in snapshot.nodes if n.name == pod.node_name)))
    if status is None or pod.node_name not in node.nodes:
        return ()
    supply = devices_of(status, node.nodes[pod.node_name])
    return () if isinstance(supply, KubeletUnknown) else layout_of(supply, needs_of(pod))
