"""Which devices a node publishes for claims, and how its ResourceSlices come to say so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.claim_inputs import A100_SIZES, GPUS, part
from tonnage.decide.node.claims.published import available, published_devices
from tonnage.decide.node.claims.slices import (
    ChangedSlice,
    NewSlice,
    NodeOwner,
    SurplusSlice,
    desired_specs,
    dropped_fields,
    next_step,
    slice_name,
)
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.share import share
from tonnage.diagnose.remedies.claim_attributes import ATTRIBUTES, CAPACITIES
from tonnage.model.devices.claims import (
    PublishedDevice,
)
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.sharing import Hold, HoldKind, PluginConfig
from tonnage.model.json_access import at, copied, flag, items

OWNER = NodeOwner("n", "uid-n")


def published(count: int) -> tuple[PublishedDevice, ...]:
    return tuple(PublishedDevice(f"gpu-{n}", f"GPU-{n}", {"type": "gpu"}) for n in range(count))


def settled(specs: Any, standing: list[Any]) -> tuple[list[Any], list[str]]:
    """(slices once no step is left, the steps) by a server that keeps everything."""
    steps: list[str] = []
    while (step := next_step(specs, standing, OWNER)) is not None:
        assert len(steps) < 20
        steps.append(type(step).__name__)
        name = step.name if isinstance(step, SurplusSlice) else step.body["metadata"]["name"]  # type: ignore[index,call-overload]
        standing = [device for device in standing if device["metadata"]["name"] != name]
        if isinstance(step, NewSlice | ChangedSlice):
            standing.append(copied(step.body))
    return standing, steps


def test_the_first_publication_is_one_generation_and_the_next_change_another_of_all_slices() -> None:
    specs = desired_specs(published(100), "n")
    standing, steps = settled(specs, [])
    assert steps == ["NewSlice", "NewSlice"]
    assert [device["spec"]["pool"]["generation"] for device in standing] == [1, 1]
    fewer = desired_specs(published(99), "n")
    standing, steps = settled(fewer, standing)
    assert steps == ["ChangedSlice", "ChangedSlice"]
    assert {device["spec"]["pool"]["generation"] for device in standing} == {2}
    standing, steps = settled(desired_specs(published(3), "n"), standing)
    assert steps == ["ChangedSlice", "SurplusSlice"]
    assert standing[0]["spec"]["pool"] == {"name": "n", "generation": 3, "resourceSliceCount": 1}
    assert settled((), standing) == ([], ["SurplusSlice"])


def test_a_slice_that_somebody_deleted_comes_back_in_its_generation() -> None:
    specs = desired_specs(published(100), "n")
    standing, _ = settled(specs, [])
    again, steps = settled(specs, standing[1:])
    assert steps == ["NewSlice"]
    assert {each["spec"]["pool"]["generation"] for each in again} == {1}


def test_what_a_server_drops_is_told_and_not_written_again() -> None:
    specs: Any = tuple(copied(spec) for spec in desired_specs(published(2), "n"))
    specs[0]["devices"][0]["taints"] = [{"key": "k", "effect": "NoSchedule"}]
    standing, _ = settled(specs, [])
    del standing[0]["spec"]["devices"][0]["taints"]
    assert next_step(specs, standing, OWNER) is None
    assert dropped_fields(specs, standing, "n") == ("taints",)
    standing[0]["spec"]["devices"][0]["name"] = "gpu-9"
    assert isinstance(next_step(specs, standing, OWNER), ChangedSlice), "somebody changed it"


def test_an_unhealthy_device_is_tainted() -> None:
    devices = (*published(1), PublishedDevice("gpu-1", "GPU-1", healthy=False))
    specs: Any = desired_specs(devices, "n")
    taint = [{"key": "tonnage.dev/unhealthy", "effect": "NoSchedule"}]
    assert [device.get("taints") for device in specs[0]["devices"]] == [None, taint]


def test_names_of_slices_fit_any_node() -> None:
    long = "n" * 63 + "." + "m" * 63 + "." + "o" * 63 + "." + "p" * 61
    assert len(slice_name(0, long)) == 253
    assert slice_name(0, long) != slice_name(0, long[:-1] + "q")


def test_a_claimed_gpu_is_no_extended_resource_and_the_others_are() -> None:
    config = PluginConfig(claimed=("1", "GPU-2", "7"))
    plan = share(Inventory(GPUS), config)
    assert [slot.id for resource in plan.resources for slot in resource.slots] == ["GPU-0"]
    assert [refusal.message for refusal in plan.refusals] == ["no GPU 7 for claims"]
    assert [device.name for device in published_devices(Inventory(GPUS), config)] == ["gpu-1", "gpu-2"]


@pytest.mark.parametrize(
    ("gpu", "names", "unfit"),
    [
        pytest.param(
            {"mig_enabled": True, "migs": (part("1g.5gb+me", 20, 4), part("1g.5gb", 19, 0))},
            ["gpu-5-mig-1g5gb-19-0", "gpu-5-mig-1g5gbme-20-4"],
            "",
            id="its-mig-devices-in-order-of-their-places-and-not-the-gpu",
        ),
        pytest.param(
            {"mig_enabled": True},
            ["gpu-5"],
            "MIG is enabled, and it has no MIG devices",
            id="a-gpu-without-mig-devices",
        ),
        pytest.param(
            {"mig_enabled": True, "migs": (part("1c.3g.20gb", 9, 0),)},
            ["gpu-5-mig-1c3g20gb-9-0"],
            "it is a part of a GPU instance, and claims name whole ones",
            id="a-compute-instance-among-others",
        ),
        pytest.param(
            {"mig_enabled": True, "migs": (part("1g.5gb", None, 0),)},
            ["gpu-5-mig-1g5gb-None-0"],
            "its place on the GPU is unknown, by which claims name it; the agent needs --mig",
            id="one-whose-place-is-not-told",
        ),
    ],
)
def test_mig_devices_that_exist_are_published_in_the_place_of_their_gpu(
    gpu: Any, names: list[str], unfit: str
) -> None:
    inventory = Inventory((Device("GPU-0", 0, "NVIDIA A100-SXM4-40GB", 40960, minor=5, **gpu),))
    devices = published_devices(inventory, PluginConfig(claimed=("all",)))
    assert [device.name for device in devices] == names
    assert devices[0].unfit == unfit


def test_a_gpu_that_can_be_divided_has_the_capacities_of_its_largest_mig_device() -> None:
    gpu = Device("GPU-0", 0, "NVIDIA A100-SXM4-40GB", 40960, "8.0", minor=0, mig_enabled=False)
    gpu = replace(gpu, profile_sizes=A100_SIZES)
    [device] = published_devices(Inventory((gpu,)), PluginConfig(claimed=("all",)))
    counted = {"copyEngines": "7", "decoders": "5", "encoders": "0", "jpegEngines": "1", "ofaEngines": "1"}
    assert device.capacity == {"memory": "40Gi", "multiprocessors": "98", **counted}


def test_a_mig_device_has_the_attributes_of_its_gpu_and_its_own_memory_slices() -> None:
    mig = MigDevice(
        *("MIG-a", 0, "2g.10gb", 1, 0, 9856, (2, 2)), multiprocessors=28, decoders=1, profile_number=14
    )
    gpu = Device("GPU-0", 0, "NVIDIA A100-SXM4-40GB", 40960, "8.0", minor=0, mig_enabled=True, migs=(mig,))
    gpu = replace(gpu, addressing_mode="HMM")
    [device] = published_devices(Inventory((gpu,)), PluginConfig(claimed=("all",)))
    texts = {key: device.texts[key] for key in ("type", "uuid", "parentUUID", "profile", "productName")}
    assert texts == {
        "type": "mig",
        "uuid": "MIG-a",
        "parentUUID": "GPU-0",
        "profile": "2g.10gb",
        "productName": "NVIDIA A100-SXM4-40GB",
    }
    assert device.texts["addressingMode"] == "HMM"
    assert device.versions == {"cudaComputeCapability": "8.0.0"}
    engines = {"copyEngines": "0", "decoders": "1", "encoders": "0", "jpegEngines": "0", "ofaEngines": "0"}
    slices = {"memorySlice2": "1", "memorySlice3": "1"}
    assert device.capacity == {"memory": "9856Mi", "multiprocessors": "28", **engines, **slices}


@pytest.mark.parametrize("shares", ["", "4"])
def test_lint_knows_every_attribute_and_capacity_that_a_device_may_have(shares: str) -> None:
    mig = MigDevice(*("MIG-a", 0, "2g.10gb", 1, 0, 9856, (2, 2)), multiprocessors=28, profile_number=14)
    gpu = Device("GPU-0", 0, "NVIDIA A100-SXM4-40GB", 40960, "8.0", minor=0, addressing_mode="HMM")
    inventory = Inventory((gpu, replace(gpu, uuid="GPU-1", minor=1, mig_enabled=True, migs=(mig,))))
    inventory = replace(inventory, driver_version="580.1", cuda_version="13.0")
    devices = published_devices(inventory, PluginConfig(claimed=("all",), claim_shares=shares))
    names = {name for d in devices for name in (*d.texts, *d.versions, *d.numbers) if "/" not in name}
    assert len(devices) == 2
    assert names <= set(ATTRIBUTES)
    assert len(names) == 11, "but for those of virtual machines and of Fabric Manager"
    assert {name for device in devices for name in device.capacity} <= set(CAPACITIES)


def test_a_gpu_that_a_container_has_as_a_resource_is_not_published_and_one_of_a_claim_is() -> None:
    held = DeviceHolds.of(
        [
            Hold("nvidia.com/gpu", ("GPU-0",), "ml", "old"),
            Hold("ml/train", ("GPU-1",), kind=HoldKind.CLAIM),
        ]
    )
    devices = available(published_devices(Inventory(GPUS), PluginConfig(claimed=("all",))), held)
    assert [device.unfit for device in devices] == ["held as nvidia.com/gpu by ml/old", "", ""]
    [spec] = desired_specs(devices, "n")
    assert [device["name"] for device in spec["devices"]] == ["gpu-1", "gpu-2"]  # type: ignore[index,union-attr,call-overload]


STEPS = {"min": "1Mi", "step": "1Mi"}


FROM_NONE = {"min": "0", "step": "1Mi"}


@pytest.mark.parametrize(
    ("shares", "capacity"),
    [
        pytest.param("", {"memory": {"value": "1Mi"}}, id="alone"),
        pytest.param(
            "memory",
            {"memory": {"value": "40Gi", "requestPolicy": {"default": "40Gi", "validRange": STEPS}}},
            id="by-memory",
        ),
        pytest.param(
            "unlimited",
            {"memory": {"value": "40Gi", "requestPolicy": {"default": "0", "validRange": FROM_NONE}}},
            id="any-number",
        ),
    ],
)
def test_gpus_are_published_in_parts(shares: str, capacity: Any) -> None:
    gpu = Device("GPU-0", 0, "A100", 40960 if shares else 1, minor=0)
    config = PluginConfig(claimed=("0",), claim_shares=shares)
    [spec] = desired_specs(published_devices(Inventory((gpu,)), config), "n")
    [device] = items(spec, "devices")
    given = (at(device, "capacity"), flag(device, "allowMultipleAllocations"))
    assert given == (capacity, bool(shares))
