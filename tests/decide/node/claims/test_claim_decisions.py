"""What is published of devices, what a claim's configuration may say, and who gets which device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.claim_inputs import GPUS, V, part
from tonnage.decide.node.claims.claim_spec import device_name
from tonnage.decide.node.claims.prepare import prepare
from tonnage.decide.node.claims.published import available, published_devices
from tonnage.decide.node.claims.sharing import ClaimGround, SharedUse
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
from tonnage.model.devices.claims import (
    DRIVER,
    ClaimRef,
    PreparedClaim,
    PublishedDevice,
    ShareRule,
)
from tonnage.model.devices.inventory import Device, Inventory, MigDevice, TimeSlice
from tonnage.model.devices.sharing import Hold, HoldKind, PluginConfig
from tonnage.model.json_access import at, copied, flag, items
from tonnage.model.reasons.reason import Reason

OWNER = NodeOwner("n", "uid-n")

REF = ClaimRef("ml", "train", "u-1")

CONFIG = "claim ml/train: status.allocation.devices.config[0]"


def published(count: int) -> tuple[PublishedDevice, ...]:
    return tuple(PublishedDevice(f"gpu-{n}", f"GPU-{n}", {"type": "gpu"}) for n in range(count))


def settled(specs: Any, standing: list[Any]) -> tuple[list[Any], list[str]]:
    """(slices once no step is left, the steps) by a server that keeps everything."""
    steps: list[str] = []
    while (step := next_step(specs, standing, OWNER)) is not None:
        assert len(steps) < 20
        steps.append(type(step).__name__)
        name = step.name if isinstance(step, SurplusSlice) else step.body["metadata"]["name"]  # type: ignore[index,call-overload]
        standing = [each for each in standing if each["metadata"]["name"] != name]
        if isinstance(step, NewSlice | ChangedSlice):
            standing.append(copied(step.body))
    return standing, steps


def test_the_first_publication_is_one_generation_and_the_next_change_another_of_all_slices() -> None:
    specs = desired_specs(published(100), "n")
    standing, steps = settled(specs, [])
    assert steps == ["NewSlice", "NewSlice"]
    assert [each["spec"]["pool"]["generation"] for each in standing] == [1, 1]
    fewer = desired_specs(published(99), "n")
    standing, steps = settled(fewer, standing)
    assert steps == ["ChangedSlice", "ChangedSlice"]
    assert {each["spec"]["pool"]["generation"] for each in standing} == {2}
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
    specs: Any = tuple(copied(each) for each in desired_specs(published(2), "n"))
    specs[0]["devices"][0]["taints"] = [{"key": "k", "effect": "NoSchedule"}]
    standing, _ = settled(specs, [])
    del standing[0]["spec"]["devices"][0]["taints"]
    assert next_step(specs, standing, OWNER) is None
    assert dropped_fields(specs, standing, "n") == ("taints",)
    standing[0]["spec"]["devices"][0]["name"] = "gpu-9"
    assert isinstance(next_step(specs, standing, OWNER), ChangedSlice), "somebody changed it"


def test_an_unhealthy_device_is_tainted_where_that_is_kept_and_else_left_out() -> None:
    devices = (*published(1), PublishedDevice("gpu-1", "GPU-1", healthy=False))
    specs: Any = desired_specs(devices, "n")
    taint = [{"key": "tonnage.dev/unhealthy", "effect": "NoSchedule"}]
    assert [each.get("taints") for each in specs[0]["devices"]] == [None, taint]
    specs = desired_specs(devices, "n", taints=False)
    assert [each["name"] for each in specs[0]["devices"]] == ["gpu-0"]


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


def status(*results: Any, config: Any = ()) -> Any:
    grants = [
        {"request": "gpu", "driver": DRIVER, "pool": "n", "device": "gpu-0", **each} for each in results
    ]
    return {"allocation": {"devices": {"results": grants, "config": list(config)}}}


def opaque(kind: str = "GpuConfig", source: str = "FromClaim", requests: Any = (), **more: Any) -> Any:
    parameters = {"apiVersion": V, "kind": kind, **more}
    return {
        "source": source,
        "requests": list(requests),
        "opaque": {"driver": DRIVER, "parameters": parameters},
    }


SLICED: Any = {"sharing": {"strategy": "TimeSlicing"}}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        pytest.param(status(), "claim ml/train has no device of gpu.nvidia.com", id="nothing-allocated"),
        pytest.param(
            status({"driver": "gpu.example.com"}),
            "claim ml/train has no device of gpu.nvidia.com",
            id="of-another-driver",
        ),
        pytest.param(
            status({"pool": "m"}),
            "device m/gpu-0 of claim ml/train belongs to another node than n",
            id="elsewhere",
        ),
        pytest.param(
            status({"device": "gpu-7"}),
            "device n/gpu-7 of claim ml/train is not offered by this node any more",
            id="gone",
        ),
        pytest.param(
            status({"device": "gpu-1"}),
            "device n/gpu-1 of claim ml/train is held as claim ml/other",
            id="held",
        ),
        pytest.param(
            status({"device": "gpu-2"}),
            "device n/gpu-2 of claim ml/train is unhealthy (Xid 79)",
            id="unhealthy",
        ),
        pytest.param(
            status({"shareID": "8a1e"}),
            "device n/gpu-0 of claim ml/train is a share of a GPU, and the node offers it to one claim alone",
            id="a-share",
        ),
        pytest.param(
            status({}, config=[opaque(sharing={"strategy": "MPS"})]),
            f"{CONFIG}: sharing by MPS needs flags.mpsRoot in the node's configuration;"
            " the chart's mps.root sets it",
            id="mps-without-a-folder",
        ),
        pytest.param(
            status({"adminAccess": True}, config=[opaque(**SLICED)]),
            f"{CONFIG}: who has admin access to a device cannot have it shared",
            id="an-administrator-who-would-share",
        ),
        pytest.param(
            status({}, config=[opaque(), opaque(source="FromClass", **SLICED)]),
            None,
            id="the-claims-own-wins-over-its-classs",
        ),
        pytest.param(
            status({}, config=[opaque("MigDeviceConfig")]), None, id="of-another-type-for-all-is-left-out"
        ),
        pytest.param(
            status({}, config=[opaque("MigDeviceConfig", requests=["gpu"])]),
            f"{CONFIG}: MigDeviceConfig is not for the request gpu, which has a gpu",
            id="of-another-type-for-that-request",
        ),
        pytest.param(
            status({}, config=[opaque(share={})]),
            'claim ml/train: status.allocation.devices.config[0]: unknown field "share"',
            id="unknown-field",
        ),
        pytest.param(status({"device": "gpu-1", "adminAccess": True}), None, id="an-administrator-beside-it"),
    ],
)
def test_whether_a_claim_gets_its_devices(given: Any, told: str | None) -> None:
    devices = {each.name: each for each in published(2)}
    devices["gpu-2"] = PublishedDevice("gpu-2", "GPU-2", healthy=False, reason="Xid 79")
    held = DeviceHolds.of([Hold("ml/other", ("GPU-1",), kind=HoldKind.CLAIM)])
    decided = prepare(REF, "u-1", given, ClaimGround("n", devices, held))
    assert (decided.message if isinstance(decided, Reason) else None) == told


@pytest.mark.parametrize(
    ("given", "shared", "told"),
    [
        pytest.param(status({"shareID": "8a1e"}), {}, None, id="the-first-part"),
        pytest.param(
            status({"shareID": "8a1e"}, {"shareID": "8a1f"}), {}, None, id="two-parts-of-one-for-one-claim"
        ),
        pytest.param(
            status({"device": "gpu-1", "shareID": "8a1e"}),
            {"GPU-1": (SharedUse("ml/other"),)},
            None,
            id="beside-another-claims-part",
        ),
        pytest.param(
            status({"device": "gpu-1", "shareID": "8a1e"}),
            {},
            "device n/gpu-1 of claim ml/train is held as claim ml/other",
            id="of-a-gpu-that-another-has-alone",
        ),
        pytest.param(
            status({"device": "gpu-1"}),
            {"GPU-1": (SharedUse("ml/other"),)},
            "device n/gpu-1 of claim ml/train is held as claim ml/other",
            id="all-of-a-gpu-of-which-another-has-a-part",
        ),
        pytest.param(
            status({"shareID": "../8a1e"}),
            {},
            "device n/gpu-0 of claim ml/train is a share of a GPU, and the node offers it to one claim alone",
            id="an-id-that-is-no-name",
        ),
        pytest.param(
            status({"shareID": "8a1e"}, config=[opaque(sharing={"strategy": "MPS"})]),
            {},
            f"{CONFIG}: MPS cannot share a GPU of which the claim has a part",
            id="by-mps",
        ),
        pytest.param(
            status({"device": "gpu-1", "shareID": "8a1e"}, config=[opaque(**SLICED)]),
            {"GPU-1": (SharedUse("ml/other"),)},
            "claim ml/train: status.allocation.devices.config: claim ml/other has a part of the GPU with no "
            "time slice, and this one asks for the time slice Default",
            id="with-another-time-slice",
        ),
        pytest.param(
            status({"device": "gpu-1", "shareID": "8a1e"}, config=[opaque(**SLICED)]),
            {"GPU-1": (SharedUse("ml/other", TimeSlice.DEFAULT),)},
            None,
            id="with-the-same-time-slice",
        ),
    ],
)
def test_whether_a_claim_gets_a_part_of_a_gpu(given: Any, shared: Any, told: str | None) -> None:
    rule = {"memory": ShareRule("0", "0", "1Mi")}
    devices = {each.name: replace(each, shares=rule) for each in published(2)}
    held = DeviceHolds.of([Hold("ml/other", ("GPU-1",), kind=HoldKind.CLAIM)])
    ground = ClaimGround("n", devices, held, mps_root="/mps", shared=shared)
    decided = prepare(REF, "u-1", given, ground)
    assert (decided.message if isinstance(decided, Reason) else None) == told
    if isinstance(decided, PreparedClaim):
        names = [device_name(decided, device) for device in decided.devices]
        assert len({*names}) == len(names)


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


@pytest.mark.parametrize(
    ("uid", "uids", "told"),
    [
        pytest.param(
            "u-2",
            {},
            "claim ml/train got replaced: kubelet asks for u-1, and u-2 has its name",
            id="replaced",
        ),
        pytest.param(
            "", {}, "claim ml/train got replaced: kubelet asks for u-1, and none has its name", id="gone"
        ),
        pytest.param(
            "u-1",
            {"ml/train": "u-0"},
            "an earlier claim ml/train (u-0) still holds devices of this node",
            id="an-earlier-one",
        ),
    ],
)
def test_a_claim_of_another_uid_gets_nothing(uid: str, uids: Any, told: str) -> None:
    ground = ClaimGround("n", {each.name: each for each in published(1)}, DeviceHolds(), uids=uids)
    decided = prepare(REF, uid, status({}), ground)
    assert isinstance(decided, Reason)
    assert decided.message == told


def test_the_request_is_told_without_its_alternative() -> None:
    ground = ClaimGround("n", {each.name: each for each in published(1)}, DeviceHolds(), "boot")
    decided = prepare(REF, "u-1", status({"request": "gpu/large"}), ground)
    assert isinstance(decided, PreparedClaim)
    assert [device.request for device in decided.devices] == ["gpu"]
    assert decided.boot == "boot"
