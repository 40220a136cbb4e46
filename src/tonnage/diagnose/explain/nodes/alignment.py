"""KUB-3: what the kubelets of nodes that the scheduler would take say, and what helps, as tried."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tonnage.decide.kubernetes.kubelet.admission import (
    Aligned,
    KubeletUnknown,
    NotAligned,
    alignment_matters,
    ask_kubelet,
    needs_of,
)
from tonnage.decide.kubernetes.kubelet.topology_manager import REASON, TopologyPolicy
from tonnage.decide.kubernetes.scheduler.scheduling import schedule_on
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.diagnose.endless_pods import end_or_wait
from tonnage.diagnose.remedies.edits_by_reason import shrink
from tonnage.diagnose.remedies.patch import patch_of
from tonnage.diagnose.sibling_pods import is_remade
from tonnage.diagnose.wording import own
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.kubernetes.selectors import NodeSelectorTerm, Requirement
from tonnage.model.name_lists import listed
from tonnage.model.node.gpu_status import GpuStatus
from tonnage.model.node.software import KubeletPolicies
from tonnage.model.reasons.messages.symptoms import TopologyAffinity
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import Remedy

HOSTNAME: Final = "kubernetes.io/hostname"
_MOST_ASKED: Final = 32
_MOST_NODES: Final = 256
_POLICY_FILE: Final = "kubelet's configuration"


def kubelet_reasons(pod: Pod, node: NodeView, view: ClusterView) -> tuple[TopologyAffinity, ...]:
    """Why the node's kubelet would not take a pod that the scheduler puts there; nothing if not known."""
    if sum(sum(need.resources.values()) for need in needs_of(pod)) < 2:
        return ()  # a free device is aligned with itself
    status = view.snapshot.gpu.get(node.name)
    answer = ask_kubelet(pod, node, status)
    idle = isinstance(answer, KubeletUnknown) and len(needs_of(pod)) == 1
    if idle:  # which devices are free is not known, and fewer never help one container
        answer = ask_kubelet(pod, NodeView(node.node), status)
    if not isinstance(answer, NotAligned):
        return ()
    layout = ("even if the node were idle", *answer.layout) if idle else answer.layout
    message = f"its kubelet would fail the pod with {REASON}: {requested_devices(pod)} {_in_vain(answer)}"
    remedy = "ask for no more than one NUMA node has, or relax kubelet's topologyManagerPolicy there"
    return (
        TopologyAffinity(
            subject=f"Node {node.name}",
            message=f"{message}; {'; '.join(layout)}",
            remedy=remedy,
            source="NodeGPUStatus, kubelet's topology manager",
            lasting=answer.lasting,
            policy=answer.policy.value,
            scope=answer.scope.value,
            numa=tuple(answer.layout),
            most=dict(answer.most),
        ),
    )


def refuses(pod: Pod, node: NodeView, view: ClusterView) -> bool:
    """Whether the node's kubelet would not take the pod, or would not when idle and nobody knows of now."""
    if kubelet_reasons(pod, node, view):
        return True
    answer = ask_kubelet(pod, node, view.snapshot.gpu.get(node.name))
    return isinstance(answer, KubeletUnknown) and bool(behind(pod, node, view))


def behind(pod: Pod, node: NodeView, view: ClusterView) -> tuple[Reason, ...]:
    """Why the kubelet would not take the pod either, once the node is free."""
    reasons = kubelet_reasons(pod, NodeView(node.node), view)
    return tuple(replace(reason, hidden=True) for reason in reasons)


def requested_devices(pod: Pod) -> str:
    """The devices that a pod's containers ask for, in words: `4 nvidia.com/gpu`, `2 + 2 nvidia.com/gpu`."""
    amounts: dict[str, list[int]] = {}
    for need in needs_of(pod):
        for name, count in need.resources.items():
            amounts.setdefault(name, []).append(count)
    return ", ".join(f"{' + '.join(map(str, counts))} {name}" for name, counts in sorted(amounts.items()))


def _in_vain(answer: NotAligned) -> str:
    together = "together" if answer.scope.value == "pod" else "for a container"
    if answer.policy is TopologyPolicy.SINGLE_NUMA_NODE:
        where = "no single NUMA node"
    else:
        where = "no set of NUMA nodes as small as an idle node needs"
    return f"fit {where} {together} (topologyManagerPolicy {answer.policy}, scope {answer.scope})"


def alignment_unknown(pod: Pod, node: NodeView, status: GpuStatus | None) -> str:
    """What is not known of whether the node's kubelet takes the pod; empty when nothing bears on it."""
    if not alignment_matters(pod):
        return ""
    match ask_kubelet(pod, node, status):
        case KubeletUnknown(why):
            devices = requested_devices(pod)
            return f"Tonnage cannot tell whether its kubelet can align {devices} on NUMA nodes: {why}"
        case Aligned(unless) if unless:
            return (
                f"its kubelet can align {requested_devices(pod)}; Tonnage cannot tell what its {unless} says"
            )
        case _:
            return ""


def takers(pod: Pod, names: tuple[str, ...], view: ClusterView) -> tuple[str, ...]:
    """Those of some nodes whose kubelet would let the pod in."""
    return tuple(
        name
        for name in names[:_MOST_NODES]
        if isinstance(ask_kubelet(pod, view.nodes[name], view.snapshot.gpu.get(name)), Aligned)
    )


def aligned_remedies(pod: Pod, node: str, view: ClusterView) -> Iterator[Remedy]:
    """What makes scheduler and a kubelet take a pod that the kubelet of `node` refuses; each was tried."""
    elsewhere = _elsewhere(pod, node, view)
    if elsewhere is not None:
        yield elsewhere
    smaller = _smaller(pod, view)
    if smaller is not None:
        yield smaller
    waiting = _waiting(pod, node, view)
    if waiting is not None:
        yield waiting
    yield from _relaxed(pod, node, view)


def _placed(pod: Pod, view: ClusterView) -> str | None:
    """Where the pod goes, if the kubelet there is known to take it."""
    chosen = schedule_on(pod, view).chosen
    return chosen if chosen is not None and takers(pod, (chosen,), view) else None


def _elsewhere(pod: Pod, node: str, view: ClusterView) -> Remedy | None:
    feasible = schedule_on(pod, view).feasible
    for name in takers(pod, tuple(n for n in feasible if n != node), view):
        pinned = _pinned(pod, name)
        if view.nodes[name].node.labels.get(HOSTNAME) and _placed(pinned, view) == name:
            action = f"require the node {name}, whose kubelet can align them"
            return Remedy(action, f"fits {name}", patch_of(pod, pinned), pinned)
    return None


def _pinned(pod: Pod, name: str) -> Pod:
    here = Requirement(HOSTNAME, "In", (name,))
    terms = pod.affinity.node or (NodeSelectorTerm(),)
    narrowed = tuple(replace(term, expressions=(*term.expressions, here)) for term in terms)
    return replace(pod, affinity=replace(pod.affinity, node=narrowed))


def _smaller(pod: Pod, view: ClusterView) -> Remedy | None:
    """The largest smaller number of devices that a node takes; of a pod with one container that asks."""
    for resource in sorted({name for need in needs_of(pod) for name in need.resources}):
        most = max(need.resources.get(resource, 0) for need in needs_of(pod))
        for count in range(min(most - 1, _MOST_ASKED), 0, -1):
            edit = shrink(pod, resource, count)
            if edit is None:
                break
            fewer = edit.on_pod(pod)
            placed = _placed(fewer, view)
            if placed is not None:
                return Remedy(edit.action, f"fits {placed}", patch_of(pod, fewer), fewer)
    return None


def _waiting(pod: Pod, node: str, view: ClusterView) -> Remedy | None:
    """One pod of the node whose end is enough."""
    here = view.nodes[node]
    for holder in sorted(here.pods, key=lambda p: p.key):
        if not needs_of(holder) or is_remade(holder, pod):
            continue
        freed = view.with_node(here.without((holder,)))
        if takers(pod, (node,), freed):
            name = own(f"{holder.namespace}/{holder.name}", pod.namespace)
            return Remedy(end_or_wait(f"{name} on {node}", (holder,), 1), f"fits {node}")
    return None


def _relaxed(pod: Pod, node: str, view: ClusterView) -> Iterator[Remedy]:
    """The strictest policy with which the node's kubelet would take the pod."""
    status = view.snapshot.gpu.get(node)
    if status is None:
        return
    for policy in (TopologyPolicy.RESTRICTED, TopologyPolicy.BEST_EFFORT):
        policies: KubeletPolicies = replace(status.software.policies, topology_manager=policy.value)
        relaxed = replace(status, software=replace(status.software, policies=policies))
        if isinstance(ask_kubelet(pod, view.nodes[node], relaxed), Aligned):
            action = f"set topologyManagerPolicy: {policy} in {_POLICY_FILE} of {node} and restart it"
            slower = "; its devices may then be on different NUMA nodes, which is slower"
            yield Remedy(action, f"fits {node}{slower}")
            return


def who_takes(names: tuple[str, ...]) -> str:
    """The end of a sentence on nodes whose kubelet would take the pod.

    >>> who_takes(("a", "b")), who_takes(())
    ('; the kubelets of a, b would take it', '')
    """
    if not names:
        return ""
    return f"; the kubelet{'s' if len(names) > 1 else ''} of {listed(names)} would take it"
