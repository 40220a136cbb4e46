"""NVIDIA's operator while its nodes are adopted: scaled to 0, so that it rewrites no label or DaemonSet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tonnage.model.adoption import REPLICAS, OperatorDeployment
from tonnage.model.json import JsonObject
from tonnage.model.reasons.cluster.operator import OperatorScaledUp

_MOST_REPLICAS: Final = 100


@dataclass(frozen=True, slots=True)
class ScaleOperator:
    """Merge the patch into the Deployment, if it still is as it was seen."""

    patch: JsonObject = field(repr=False)
    replicas: int


def paused(deployment: OperatorDeployment) -> ScaleOperator | OperatorScaledUp | None:
    """How it is scaled to none; a reason: somebody else scaled it up since; None: it is paused."""
    if deployment.noted and deployment.replicas:
        owner = deployment.owner or "somebody"
        return OperatorScaledUp(
            subject=f"Deployment {deployment.namespace}/{deployment.name}",
            message=f"{owner} scaled it to {deployment.replicas} again, and it would take the nodes back",
            replicas=deployment.replicas,
            owner=owner,
        )
    if deployment.noted:
        return None
    return _scaled(deployment, 0, str(deployment.replicas))


def resumed(deployment: OperatorDeployment) -> ScaleOperator | None:
    """How it gets its replicas back; None: it was not paused."""
    if not deployment.noted:
        return None
    before = deployment.noted if deployment.noted.isdecimal() else "1"
    return _scaled(deployment, deployment.replicas or min(int(before[:3]), _MOST_REPLICAS), None)


def _scaled(deployment: OperatorDeployment, replicas: int, note: str | None) -> ScaleOperator:
    metadata: JsonObject = {"resourceVersion": deployment.version, "annotations": {REPLICAS: note}}
    return ScaleOperator({"metadata": metadata, "spec": {"replicas": replicas}}, replicas)
