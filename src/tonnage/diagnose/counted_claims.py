"""The claim that the scheduler makes of what a pod counts and a class stands for: may it be made?"""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.decide.kubernetes.admission.quota import claim_refusals
from tonnage.decide.kubernetes.admission.quota_refusals import exceeded_by_claim
from tonnage.decide.kubernetes.claims.extended_resources import backed_by_classes, claim_on
from tonnage.diagnose.case import Case
from tonnage.model.name_lists import listed
from tonnage.model.reasons.reason import Reason


def over_quota_on(case: Case, node: str) -> Iterator[Reason]:
    """The quota that keeps the scheduler from making the claim for what a class stands for on its node."""
    claim = claim_on(case.pod, case.view.nodes[node].node, case.view.supply)
    if claim is None:
        return
    refusals = claim_refusals(claim, case.view.snapshot, minor=case.view.profile.minor)
    if refusals:
        names = backed_by_classes(case.pod, case.view.supply)
        yield exceeded_by_claim(f"for {listed(names)}", refusals[0])
