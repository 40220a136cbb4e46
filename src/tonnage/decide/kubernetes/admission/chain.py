"""What the API server says to a new pod, step by step in its order, everything that stands against it.

Mutating steps come first (accounts, classes), then validation of fields, which is not done here, then limit
ranges, pod security, webhooks and at the end quotas.

Source: k8s.io/kubernetes pkg/kubeapiserver/options/plugins.go, 1.35.
"""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.decide.kubernetes.admission.limit_ranges import breaches, formats_of, with_defaults
from tonnage.decide.kubernetes.admission.pod_security import violation
from tonnage.decide.kubernetes.admission.quota import claim_refusals, pod_refusals
from tonnage.decide.kubernetes.admission.quota_refusals import exceeded_by_claim
from tonnage.decide.kubernetes.admission.references import lookups, with_runtime_class
from tonnage.decide.kubernetes.admission.refusal import AdmissionRefusal
from tonnage.decide.kubernetes.admission.webhooks import unreachable
from tonnage.model.kubernetes.cluster import Manifest, Snapshot
from tonnage.model.reasons.pod.quota import QuotaExceededByClaim


@dataclass(frozen=True, slots=True)
class Admission:
    """A manifest as it would be let in, and what stands against it.

    `early` is said before the fields are validated, `late` after it. `claims`: quotas that would refuse the
    claims that are made for the pod once it is there.
    """

    manifest: Manifest
    early: tuple[AdmissionRefusal, ...] = ()
    late: tuple[AdmissionRefusal, ...] = ()
    claims: tuple[QuotaExceededByClaim, ...] = ()

    @property
    def refusals(self) -> tuple[AdmissionRefusal, ...]:
        """Everything that stands against it, in the server's order."""
        return (*self.early, *self.late)


def admission_of(manifest: Manifest, snapshot: Snapshot, *, minor: int) -> Admission:
    """What a server of that minor release would do with a pod of the manifest."""
    early = tuple(lookups(manifest, snapshot))
    admitted = with_runtime_class(with_defaults(manifest, snapshot.limit_ranges), snapshot)
    labels = snapshot.namespaces.get(manifest.pod.namespace, {})
    insecure = violation(manifest.written, labels, minor=minor)
    late: tuple[AdmissionRefusal, ...] = (
        *breaches(admitted, snapshot.limit_ranges),
        *((insecure.refusal_of(manifest),) if insecure is not None else ()),
        *unreachable(admitted.pod, snapshot),
        *pod_refusals(admitted.pod, snapshot, formats_of(admitted)),
    )
    return Admission(admitted, early, late, _claims(manifest, snapshot, minor))


def _claims(manifest: Manifest, snapshot: Snapshot, minor: int) -> tuple[QuotaExceededByClaim, ...]:
    """Claims that have yet to be made for the pod have no uid."""
    exceeded: list[QuotaExceededByClaim] = []
    unmade = {claim.key: claim for claim in snapshot.claims if not claim.uid}
    for pod_claim in manifest.pod.claims:
        claim = unmade.get((manifest.pod.namespace, pod_claim.made)) if pod_claim.template else None
        if claim is not None:
            refusals = claim_refusals(claim, snapshot, minor=minor)
            exceeded += [exceeded_by_claim(pod_claim.name, over) for over in refusals]
    return tuple(exceeded)
