"""What nodes offer as claims is counted by what could still be given."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tonnage.diagnose.fleet.claim_pools import claim_pools
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.kubernetes.resource_claims import (
    AllocatedDevice,
    Attribute,
    ClaimAllocation,
    ClaimDeviceId,
    NodeScope,
    ResourceClaim,
    ResourceSlice,
    SliceDevice,
)

DRIVER = "gpu.nvidia.com"
MIG: dict[str, Attribute] = {"type": "mig"}


def partition(name: str, slices: int) -> SliceDevice:
    return SliceDevice(name, MIG, consumes={"gpu-0": {"memory-slices": Fraction(slices)}})


def held(*names: str) -> ResourceClaim:
    devices = tuple(AllocatedDevice("gpu", ClaimDeviceId(DRIVER, "a", name)) for name in names)
    return ResourceClaim("ml", "held", "uid", allocation=ClaimAllocation(devices))


@pytest.mark.parametrize(
    ("claims", "usable", "free"),
    [
        pytest.param((), 4, 4, id="each could be given"),
        pytest.param((held("small-0"),), 3, 2, id="the largest is crowded out"),
        pytest.param((held("half-0"),), 3, 2, id="by half of the GPU too"),
        pytest.param((held("whole"),), 1, 0, id="a whole GPU leaves nothing"),
    ],
)
def test_devices_that_share_counters_crowd_each_other_out(
    claims: tuple[ResourceClaim, ...], usable: int, free: int
) -> None:
    devices = (partition("small-0", 1), partition("half-0", 4), partition("half-1", 4), partition("whole", 8))
    scope = NodeScope("a")
    slices = (
        ResourceSlice("0", DRIVER, "a", scope=scope, counters={"gpu-0": {"memory-slices": Fraction(8)}}),
        ResourceSlice("1", DRIVER, "a", scope=scope, devices=devices),
    )
    [pool] = claim_pools(Snapshot(slices=slices, claims=claims))["a"]
    assert (pool.count, pool.usable, pool.free) == (4, usable, free)
