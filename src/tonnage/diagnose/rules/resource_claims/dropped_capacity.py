"""Parts of devices that a claim of a file asks for, where the server would drop that and give whole ones."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.diagnose.case import Case
from tonnage.model.kubernetes.feature_gates import SHARES
from tonnage.model.kubernetes.resource_claims import ResourceClaim
from tonnage.model.name_lists import listed
from tonnage.model.reasons.pod.claims import FeatureGateNeeded
from tonnage.model.reasons.reason import Reason


def reasons(case: Case) -> Iterator[Reason]:
    """One note for all claims of the pod that no server has yet."""
    gates = case.view.supply.gates
    if gates.sharing or not case.pod.claims:
        return
    names = dict.fromkeys(entry.claim or entry.made for entry in case.pod.claims)
    claims = (case.view.supply.claims.get((case.pod.namespace, name)) for name in names)
    dropped = [str(claim) for claim in claims if claim is not None and _asks_for_part(claim)]
    if dropped:
        yield FeatureGateNeeded(
            subject=f"Pod {case.pod.namespace}/{case.pod.name}",
            message=f"Kubernetes 1.{gates.minor} drops capacity of the claim {listed(dropped)} unless "
            f"{SHARES} is on: it takes whole devices",
            remedy="turn the feature gate on, which is on by default since 1.36, or do without",
            source="ResourceClaim",
            gate=SHARES,
        )


def _asks_for_part(claim: ResourceClaim) -> bool:
    parts = (part for request in claim.requests for part in (request, *request.alternatives))
    return not claim.uid and any(part.capacity is not None for part in parts)
