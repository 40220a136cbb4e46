"""Devices for claims against recorded answers of the scheduler's own allocators."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tonnage.decide.kubernetes.claims.allocator import (
    AllocationAnswer,
    AllocatorError,
    ClaimDevices,
    NodeCannotAllocate,
    allocate,
)
from tonnage.decide.kubernetes.claims.supply import Supply, gates_of, supply_of
from tonnage.reading.claims import claim_from
from tonnage.reading.cluster import node_from, snapshot_from
from tonnage.wire import claims as claim_objects
from tonnage.wire import objects as w

_FILE: Final = Path(__file__).parents[3] / "data" / "dra-allocations.json.gz"
RELEASES: Final = ("1.34", "1.35", "1.36", "1.37")


@cache
def recorded() -> dict[str, Any]:
    with gzip.open(_FILE) as file:
        document: dict[str, Any] = json.load(file)
    return document


def supply_in(case: dict[str, Any], minor: int) -> Supply:
    objects = [
        *(msgspec.convert(one, claim_objects.ResourceSlice) for one in case["slices"]),
        *(msgspec.convert(one, claim_objects.DeviceClass) for one in recorded()["classes"]),
        *(msgspec.convert(one, claim_objects.ResourceClaim) for one in (*case["claims"], *case["others"])),
    ]
    snapshot = snapshot_from(objects)
    return supply_of(snapshot.slices, snapshot.device_classes, snapshot.claims, gates_of(minor))


def told(answer: AllocationAnswer) -> dict[str, Any]:
    if isinstance(answer, ClaimDevices):
        return {"devices": [[[entry.request, *entry.id] for entry in part] for part in answer.devices]}
    assert isinstance(answer, AllocatorError | NodeCannotAllocate)
    text = answer.upstream_message
    return {"error": text} if text else {"none": 1}


@pytest.mark.parametrize("release", RELEASES)
def test_the_same_devices_in_the_same_order_or_the_same_error(release: str) -> None:
    minor = int(release[2:])
    seen = set()
    for number, case in enumerate(recorded()["releases"][release]):
        claims = [claim_from(msgspec.convert(claim, claim_objects.ResourceClaim)) for claim in case["claims"]]
        node = node_from(msgspec.convert(case["node"], w.Node))
        assert told(allocate(claims, node, supply_in(case, minor))) == case["expect"], number
        seen.update(case["expect"])
    assert seen == {"devices", "error", "none"}
