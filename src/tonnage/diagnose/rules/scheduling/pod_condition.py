"""Where the pod's own condition says otherwise than its objects: the condition is older, or somebody else's.

It decides nothing; what is wrong follows from the objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tonnage.diagnose.case import Case
from tonnage.diagnose.counted_claims import over_quota_on
from tonnage.diagnose.missing_kinds import cluster_unseen
from tonnage.diagnose.scheduler_message import SchedulerMessage, parsed_message
from tonnage.model.kubernetes.scheduler_profile import DEFAULT_NAME
from tonnage.model.name_lists import listed
from tonnage.model.reasons.pod.pods import ConditionDiffers
from tonnage.model.reasons.reason import Reason
from tonnage.model.redaction import REDACTED

_GATED: Final = "SchedulingGated"
_MOST_SHOWN: Final = 300


def reasons(case: Case) -> Iterator[Reason]:
    """One reason where the condition and the engine disagree on more than on preemption."""
    status, decision = case.pod.status, case.decision
    text = status.unschedulable_message
    if not text or REDACTED in text or decision.unmodelled or case.pod.scheduler_name != DEFAULT_NAME:
        return
    if (status.unschedulable_reason == _GATED) != bool(decision.gates):
        gone = "the gates are gone" if not decision.gates else "it has gates now"
        yield _reason(case, gone)
        return
    if decision.gates or decision.held or cluster_unseen(case.view.snapshot):
        return
    if decision.chosen is not None and any(over_quota_on(case, decision.chosen)):
        return  # the scheduler chose it, too
    theirs, ours = parsed_message(text), parsed_message(decision.message)
    differences = "; ".join(_differences(case, theirs, ours))
    if differences:
        yield _reason(case, differences, theirs.counts, ours.counts)


def _differences(case: Case, theirs: SchedulerMessage, ours: SchedulerMessage) -> Iterator[str]:
    if not case.decision.message:
        words = _short(case.pod.status.unschedulable_message)
        yield f"by the objects it fits {case.decision.chosen}; the condition says {words!r}"
        return
    if theirs.nodes is not None and ours.nodes is not None and theirs.nodes != ours.nodes:
        yield f"it counts {theirs.nodes} nodes, there are {ours.nodes}"
    elif theirs.whole != ours.whole:
        yield f"it says {_short(theirs.whole) or 'nothing of the kind'!r}, not {_short(ours.whole)!r}"
    gone = _more(theirs.counts, ours.counts)
    new = _more(ours.counts, theirs.counts)
    if gone:
        yield f"no longer true: {gone}"
    if new:
        yield f"missing from it: {new}"


def _more(counts: Mapping[str, int], other: Mapping[str, int]) -> str:
    """Reasons of one that the other has not, or has of fewer nodes."""
    return listed(f"{n} {text}" for text, n in sorted(counts.items()) if n > other.get(text, 0))


def _short(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _reason(
    case: Case, text: str, theirs: Mapping[str, int] | None = None, ours: Mapping[str, int] | None = None
) -> Reason:
    return ConditionDiffers(
        subject=f"Pod {case.pod.namespace}/{case.pod.name}",
        message=f"the pod's own condition says otherwise: {text}; it is out of date, or "
        "the "
        "scheduler has other plugins, another configuration or a cache that lags",
        remedy="wait: a scheduler tries again within five minutes, and when something it waits for changes; "
        "if the condition "
        "stays, compare with the scheduler's log and configuration",
        source="status.conditions PodScheduled",
        theirs=theirs,
        ours=ours,
    )
