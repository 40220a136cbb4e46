"""Manifests of claims, and of pods that claim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from support.installed_agent import gpu_pod
from tonnage.model.devices.claims import DRIVER

CLASS: Final = "gpu.nvidia.com"
MIG_CLASS: Final = "mig.nvidia.com"
_OPAQUE: Final = "resource.nvidia.com/v1beta1"


def request(name: str = "gpu", *, of: str = CLASS, expression: str = "", **fields: Any) -> Any:
    """For a number of devices of a class, `count` of them, or with `firstAvailable` for an alternative."""
    if "firstAvailable" in fields:
        return {"name": name, **fields}
    if expression:
        fields["selectors"] = [{"cel": {"expression": expression}}]
    return {"name": name, "exactly": {"deviceClassName": of, **fields}}


def alternative(name: str, *, of: str = CLASS, expression: str = "", **fields: Any) -> Any:
    """Of a request with `firstAvailable`."""
    exactly: Any = request(name, of=of, expression=expression, **fields)["exactly"]
    return {"name": name, **exactly}


def alike(attribute: str, *requests: str) -> Any:
    """A constraint: devices, of these requests or all, that have the same attribute."""
    return {"matchAttribute": attribute, **({"requests": [*requests]} if requests else {})}


def opaque(kind: str = "GpuConfig", *, requests: Sequence[str] = (), **how: Any) -> Any:
    """NVIDIA's configuration of how devices are shared."""
    parameters = {"apiVersion": _OPAQUE, "kind": kind, "sharing": how}
    chosen = {"requests": [*requests]} if requests else {}
    return {**chosen, "opaque": {"driver": DRIVER, "parameters": parameters}}


def claim(name: str, *requests: Any, **fields: Any) -> Any:
    """A ResourceClaim; without requests for one GPU."""
    spec = {"devices": {"requests": [*(requests or (request(),))], **fields}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": spec,
    }


def template(name: str, *requests: Any, **fields: Any) -> Any:
    """A ResourceClaimTemplate of the same."""
    made = claim(name, *requests, **fields)
    return {**made, "kind": "ResourceClaimTemplate", "spec": {"spec": made["spec"]}}


def claiming(name: str, *, by: str = "", of: str = "", containers: Sequence[str] = ("",)) -> Any:
    """A pod that stays, with the claim `by`, or one of its own from the template `of`.

    Each of its containers has a request of the claim, or, empty, all of it; the first is `main`.
    """
    pod = gpu_pod(name, *([0] * len(containers)))
    source = {"resourceClaimName": by} if by else {"resourceClaimTemplateName": of}
    pod["spec"]["resourceClaims"] = [{"name": "gpu", **source}]
    for container, chosen in zip(pod["spec"]["containers"], containers, strict=True):
        container["resources"] = {"claims": [{"name": "gpu", **({"request": chosen} if chosen else {})}]}
    return pod
