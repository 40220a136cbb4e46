"""What would give a pod devices by its claims, on nodes where these are all that stands against it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tonnage.model.name_lists import listed
from tonnage.model.reasons.pod.claims import ClaimNotAllocatable
from tonnage.model.verdict import NodeClass, Remedy

_MOST: Final = 3


def claim_remedies(classes: Iterable[NodeClass]) -> tuple[Remedy, ...]:
    """One for each thing to do, with the nodes it is for; what waiting alone brings comes first."""
    nodes: dict[tuple[bool, str], list[str]] = {}
    for node_class in classes:
        for reason in _of_claims_alone(node_class):
            nodes.setdefault((reason.lasting, reason.remedy), []).extend(node_class.members)
    ranked = sorted(nodes.items(), key=lambda pair: pair[0][0])
    return tuple(
        Remedy(action, f"then devices of {listed(names)} may meet its claims")
        for (_, action), names in ranked[:_MOST]
    )


def _of_claims_alone(node_class: NodeClass) -> Iterator[ClaimNotAllocatable]:
    """The reason of nodes that have devices for claims, and nothing else against the pod."""
    reasons = node_class.first.reasons
    for reason in reasons if len(reasons) == 1 else ():
        if isinstance(reason, ClaimNotAllocatable) and reason.devices and reason.remedy:
            yield reason
