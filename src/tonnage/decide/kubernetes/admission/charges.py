"""podEvaluator, claimEvaluator: what pods and claims are charged to the keys of quotas.

Source: k8s.io/kubernetes pkg/quota/v1/evaluator/core (pods.go, resource_claims.go), 1.34 to 1.37 alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final

from tonnage.decide.kubernetes.requests import is_extended, pod_limits, pod_requests
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.kubernetes.resource_claims import (
    CLASS_RESOURCE,
    DEVICES_OF_CLASS,
    DeviceClass,
    DeviceRequest,
    Mode,
    ResourceClaim,
)

Charges = Mapping[str, Fraction]

COUNT_PODS: Final = "count/pods"
COUNT_CLAIMS: Final = "count/resourceclaims.resource.k8s.io"
_BY_CLASS_NAME: Final = f"requests.{CLASS_RESOURCE}"
_NATIVE: Final = ("cpu", "memory", "ephemeral-storage")
_POD_KEYS: Final = frozenset(
    {COUNT_PODS, "pods", *(f"{part}{name}" for part in ("", "requests.", "limits.") for name in _NATIVE)}
)
_HUGE: Final = ("hugepages-", "requests.hugepages-")
_MOST_DEVICES: Final = 32
"""What a request for all devices is charged as."""
_CLAIMS_BEHIND_NAMES: Final = 36
"""From this minor on a claim is also charged under the extended resource that its class stands for."""


def charged_to_pods(key: str) -> bool:
    """Whether a key of a quota counts anything of pods; `limits.` of a device counts nothing.

    >>> [charged_to_pods(key) for key in ("requests.nvidia.com/gpu", "limits.nvidia.com/gpu")]
    [True, False]
    """
    device = key.removeprefix("requests.")
    extended = is_extended(device) or device.startswith(CLASS_RESOURCE)
    return key in _POD_KEYS or key.startswith(_HUGE) or (device != key and extended)


def charged_to_claims(key: str) -> bool:
    """Whether a key counts resource claims or their devices."""
    return key == COUNT_CLAIMS or key.endswith(DEVICES_OF_CLASS)


def pod_charges(pod: Pod) -> dict[str, Fraction]:
    """What a pod costs, by key. One that has ended costs nothing but its being there."""
    charges = {COUNT_PODS: Fraction(1)}
    if pod.finished:
        return charges
    charges["pods"] = Fraction(1)
    for name, amount in pod_requests(pod).items():
        if name in _NATIVE or name.startswith("hugepages-"):
            charges[name] = charges[f"requests.{name}"] = _value(name, amount)
        elif is_extended(name) or name.startswith(CLASS_RESOURCE):
            charges[f"requests.{name}"] = Fraction(amount)
    for name, amount in pod_limits(pod).items():
        if name in _NATIVE:
            charges[f"limits.{name}"] = _value(name, amount)
    return charges


def claim_charges(
    claim: ResourceClaim, classes: Iterable[DeviceClass] = (), *, minor: int = 35
) -> dict[str, Fraction]:
    """What a claim costs, by key. Of alternatives the dearest of each class counts."""
    devices: dict[str, int] = {}
    for request in claim.requests:
        dearest: dict[str, int] = {}
        for part in request.alternatives or (request,):
            if part.device_class:
                dearest[part.device_class] = max(dearest.get(part.device_class, 0), _count(part))
        for name, count in dearest.items():
            devices[name] = devices.get(name, 0) + count
    charges = {COUNT_CLAIMS: Fraction(1)} | {
        f"{n}{DEVICES_OF_CLASS}": Fraction(c) for n, c in devices.items()
    }
    if minor >= _CLAIMS_BEHIND_NAMES:
        names = {
            device_class.name: device_class.extended_resource
            for device_class in classes
            if device_class.extended_resource
        }
        for name, count in devices.items():
            if name in names:
                charges[f"{_BY_CLASS_NAME}{name}"] = charges[f"requests.{names[name]}"] = Fraction(count)
    return charges


def _count(request: DeviceRequest) -> int:
    return _MOST_DEVICES if request.mode == Mode.ALL else request.count


def _value(name: str, amount: int) -> Fraction:
    return Fraction(amount, 1000) if name == "cpu" else Fraction(amount)
