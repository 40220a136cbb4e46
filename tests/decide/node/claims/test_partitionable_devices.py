"""MIG devices that do not exist yet, published with counters, and which of them a claim can have."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from support.claim_inputs import GPUS, part
from tonnage.decide.node.claims.published import published_devices
from tonnage.decide.node.claims.slices import (
    CounterShape,
    desired_specs,
)
from tonnage.model.catalog.mig import mig_model
from tonnage.model.devices.claims import (
    Partition,
)
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.mig.geometry import is_valid

PARTITIONED = PluginConfig(claimed=("all",), partitioned=True)


def in_mig_mode(count: int, *migs: MigDevice, product: str = "NVIDIA A100-SXM4-40GB") -> Inventory:
    return Inventory(
        tuple(
            Device(f"GPU-{n}", n, product, 40960, "8.0", minor=n, mig_enabled=True, migs=migs)
            for n in range(count)
        )
    )


def counted(specs: Any) -> list[tuple[int, int]]:
    """(counter sets, devices) of each slice."""
    return [(len(spec.get("sharedCounters", ())), len(spec.get("devices", ()))) for spec in specs]


@pytest.mark.parametrize(
    ("shape", "gpus", "seen"),
    [
        pytest.param(CounterShape.NONE, 1, [], id="without-counters-nothing-is-published"),
        pytest.param(CounterShape.PROBE, 9, [(1, 0)], id="one-set-to-see-whether-it-stays"),
        pytest.param(
            CounterShape.SPLIT,
            9,
            [(8, 0), (1, 0), (0, 64), (0, 64), (0, 64), (0, 33)],
            id="since-1.35-slices-of-eight-sets-and-slices-of-devices",
        ),
        pytest.param(
            CounterShape.TOGETHER, 5, [(2, 50), (2, 50), (1, 25)], id="in-1.34-a-gpu-is-whole-in-a-slice"
        ),
    ],
)
def test_counters_are_published_in_the_shape_of_the_release(
    shape: CounterShape, gpus: int, seen: list[tuple[int, int]]
) -> None:
    specs: Any = desired_specs(published_devices(in_mig_mode(gpus), PARTITIONED), "n", counters=shape)
    assert counted(specs) == seen
    for spec in specs:
        assert sum(len(shared_counter["counters"]) for shared_counter in spec.get("sharedCounters", ())) <= (
            32 if shape is CounterShape.TOGETHER else 8 * 32
        )


def test_any_devices_whose_counters_suffice_are_a_layout_that_a_gpu_takes() -> None:
    """Counters say what is_valid says, so that no claim is allocated that the driver refuses."""
    model = mig_model("NVIDIA A100-SXM4-40GB")
    assert model is not None
    devices = published_devices(in_mig_mode(1), PARTITIONED)
    total = dict(devices[0].counters.values) if devices[0].counters else {}
    for first, second in combinations(devices, 2):
        used = Counter[str]()
        for each in (first, second):
            used.update({name: int(value) for name, value in each.consumes.items() if name != "memory"})
        fits = all(count <= int(total[name]) for name, count in used.items())
        spots = [(p.profile, p.start) for each in (first, second) if (p := each.partition) is not None]
        assert fits == is_valid(model, spots), spots


def test_a_mig_device_that_no_claim_made_can_be_claimed_and_nothing_in_its_place() -> None:
    mig = replace(part("2g.10gb", 14, 2), placement=(2, 2))
    devices = {device.name: device for device in published_devices(in_mig_mode(1, mig), PARTITIONED)}
    assert devices["gpu-0-mig-2g10gb-14-2"].uuid == "MIG-2"
    assert devices["gpu-0-mig-2g10gb-14-2"].partition is None
    assert devices["gpu-0-mig-1g5gb-19-3"].unfit == "MIG-2 is in its place, which no claim made"
    assert not devices["gpu-0-mig-1g5gb-19-4"].unfit
    made = frozenset({Partition("GPU-0", "2g.10gb", 2, 2)})
    own = published_devices(in_mig_mode(1, mig), PARTITIONED, made=made)
    assert own == published_devices(in_mig_mode(1), PARTITIONED), "the slice does not change"


def test_a_gpu_out_of_mig_mode_is_claimed_whole_and_an_unknown_one_not_at_all() -> None:
    whole = Inventory((replace(GPUS[0], mig_enabled=False),))
    assert [device.name for device in published_devices(whole, PARTITIONED)] == ["gpu-0"]
    [unknown] = published_devices(in_mig_mode(1, product="NVIDIA X1"), PARTITIONED)
    assert unknown.unfit == "the catalogue does not know which MIG devices it can have"
