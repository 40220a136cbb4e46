"""What the API server lets in of added pods, one after the other: quotas fill up on the way."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from tonnage.decide.kubernetes.admission.charges import (
    charged_to_claims,
    charged_to_pods,
    claim_charges,
    pod_charges,
)
from tonnage.decide.kubernetes.admission.quota import claim_refusals, pod_refusals
from tonnage.decide.kubernetes.admission.scopes import counts
from tonnage.diagnose.simulate.pod_shapes import group_of
from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.model.kubernetes.policies import Quota
from tonnage.model.kubernetes.quantity import parse_quantity, write_quantity
from tonnage.model.kubernetes.resource_claims import ResourceClaim
from tonnage.model.reasons.reason import Reason

_NOTHING: Final = Fraction(0)


@dataclass(slots=True)
class Purse:
    """The quotas of a cluster, with what was added and has ended since."""

    snapshot: Snapshot
    minor: int = 35
    """Of the release, by which claims are charged."""
    quotas: dict[str, list[Quota]] = field(default_factory=dict)
    """By namespace, as they stand now; those of namespaces that nobody asked about are not there yet."""
    _refused: dict[Hashable, Reason] = field(default_factory=dict)

    def refusal(self, pod: Pod) -> Reason | None:
        """Why a new pod is not let in; one that is let in is charged."""
        quotas = self._of(pod.namespace)
        if not quotas:
            return None
        group = pod.namespace, pod.priority_class, group_of(pod, shunned=False)
        if group in self._refused:
            return self._refused[group]
        refusals = pod_refusals(pod, replace(self.snapshot, quotas=tuple(quotas)))
        if refusals:
            self._refused[group] = refusals[0].reason
            return self._refused[group]
        self._charge(pod, 1)
        return None

    def free(self, pod: Pod) -> None:
        """A pod has ended."""
        if self._of(pod.namespace):
            self._charge(pod, -1)
            self._refused.clear()

    def claim_refusal(self, claims: Iterable[ResourceClaim]) -> Reason | None:
        """Why a claim of a new pod is not let in; those before it are charged, as the server makes them."""
        for claim in claims:
            quotas = self._of(claim.namespace)
            refusals = claim_refusals(claim, replace(self.snapshot, quotas=tuple(quotas)), minor=self.minor)
            if refusals:
                return refusals[0].reason
            self._charge_claim(claim, 1)
        return None

    def free_claims(self, claims: Iterable[ResourceClaim]) -> None:
        """Claims have gone."""
        for claim in claims:
            if self._of(claim.namespace):
                self._charge_claim(claim, -1)

    def _of(self, namespace: str) -> list[Quota]:
        quotas = self.quotas.get(namespace)
        if quotas is None:
            own = [quota for quota in self.snapshot.quotas if quota.namespace == namespace]
            quotas = self.quotas[namespace] = [self._counted(quota) for quota in own]
        return quotas

    def _counted(self, quota: Quota) -> Quota:
        """The quota with what its pods use, where nobody has counted that."""
        if quota.counted:
            return quota
        used = {key: _NOTHING for key in quota.hard if charged_to_pods(key)}
        for pod in self.snapshot.pods:
            if pod.namespace == quota.namespace and counts(quota, pod):
                charges = pod_charges(pod)
                used = {key: amount + charges.get(key, _NOTHING) for key, amount in used.items()}
        for claim in self.snapshot.claims if not quota.scopes else ():
            if claim.namespace == quota.namespace and claim.uid:
                for key, amount in self._claim_charges(claim).items():
                    if key in quota.hard:
                        used[key] = used.get(key, _NOTHING) + amount
        amounts = {
            **{key: "0" for key in quota.hard if charged_to_claims(key) and not quota.scopes},
            **{key: write_quantity(amount) for key, amount in used.items()},
        }
        return replace(quota, used={**quota.used, **amounts}, counted=True)

    def _claim_charges(self, claim: ResourceClaim) -> dict[str, Fraction]:
        return claim_charges(claim, self.snapshot.device_classes, minor=self.minor)

    def _charge_claim(self, claim: ResourceClaim, sign: int) -> None:
        charges = self._claim_charges(claim)
        self.quotas[claim.namespace] = [
            quota if quota.scopes else _charged(quota, charges, sign)
            for quota in self.quotas[claim.namespace]
        ]

    def _charge(self, pod: Pod, sign: int) -> None:
        charges = pod_charges(pod)
        self.quotas[pod.namespace] = [
            _charged(quota, charges, sign) if counts(quota, pod) else quota
            for quota in self.quotas[pod.namespace]
        ]


def _charged(quota: Quota, charges: dict[str, Fraction], sign: int) -> Quota:
    used = dict(quota.used)
    for key in quota.hard:
        if key in charges and key in used:
            used[key] = write_quantity(max(_NOTHING, parse_quantity(used[key]) + sign * charges[key]))
    return replace(quota, used=used)
