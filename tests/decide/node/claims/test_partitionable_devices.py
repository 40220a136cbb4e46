"""MIG devices that do not exist yet, published with counters, and which of them a claim can have."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from support.claim_inputs import A100_SIZES, GPUS, part
from tonnage.decide.node.claims.published import published_devices
from tonnage.decide.node.claims.slices import CounterShape, desired_specs
from tonnage.model.catalog.mig import mig_model
from tonnage.model.devices.claims import Partition, PublishedDevice
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.mig.geometry import all_layouts, is_valid

PARTITIONED = PluginConfig(claimed=("all",), partitioned=True)
TOLD = pytest.mark.parametrize("told", [False, True], ids=["catalogued", "told-by-the-driver"])


def in_mig_mode(count: int, *migs: MigDevice, product: str = "NVIDIA A100-SXM4-40GB") -> Inventory:
    return Inventory(
        tuple(
            Device(f"GPU-{n}", n, product, 40960, "8.0", minor=n, mig_enabled=True, migs=migs)
            for n in range(count)
        )
    )


def with_sizes(inventory: Inventory) -> Inventory:
    """Of the same GPUs, whose driver tells what a MIG device of each profile has."""
    return Inventory(tuple(replace(device, profile_sizes=A100_SIZES) for device in inventory.devices))


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
@TOLD
def test_counters_are_published_in_the_shape_of_the_release(
    shape: CounterShape, gpus: int, seen: list[tuple[int, int]], told: bool
) -> None:
    inventory = with_sizes(in_mig_mode(gpus)) if told else in_mig_mode(gpus)
    specs: Any = desired_specs(published_devices(inventory, PARTITIONED), "n", counters=shape)
    assert counted(specs) == seen
    for spec in specs:
        assert sum(len(shared_counter["counters"]) for shared_counter in spec.get("sharedCounters", ())) <= (
            32 if shape is CounterShape.TOGETHER else 8 * 32
        )


def totals(device: PublishedDevice) -> dict[str, int]:
    return {name: as_mib(value) for name, value in device.counters.values} if device.counters else {}


def as_mib(quantity: str) -> int:
    number = int(quantity.rstrip("GMi"))
    return number << 10 if quantity.endswith("Gi") else number


@TOLD
def test_any_devices_whose_counters_suffice_are_a_layout_that_a_gpu_takes(told: bool) -> None:
    """Counters say what is_valid says, so that no claim is allocated that the driver refuses."""
    model = mig_model("NVIDIA A100-SXM4-40GB")
    assert model is not None
    gpu = in_mig_mode(1)
    devices = published_devices(with_sizes(gpu) if told else gpu, PARTITIONED)
    total = totals(devices[0])
    by_spot = {
        (device.partition.profile, device.partition.start): device for device in devices if device.partition
    }
    assert len(by_spot) == 25

    def fits(spots: tuple[tuple[str, int], ...]) -> bool:
        used = Counter[str]()
        for spot in spots:
            used.update({name: as_mib(value) for name, value in by_spot[spot].consumes.items()})
        return all(count <= total[name] for name, count in used.items())

    for pair in combinations(by_spot, 2):
        assert fits(pair) == is_valid(model, pair), pair
    for layout in all_layouts(model, full=True):
        assert fits(layout), layout


def test_what_the_driver_tells_of_profiles_is_published_under_nvidias_names() -> None:
    gpu = with_sizes(in_mig_mode(1))
    small = next(d for d in published_devices(gpu, PARTITIONED) if d.name == "gpu-0-mig-2g10gb-14-2")
    assert small.capacity == {
        "memory": "9856Mi",
        "multiprocessors": "28",
        "copyEngines": "2",
        "decoders": "1",
        "encoders": "0",
        "jpegEngines": "0",
        "ofaEngines": "0",
    }
    counted = {
        "memory": "9856Mi",
        "multiprocessors": "28",
        "copy-engines": "2",
        "decoders": "1",
        "encoders": "0",
        "jpeg-engines": "0",
        "ofa-engines": "0",
    }
    assert small.consumes == {**counted, "memory-slice-2": "1", "memory-slice-3": "1"}
    assert small.counters is not None
    assert dict(small.counters.values) == {
        "memory": "40Gi",
        "multiprocessors": "98",
        "copy-engines": "7",
        "decoders": "5",
        "encoders": "0",
        "jpeg-engines": "1",
        "ofa-engines": "1",
        **{f"memory-slice-{place}": "1" for place in range(8)},
    }


def test_a_mig_device_has_the_same_capacities_made_and_not_made() -> None:
    """A selector reads them. NVIDIA's driver, too, tells of the memory slices of one that exists alone."""
    size = A100_SIZES[14]
    mig = MigDevice(
        *("MIG-2", 0, "2g.10gb", 1, 0, size.memory_mib, (2, 2)),
        multiprocessors=size.multiprocessors,
        copy_engines=size.copy_engines,
        decoders=size.decoders,
        profile_number=14,
    )
    unmade, made = (
        next(d for d in published_devices(gpu, PARTITIONED) if d.name == "gpu-0-mig-2g10gb-14-2")
        for gpu in (with_sizes(in_mig_mode(1)), with_sizes(in_mig_mode(1, mig)))
    )
    assert (unmade.uuid, made.uuid) == ("", "MIG-2")
    assert made.capacity == {**unmade.capacity, "memorySlice2": "1", "memorySlice3": "1"}
    assert made.consumes == unmade.consumes


def test_a_profile_that_the_driver_does_not_offer_is_not_published() -> None:
    [device] = in_mig_mode(1).devices
    offered = {number: size for number, size in A100_SIZES.items() if number != 15}
    devices = published_devices(Inventory((replace(device, profile_sizes=offered),)), PARTITIONED)
    unfit = {device.unfit for device in devices if "mig-1g10gb-15" in device.name}
    assert unfit == {"the driver does not offer its profile"}
    assert not [device.name for device in devices if device.unfit and "-15-" not in device.name]


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
