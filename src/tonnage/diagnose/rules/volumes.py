"""Volume claims that keep a pod from being placed anywhere."""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.decide.cluster.volumes import NAME, UNBOUND
from tonnage.diagnose.case import Case
from tonnage.model.verdict import Code, Layer, Reason


def findings(case: Case) -> Iterable[Reason]:
    """The claim that is missing, lost, leaving or not bound."""
    decision, pod = case.decision, case.pod
    if decision.halted_by != NAME:
        return
    text, namespace = decision.conflict, pod.namespace
    remedy = f"kubectl describe pvc -n {namespace}: its Events say why it is not bound"
    if text.endswith("not found"):
        remedy = f"create it in {namespace}, or correct the name"
        if not case.view.snapshot.volume_claims:
            remedy += "; no claim at all was looked at: if it exists, add it (kubectl get pvc -A -o yaml)"
    told = "its volume claims are not bound" if text == UNBOUND else text
    names = [volume.claim for volume in pod.volumes]
    yield Reason(
        Code.VOLUME_CLAIM,
        Layer.SCHEDULER,
        f"Pod {namespace}/{pod.name}",
        told,
        {"claims": [*names]},
        remedy,
        NAME,
        lasting=False,
    )
