"""ADM-9: quotas of the pod's namespace on limits of devices, which Kubernetes accepts and never enforces."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.diagnose.case import Case, device_needs
from tonnage.model.reasons.pod.quota import QuotaKeyWithoutEffect
from tonnage.model.reasons.reason import Reason


def reasons(case: Case) -> Iterator[Reason]:
    """One aside for each such key on a device that the pod asks for."""
    pod = case.pod
    for quota in case.view.snapshot.quotas:
        for resource in sorted(device_needs(pod)) if quota.namespace == pod.namespace else ():
            key, right = f"limits.{resource}", f"requests.{resource}"
            if "/" not in resource or key not in quota.hard:
                continue
            yield QuotaKeyWithoutEffect(
                subject=f"ResourceQuota {quota.namespace}/{quota.name}",
                message=f"the quota {quota.name} on {key}={quota.hard[key]} is accepted and never enforced",
                remedy=f"remove it: {right} exists too" if right in quota.hard else f"write {right}",
                source="ResourceQuota",
                quota=quota.name,
                key=key,
                hard=quota.hard[key],
            )
