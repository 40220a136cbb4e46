"""What a claim waits for, in one line for all nodes; what stands against each kind of node is its details."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tonnage.decide.kubernetes.claims.exclusions import Why
from tonnage.model.kubernetes.resource_claims import ResourceClaim
from tonnage.model.name_lists import listed
from tonnage.model.reasons.facts import RequestShortage
from tonnage.model.reasons.pod.claims import ClaimNotAllocatable, ClassWithoutDevices
from tonnage.model.reasons.pod.scheduling import NodeNotPinned
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import Explanation, NodeClass

_MOST_DETAILS: Final = 8
_MOST_NAMED: Final = 3
_WORDS: Final[Mapping[str, str]] = {
    Why.IN_USE: "in use",
    Why.COUNTERS: "of GPUs that other devices use",
    Why.CAPACITY: "with too little capacity",
    Why.TAINT: "tainted",
    Why.CONDITIONS: "not ready",
    Why.OTHER_NODE: "for other nodes",
    Why.SELECTOR: "not selected",
    "class": "not of the class",
}


@dataclass(frozen=True, slots=True)
class ClaimWait:
    """`why` a claim or its pods wait, empty where nothing is amiss; what to do, and what each node lacks."""

    why: str = ""
    remedy: str = ""
    details: tuple[str, ...] = ()


NOTHING: Final = ClaimWait()
"""Nothing is amiss."""


def wait_of(claim: ResourceClaim, explanation: Explanation) -> ClaimWait:
    """What a claim waits for, by the explanation of a pod that uses it."""
    reached = [node_class for node_class in explanation.classes if not _is_for_another(node_class)]
    short = [pair for node_class in reached for pair in _short_of(claim, node_class)]
    details = tuple(f"{_nodes(node_class)}: {reason.message}" for node_class, reason, _ in short)
    classes = {part.device_class for request in claim.requests for part in (request, *request.alternatives)}
    for absent in explanation.reasons:
        if isinstance(absent, ClassWithoutDevices) and absent.device_class in classes:
            return ClaimWait(absent.message, absent.remedy, details[:_MOST_DETAILS])
    if not short:
        first = _first_reason(claim, explanation)
        return ClaimWait(explanation.message) if first is None else ClaimWait(first.message, first.remedy)
    _, reason, shortage = max(short, key=_hope)
    place = next(node_class for node_class, other, _ in short if other is reason)
    members = {name for node_class, _, _ in short for name in node_class.members}
    line = _line(shortage, place, len(members), explanation)
    return ClaimWait(line, reason.remedy, details[:_MOST_DETAILS])


def _short_of(
    claim: ResourceClaim, node_class: NodeClass
) -> Iterator[tuple[NodeClass, ClaimNotAllocatable, RequestShortage]]:
    """The request of the claim that nodes of a class meet worst."""
    for reason in node_class.first.reasons:
        if isinstance(reason, ClaimNotAllocatable):
            requests = [request for request in reason.requests or () if request.claim == str(claim)]
            if requests and reason.devices:
                yield node_class, reason, min(requests, key=lambda request: request.left)


def _is_for_another(node_class: NodeClass) -> bool:
    """Whether the pod names another node, as one of a DaemonSet does: what is left here is no matter."""
    return any(isinstance(reason, NodeNotPinned) for reason in node_class.first.reasons)


def _hope(entry: tuple[NodeClass, ClaimNotAllocatable, RequestShortage]) -> tuple[bool, bool, int, bool]:
    """Where a claim comes nearest: nothing else stands against the node, time may help, most devices are
    left, or some are of its class.
    """
    node_class, reason, shortage = entry
    alone = not any(other.lasting for other in node_class.first.reasons if other is not reason)
    return alone, not reason.lasting, shortage.left, any(why != "class" for why in shortage.counts)


def _line(shortage: RequestShortage, node_class: NodeClass, short: int, explanation: Explanation) -> str:
    """The shortage on the nodes that lack least; of `short` nodes in all, and what the others say."""
    counts = [f"{shortage.counts[why]} {words}" for why, words in _WORDS.items() if shortage.counts.get(why)]
    excluded = f" ({', '.join(counts)})" if counts else ""
    wants = f"request {shortage.request} wants {shortage.wants} of class {shortage.class_}"
    there = f"{shortage.left} left on {_nodes(node_class)}{excluded}"
    if short > len(node_class.members):
        there += ", the most of any node" if shortage.left else ", nor on other nodes"
    others = f"; {explanation.message}" if len(explanation.nodes) > short else ""
    return f"{wants}; {there}{others}"


def _nodes(node_class: NodeClass) -> str:
    return listed(node_class.members, _MOST_NAMED)


def _first_reason(claim: ResourceClaim, explanation: Explanation) -> Reason | None:
    """The first reason that names the claim, those of the pod before those of nodes; else the pod's first."""
    of_pod = [reason for reason in explanation.reasons if not reason.is_note]
    nodes = (node for node in explanation.classes if not _is_for_another(node))
    of_nodes = (reason for node in nodes for reason in node.first.reasons)
    return next((r for r in (*of_pod, *of_nodes) if str(claim) in r.message), next(iter(of_pod), None))
