"""FitError and the scheduler's other sentences, to the byte.

Source: kube-scheduler 1.35 framework/types.go (FitError), recorded messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NO_NODES: Final = "no nodes available to schedule pods"
GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"
NO_CLAIMS: Final = "no new claims to deallocate"
CLAIMS_REMAIN: Final = "still not schedulable"
CLAIM_FREED: Final = "deallocation of ResourceClaim completed"
STATE_MISSING: Final = "not found"
"""What DynamicResources says when an earlier plugin ended the cycle before it could prepare."""
NEVER_PREEMPTS: Final = "not eligible due to preemptionPolicy=Never."
WAITS_FOR_VICTIMS: Final = "not eligible due to a terminating pod on the nominated node."
NO_VICTIMS: Final = "No preemption victims found for incoming pod"
PLACE_FOUND: Final = "found a potential placement for pod on node {node}, preempting {count} victims"
NO_VICTIM_AT_ALL: Final = 'expected at least one victim pod on node "{node}"'
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"


def fit_error(nodes: int, counts: Mapping[str, int], *, instead: str = "", suffix: str = "") -> str:
    """`0/N nodes are available: …`: every text with its count, sorted as plain strings.

    `instead` replaces the texts when the pod was refused before any node was looked at.

    >>> fit_error(12, {"b": 10, "a": 1, "c": 2})
    '0/12 nodes are available: 1 a, 10 b, 2 c.'
    """
    if not instead:
        instead = ", ".join(sorted(f"{count} {text}" for text, count in counts.items()))
    reasons = f" {instead}." if instead else ""
    return f"0/{nodes} nodes are available:{reasons}{' ' + suffix if suffix else ''}"
