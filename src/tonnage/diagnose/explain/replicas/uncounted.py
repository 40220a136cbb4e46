"""What is said of objects that make pods of which nobody can tell how many."""

from __future__ import annotations

from tonnage.model.layer import Layer
from tonnage.model.verdict import Explanation, Remedy, Subject, Verdict

_REMEDIES = (
    Remedy("write one of its pod templates as a Pod and ask explain -f about it", ""),
    Remedy("check its templates with tonnage lint", ""),
)


def explain_uncounted(subject: Subject, why: str, remedy: str = "") -> Explanation:
    """UNKNOWN, with the reason, and what to do where that is plain."""
    return Explanation(
        subject=subject,
        verdict=Verdict.UNKNOWN,
        layer=Layer.SCHEDULER,
        phase="",
        needs={},
        message=why,
        remedies=(Remedy(remedy, ""),) if remedy else _REMEDIES,
    )
