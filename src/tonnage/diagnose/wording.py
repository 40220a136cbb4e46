"""Reasons in few words, for one line."""

from __future__ import annotations

from collections import Counter

from tonnage.model.verdict import Code, NodeVerdict, Reason


def summary(nodes: tuple[NodeVerdict, ...]) -> str:
    """Why no node takes the pod, in one line: what the scheduler meets, counted, most frequent first."""
    counts: Counter[str] = Counter()
    for node in nodes:
        counts.update({phrase(reason) for reason in node.reasons if not reason.hidden})
    told = ", ".join(
        f"{count} {phrase}" for phrase, count in sorted(counts.items(), key=lambda c: (-c[1], c[0]))
    )
    return f"no node of {len(nodes)} takes it: {told}"


def phrase(reason: Reason) -> str:
    """What a reason says of a node, to stand after a number of nodes."""
    facts = reason.facts
    match reason.code:
        case Code.TAINT:
            taint = f"{facts['key']}={facts['value']}" if facts["value"] else f"{facts['key']}"
            return f"with the untolerated taint {taint}:{facts['effect']}"
        case Code.INSUFFICIENT:
            return f"without enough free {facts['resource']}"
        case Code.TOO_LARGE:
            return f"too small in {facts['resource']}"
        case Code.NOT_ADVERTISED:
            return f"not offering {facts['resource']}"
        case Code.NODE_AFFINITY | Code.NOT_PINNED | Code.NODE_NAME:
            return "outside its node selector or affinity"
        case Code.CORDONED:
            return "cordoned"
        case _:
            return f"refusing ({reason.code.value})"
