"""What differs between schedulers, release by release: texts above all.

Source: kube-scheduler 1.35.4 (recorded); 1.34.4, 1.35.8, 1.36.3 and 1.37.1, asked about clusters made by
chance (tests/kubernetes/scheduler/test_scheduler.py); the others by their release notes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class SchedulerRelease:
    """How one release of kube-scheduler decides and speaks. `verified`: held against its own answers."""

    release: str
    hides_taints: bool = True
    """`node(s) had untolerated taint(s)` instead of the first taint in braces."""
    speaks_of_claims: bool = True
    """`no new claims to deallocate` stands before the preemption part."""
    scores_claims: bool = True
    """The DynamicResources plugin scores, so it has a column in every score table."""
    allocates: bool = True
    """It allocates resource claims; before 1.34 that is behind a gate that is off by default."""
    overlooks_namespaces: bool = False
    """Once it has looked up the namespaces that a pod's own affinity term chooses by labels, it still asks
    the term, of no labels at all: one that holds where a label is missing then reaches every namespace."""
    rates_change_of_balance: bool = False
    """NodeResourcesBalancedAllocation compares a node with the pod to the same node without it."""
    scores_storage: bool = False
    """The VolumeBinding plugin scores, so it has a column in every score table."""
    names_victims: bool = False
    """A preemption that starts says where, and how many pods must go."""
    counts_whole_pods: bool = True
    """`spec.resources` of a pod counts; before 1.34 it is not there, or its gate is off by default."""
    resizes_by_pod: bool = False
    """Of a pod that is being resized the most of three sums counts, not the sum of each container's most."""
    verified: bool = False

    @property
    def minor(self) -> int:
        """31 for 1.31."""
        return int(self.release.split(".")[1])


def _before_claims(release: str) -> SchedulerRelease:
    return SchedulerRelease(
        release,
        hides_taints=False,
        speaks_of_claims=False,
        scores_claims=False,
        allocates=False,
        counts_whole_pods=False,
    )


DEFAULT_RELEASE: Final = "1.35"
_RELEASES: Final = {
    "1.31": _before_claims("1.31"),
    "1.32": _before_claims("1.32"),
    "1.33": _before_claims("1.33"),
    "1.34": SchedulerRelease("1.34", scores_claims=False, overlooks_namespaces=True, verified=True),
    "1.35": SchedulerRelease("1.35", overlooks_namespaces=True, verified=True),
    "1.36": SchedulerRelease("1.36", overlooks_namespaces=True, rates_change_of_balance=True, verified=True),
    "1.37": SchedulerRelease(
        "1.37",
        speaks_of_claims=False,
        rates_change_of_balance=True,
        scores_storage=True,
        names_victims=True,
        resizes_by_pod=True,
        verified=True,
    ),
}
_TAINTS_NAMED_IN_134: Final = ("0", "1")
"""Patch levels of 1.34 from before the change that hides taints was taken back to it."""
_VERSION: Final = re.compile(r"v?(?P<release>1\.[0-9]{1,3})(?:\.(?P<patch>[0-9]{1,4}))?(?:[-+].*)?")


def profile_for(version: str) -> SchedulerRelease:
    """The profile of `1.35`, `1.34.1`, `v1.36.2+k3s1`; empty means the default.

    A release outside the table gets the nearest one, marked as unverified.

    >>> profile_for("1.34.1").hides_taints, profile_for("v1.34.2").hides_taints
    (False, True)

    Raises:
        ValueError: the text is no version.
    """
    match = _VERSION.fullmatch(version or DEFAULT_RELEASE)
    if match is None:
        raise ValueError(f"{version!r} is no Kubernetes version; write it like {DEFAULT_RELEASE} or 1.34.1")
    release, patch = match["release"], match["patch"]
    if release == "1.34" and patch in _TAINTS_NAMED_IN_134:
        return replace(_RELEASES[release], hides_taints=False, verified=False)
    if release in _RELEASES:
        return _RELEASES[release]
    minor = int(release.split(".")[1])
    oldest, *_, newest = _RELEASES
    nearest = _RELEASES[oldest if minor < int(oldest.split(".")[1]) else newest]
    return replace(nearest, release=release, verified=False)
