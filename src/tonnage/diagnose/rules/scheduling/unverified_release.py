"""A release of which no genuine scheduler was asked: what is said of it is read, not seen."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.diagnose.case import Case
from tonnage.model.reasons.pod.pods import ReleaseUnverified
from tonnage.model.reasons.reason import Reason


def reasons(case: Case) -> Iterator[Reason]:
    """A remark where the answer is for such a release."""
    profile = case.view.profile
    if profile.verified:
        return
    yield ReleaseUnverified(
        subject=f"Kubernetes {profile.release}",
        message=f"unverified: rules and texts of Kubernetes {profile.release} were not compared with its "
        "scheduler",
        source="release notes of Kubernetes",
        release=profile.release,
    )
