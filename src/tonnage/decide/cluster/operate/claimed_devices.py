"""Devices that a node offers as claims: whether one is free, and the template by which a validation asks."""

from __future__ import annotations

from typing import Final

from tonnage.decide.cluster.operate.node_pod import owner_reference
from tonnage.model.gpu_policy import GpuPolicy
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.node.gpu_status import GpuStatus
from tonnage.model.operands import OPERAND_LABEL

TEMPLATE: Final = "nvidia-cuda-validator"
_CLASSES: Final = {"gpu": "gpu.nvidia.com", "mig": "mig.nvidia.com"}


def serves_claims(report: GpuStatus) -> bool:
    """Whether the node's agent serves claims, and has a device for one."""
    claims = report.claims
    return claims is not None and not claims.why and any(set(claims.devices) - set(claims.unfit))


def has_claimable(report: GpuStatus) -> bool:
    """Whether one of the devices that are offered as claims is healthy, and nobody holds it."""
    claims = report.claims
    if claims is None or not serves_claims(report):
        return False
    held = {identity for device in report.devices for holder in device.holders for identity in holder.ids}
    existing = {name for uuid, name in claims.names.items() if uuid not in held}
    return bool({*existing, *claims.unmade} - set(claims.unfit))


def claim_template(policy: GpuPolicy, namespace: str) -> JsonObject:
    """One device for a pod: a whole GPU, and where there is none a MIG device."""
    first: list[JsonValue] = [
        {"name": name, "deviceClassName": device_class} for name, device_class in _CLASSES.items()
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {
            "name": TEMPLATE,
            "namespace": namespace,
            "labels": {"app": TEMPLATE, OPERAND_LABEL: "workload"},
            "ownerReferences": [owner_reference(policy)],
        },
        "spec": {"spec": {"devices": {"requests": [{"name": "device", "firstAvailable": first}]}}},
    }
