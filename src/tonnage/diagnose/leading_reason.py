"""The one reason by which an explanation is counted among others."""

from __future__ import annotations

from tonnage.model.layer import Layer
from tonnage.model.reasons.pod.pods import NoNodes
from tonnage.model.reasons.pod.scheduling import ResourceNotAdvertised
from tonnage.model.verdict import Explanation, Verdict


def leading_code(explanation: Explanation) -> tuple[str, str]:
    """Code and layer of the reason of the pod as a whole, else of the one that most nodes give.

    Of two that as many give: not that a node lacks the resource, and otherwise never by the names of nodes.
    """
    whole = next((r for r in explanation.reasons if not r.is_note), None)
    if whole is not None:
        return whole.code, whole.layer.value
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    hopes = list(Verdict)
    for node_class in explanation.classes:
        reason = next((r for r in node_class.first.reasons if not r.hidden), None)
        if reason is not None:
            key = reason.code, reason.layer.value
            hope, count = counts.get(key, (len(hopes), 0))
            counts[key] = min(hope, hopes.index(node_class.first.verdict)), count + len(node_class.members)
    best = min(
        counts,
        key=lambda key: (counts[key][0], -counts[key][1], key[0] == ResourceNotAdvertised.code, key),
        default=None,
    )
    return best or (NoNodes.code, Layer.SCHEDULER.value)
