"""Preferred replicas and parts of devices: what each policy promises, for any state of a node."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.node.preference.prefer import prefer
from tonnage.model.devices.sharing import DeviceSlot, PlannedResource, SharedPolicy
from tonnage.model.names import GPU, parse_device_id

DEVICES, REPLICAS = 4, 3
IDS = [f"GPU-{i}::{n}" for i in range(DEVICES) for n in range(REPLICAS)]
RESOURCE = PlannedResource(GPU, tuple(DeviceSlot(i, parse_device_id(i).uuid) for i in IDS), REPLICAS)


def per_device(ids: tuple[str, ...] | list[str]) -> Counter[str]:
    return Counter(parse_device_id(slot).uuid for slot in ids)


@given(st.data(), st.sampled_from(SharedPolicy))
def test_every_policy_keeps_its_promise(data: st.DataObject, policy: SharedPolicy) -> None:
    available = data.draw(st.lists(st.sampled_from(IDS), unique=True, min_size=1))
    size = data.draw(st.integers(1, len(available)))
    required = data.draw(st.lists(st.sampled_from(available), unique=True, max_size=size))
    got = prefer(RESOURCE, available, required, size, policy=policy)
    free, mine, must = per_device(available), per_device(got), per_device(required)
    assert set(required) <= set(got) <= set(available)
    chosen = {uuid for uuid in mine if mine[uuid] > must[uuid]}
    if policy is SharedPolicy.SPREAD_STRICT:
        assert all(mine[uuid] == 1 for uuid in chosen)
        assert len(got) == min(size, len(required) + len(free.keys() - must.keys()))
        return
    assert len(got) == size
    more = {uuid for uuid in free if free[uuid] > mine[uuid]}
    taken = {uuid: REPLICAS - free[uuid] + mine[uuid] for uuid in free}
    for entry in chosen:
        for other in more - {entry}:
            if policy is SharedPolicy.SPREAD:
                assert mine[entry] <= mine[other] + 1
            elif policy is SharedPolicy.DISTRIBUTED:
                assert taken[entry] <= taken[other] + 1
            else:
                assert taken[entry] > taken[other]


PARTS = PlannedResource(
    GPU,
    tuple(
        DeviceSlot(f"MIG-{gpu}{part}", f"MIG-{gpu}{part}", part_of=f"GPU-{gpu}")
        for gpu in range(3)
        for part in "abc"
    ),
)


@pytest.mark.parametrize(
    ("policy", "free", "size", "chosen"),
    [
        pytest.param("distributed", "0c 1a 1b 1c 2b", 1, "1a", id="distributed: of the GPU least in use"),
        pytest.param("packed", "0c 1a 1b 1c 2b 2c", 1, "0c", id="packed: of the GPU most in use"),
        pytest.param("packed", "0c 1a 1b 1c 2b 2c", 3, "0c 2b 2c", id="packed: whole GPUs stay free"),
        pytest.param("spread", "0c 1a 1b 1c 2b", 3, "0c 1a 2b", id="spread: of three GPUs"),
        pytest.param("spread-strict", "1a 1b 1c", 2, "1a 1b", id="spread-strict refuses replicas, not parts"),
    ],
)
def test_parts_of_a_device_are_chosen_by_their_device(policy: str, free: str, size: int, chosen: str) -> None:
    available = [f"MIG-{part}" for part in free.split()]
    got = prefer(PARTS, available, (), size, policy=SharedPolicy(policy))
    assert sorted(got) == [f"MIG-{part}" for part in chosen.split()]
