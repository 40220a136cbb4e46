"""Fleets made by chance whose nodes publish devices, some of them allocated, and pods that claim devices."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

from tonnage.model.kubernetes.cluster import Container, Node, Pod, Snapshot
from tonnage.model.kubernetes.resource_claims import (
    AllocatedDevice,
    Attribute,
    Capacity,
    ClaimAllocation,
    ClaimDeviceId,
    Constraint,
    DeviceClass,
    DeviceRequest,
    NodeScope,
    PodClaim,
    ResourceClaim,
    ResourceSlice,
    SliceDevice,
)
from tonnage.model.kubernetes.selectors import Taint

DRIVER = "gpu.nvidia.com"
LARGE = f"device.capacity['{DRIVER}'].memory.isGreaterThan(quantity('40Gi'))"
MODEL = f"device.attributes['{DRIVER}'].model == 'B'"
FAILS_ON_SOME = f"device.attributes['{DRIVER}'].numa == 0"
"""Not every device has the attribute, so that the selector fails there."""


def claim_fleet(chance: Random, nodes: int, version: str) -> Snapshot:
    """Nodes with up to three devices; some are tainted, lack slices, or publish half of a pool."""
    amounts = {"cpu": 8000, "memory": 1 << 34, "pods": 110}
    every, slices, claims = [], [], []
    for number in range(nodes):
        name = f"node-{number:02}"
        taints = (Taint("gpu", "", "NoSchedule"),) if chance.random() < 0.2 else ()
        every.append(Node(name, taints=taints, capacity=amounts, allocatable=amounts))
        if chance.random() < 0.1:
            continue
        devices = tuple(_device(index, chance) for index in range(chance.randrange(1, 4)))
        slices.append(
            ResourceSlice(
                *(f"00-{name}", DRIVER, name),
                slices=chance.choice((1,) * 9 + (2,)),
                scope=NodeScope(name),
                devices=devices,
            )
        )
        for entry in devices:
            if chance.random() < 0.4:
                holder = AllocatedDevice("gpu", ClaimDeviceId(DRIVER, name, entry.name))
                held = f"held-{name}-{entry.name}"
                claims.append(ResourceClaim("ml", held, held, allocation=ClaimAllocation((holder,))))
    return Snapshot(
        tuple(every),
        slices=tuple(slices),
        claims=tuple(claims),
        device_classes=(DeviceClass("gpu", (f"device.driver == '{DRIVER}'",)),),
        server_version=version,
    )


def _device(index: int, chance: Random) -> SliceDevice:
    attributes: dict[str, Attribute] = {"model": chance.choice("AB"), "uuid": f"GPU-{chance.random()}"}
    if chance.random() < 0.9:
        attributes["numa"] = chance.randrange(2)
    taints = (Taint("broken", "", "NoSchedule"),) if chance.random() < 0.1 else ()
    memory = Capacity(Fraction(chance.choice((16, 80)) << 30))
    return SliceDevice(f"gpu-{index}", attributes, {"memory": memory}, taints)


def asking(count: int, *selectors: str, constraint: str = "") -> ResourceClaim:
    """A claim of so many devices."""
    request = DeviceRequest("gpu", "gpu", count=count, selectors=selectors)
    constraints = (Constraint(constraint),) if constraint else ()
    return ResourceClaim("ml", "mine", "uid-mine", (request,), constraints)


def asking_first_of(*parts: tuple[int, str]) -> ResourceClaim:
    """A claim of the first alternative that can be had: a count, and a selector."""
    ways = tuple(
        DeviceRequest(f"way-{index}", "gpu", count=count, selectors=(selector,))
        for index, (count, selector) in enumerate(parts)
    )
    return ResourceClaim("ml", "mine", "uid-mine", (DeviceRequest("gpu", alternatives=ways),))


def claiming(name: str, *claims: ResourceClaim, cpu: int = 0) -> tuple[Pod, tuple[ResourceClaim, ...]]:
    """A pod that waits for claims like these, and its own claims."""
    own = tuple(
        replace(claim, name=f"{name}-{index}", uid=f"uid-{name}-{index}")
        for index, claim in enumerate(claims)
    )
    entries = tuple(PodClaim(f"gpu-{index}", claim.name) for index, claim in enumerate(own))
    containers = (Container("c", requests={"cpu": cpu} if cpu else {}),)
    return Pod(name, "ml", uid=f"uid-{name}", containers=containers, claims=entries), own
