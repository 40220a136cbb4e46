"""A release of which no genuine scheduler was asked: what is said of it is read, not seen."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.diagnose.case import Case
from tonnage.model.verdict import Code, Layer, Reason


def findings(case: Case) -> Iterator[Reason]:
    """A remark where the answer is for such a release."""
    profile = case.view.profile
    if profile.verified:
        return
    yield Reason(
        Code.RELEASE_UNVERIFIED,
        Layer.SCHEDULER,
        f"Kubernetes {profile.release}",
        f"unverified: rules and texts of Kubernetes {profile.release} were not held against its scheduler",
        {"release": profile.release},
        "",
        "release notes of Kubernetes",
        lasting=False,
    )
