"""What a device selector looks up that devices of `gpu.nvidia.com` do not have, known without a cluster.

Source: dra-driver-nvidia-gpu v0.5, cmd/gpu-kubelet-plugin/deviceinfo.go; attributes it published before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from tonnage.model.devices.claims import DRIVER

ATTRIBUTES: Final = (
    *("type", "uuid", "productName", "brand", "architecture", "addressingMode"),
    *("cudaComputeCapability", "driverVersion", "cudaDriverVersion", "parentUUID", "profile"),
    *("deviceID", "vendorID", "iommuFDEnabled"),
    *("gpuModuleID", "partition1", "partition2", "partition4", "partition8"),
)
CAPACITIES: Final = (
    *("memory", "multiprocessors", "copyEngines", "decoders", "encoders", "jpegEngines", "ofaEngines"),
    *("shares", "addressableMemory"),
    *(f"memorySlice{place}" for place in range(8)),
)
_ELSEWHERE: Final[Mapping[str, str]] = {
    "index": "select by uuid, or by device.attributes['resource.kubernetes.io'].pciBusID",
    "minor": "select by uuid, or by device.attributes['resource.kubernetes.io'].pciBusID",
    "numa": "write device.attributes['resource.kubernetes.io'].numaNode",
    "pcieBusID": "write device.attributes['resource.kubernetes.io'].pciBusID",
    "pciBusID": "write device.attributes['resource.kubernetes.io'].pciBusID",
    "pcieRoot": "write device.attributes['resource.kubernetes.io'].pcieRoot",
    "numaNode": "write device.attributes['resource.kubernetes.io'].numaNode",
}
"""What drivers before v0.5 published, or what stands in Kubernetes' own domain."""
_LOOKED_UP: Final = re.compile(
    rf"device\.(attributes|capacity)\[(['\"]){re.escape(DRIVER)}\2\]\.([A-Za-z_][A-Za-z0-9_]{{0,31}})\b"
)


def unpublished(expression: str) -> Iterator[tuple[str, str]]:
    """What no device has of what is looked up without has(), each with what to write instead.

    >>> list(unpublished("device.attributes['gpu.nvidia.com'].index == 0"))[0][0]
    'no device of gpu.nvidia.com has the attribute index'
    >>> list(unpublished("device.attributes['gpu.nvidia.com'].memory > 1"))[0][1]
    "memory is a capacity: write device.capacity['gpu.nvidia.com'].memory"
    """
    lookups = {(match[1], match[3]): match[0] for match in _LOOKED_UP.finditer(expression)}
    for (kind, name), lookup in lookups.items():
        names, others = (ATTRIBUTES, CAPACITIES) if kind == "attributes" else (CAPACITIES, ATTRIBUTES)
        if name in names or f"has({lookup})" in expression:
            continue
        noun, other = ("attribute", "capacity") if kind == "attributes" else ("capacity", "attributes")
        near = get_close_matches(name, names, n=1)
        if name in others:
            a_noun = "a capacity" if kind == "attributes" else "an attribute"
            remedy = f"{name} is {a_noun}: write device.{other}['{DRIVER}'].{name}"
        elif kind == "attributes" and name in _ELSEWHERE:
            remedy = _ELSEWHERE[name]
        elif near:
            remedy = f"write {near[0]} if you meant that"
        else:
            remedy = f"there are {', '.join(names[:11])}"
        yield f"no device of {DRIVER} has the {noun} {name}", remedy
