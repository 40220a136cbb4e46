"""Volume claims that keep a pod from being placed anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tonnage.decide.kubernetes.volumes import NAME, UNBOUND
from tonnage.diagnose.case import Case
from tonnage.model.kubernetes.volumes import StorageClass, VolumeClaim
from tonnage.model.reasons.pod.volumes import VolumeClaimNotUsable
from tonnage.model.reasons.reason import Reason

_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


def reasons(case: Case) -> Iterable[Reason]:
    """The claim that is missing, lost, leaving or not bound."""
    decision, pod = case.decision, case.pod
    if decision.halted_by != NAME:
        return
    text, namespace = decision.conflict, pod.namespace
    message, remedy = text, f"kubectl describe pvc -n {namespace}: its Events say why it is not bound"
    if text.startswith("persistentvolume "):
        remedy = "delete the claim and create it again, or restore the volume: the claim stays bound to it"
    elif text.endswith("not found"):
        remedy = f"create it in {namespace}, or correct the name"
    elif text == UNBOUND:
        message = "its volume claims are not bound: " + "; ".join(_unbound(case))
    names = [volume.claim for volume in pod.volumes]
    yield VolumeClaimNotUsable(
        subject=f"Pod {namespace}/{pod.name}",
        message=message,
        remedy=remedy,
        source=NAME,
        lasting=text.endswith("not found"),
        claims=tuple(names),
    )


def _unbound(case: Case) -> Iterator[str]:
    """Each claim that is not bound, and who should make its volume."""
    snapshot, pod = case.view.snapshot, case.pod
    claim_names = {volume.claim for volume in pod.volumes}
    classes = {cls.name: cls for cls in snapshot.storage_classes}
    for claim in snapshot.volume_claims:
        if claim.namespace == pod.namespace and claim.name in claim_names and not claim.bound:
            yield f"{claim.name} {_why(claim, classes.get(claim.storage_class))}"


def _why(claim: VolumeClaim, cls: StorageClass | None) -> str:
    if claim.volume:
        return f"waits for the volume {claim.volume}"
    if not claim.storage_class:
        return "names no storage class, and no volume was created for it by hand"
    if cls is None:
        return f"names the storage class {claim.storage_class}, which does not exist"
    if cls.waits:
        return "is bound once the pod has a node"
    if cls.provisioner in ("", _NO_PROVISIONER):
        return f"waits for a volume created by hand: no provisioner creates those of {cls.name}"
    return f"waits for {cls.provisioner}, which creates the volumes of {cls.name} at once"
