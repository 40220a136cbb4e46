"""Share, advertise, allocate, prefer: the device plugin's decisions, one by one."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.node.advertise import advertise
from tonnage.decide.node.allocate import allocate
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.preference.prefer import prefer
from tonnage.decide.node.serve import Publish, Register, RunningPluginServer, Serve, Withdraw, reconcile
from tonnage.decide.node.share import share
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.sharing import (
    Advertisement,
    Allocation,
    DeviceSlot,
    Hold,
    PlannedResource,
    PluginConfig,
    SharedPolicy,
    SharedResource,
)
from tonnage.model.names import GPU, ResourceName, parse_device_id
from tonnage.model.node.plugin_settings import MigStrategy
from tonnage.model.reasons.reason import Reason

SHARED = ResourceName("nvidia.com/gpu.shared")


def inventory(count: int = 4) -> Inventory:
    return Inventory(
        tuple(Device(f"GPU-{i}", i, "NVIDIA L40S", 46068, numa_node=i // 2) for i in range(count))
    )


def sharing(
    replicas: int = 4, devices: int | tuple[str, ...] | None = None, *, single: bool = False
) -> PluginConfig:
    shared = (SharedResource(GPU, SHARED, replicas, devices),)
    return PluginConfig(shared, fail_requests_greater_than_one=single)


def ids(resource: PlannedResource | Advertisement) -> list[str]:
    return [slot.id for slot in resource.slots]


def only(config: PluginConfig, count: int = 4) -> PlannedResource:
    (resource,) = share(inventory(count), config).resources
    return resource


def test_without_sharing_every_device_is_exclusive() -> None:
    resource = only(PluginConfig())
    assert (resource.name, ids(resource), resource.shared) == (
        GPU,
        ["GPU-0", "GPU-1", "GPU-2", "GPU-3"],
        False,
    )


def test_shr_2_four_replicas_on_four_devices_are_sixteen_slots() -> None:
    resource = only(sharing(4))
    assert resource.name == SHARED
    assert len(set(ids(resource))) == 16
    assert ids(resource)[:5] == ["GPU-0::0", "GPU-0::1", "GPU-0::2", "GPU-0::3", "GPU-1::0"]


@pytest.mark.parametrize(
    ("devices", "chosen"),
    [
        pytest.param(2, {"GPU-0", "GPU-1"}, id="a count takes the first"),
        pytest.param(("1", "GPU-3"), {"GPU-1", "GPU-3"}, id="indices and uuids"),
        pytest.param(None, {"GPU-0", "GPU-1", "GPU-2", "GPU-3"}, id="all"),
    ],
)
def test_selected_devices_are_shared_and_the_rest_exclusive(
    devices: int | tuple[str, ...] | None, chosen: set[str]
) -> None:
    plan = share(inventory(), sharing(2, devices))
    owners = {slot.uuid: resource.name for resource in plan.resources for slot in resource.slots}
    assert {uuid for uuid, name in owners.items() if name == SHARED} == chosen
    assert {uuid for uuid, name in owners.items() if name == GPU} == set(owners) - chosen
    assert not plan.refusals


@pytest.mark.parametrize("devices", [9, ("9",), ("GPU-x", "0")])
def test_a_selector_without_device_is_a_problem_and_the_rest_works(devices: int | tuple[str, ...]) -> None:
    plan = share(inventory(), sharing(2, devices))
    assert len(plan.refusals) == 1
    assert {slot.uuid for r in plan.resources for slot in r.slots} == {f"GPU-{i}" for i in range(4)}


def test_no_device_offers_nothing() -> None:
    assert share(Inventory(), sharing()).resources == ()


def test_a_device_held_under_another_name_is_unhealthy_and_refused() -> None:
    plan = share(inventory(), sharing())
    held = (Hold(GPU, ("GPU-1",), "ml", "train", "main"),)
    (shown,) = advertise(plan, held)
    assert {slot.uuid for slot in shown.slots if not slot.healthy} == {"GPU-1"}
    assert shown.slots[4].reason == "held as nvidia.com/gpu by ml/train"
    refusal = allocate(plan.resources[0], ["GPU-1::0"], DeviceHolds.of(held))
    assert isinstance(refusal, Reason)
    assert refusal.code == "held-under-another-name"


def test_a_device_whose_holder_kubelet_forgot_is_offered_and_refused() -> None:
    """It still counts: the pod that has it is counted too."""
    plan = share(inventory(2), PluginConfig())
    held = (Hold(GPU, ("GPU-1",), "ml", "train", "main", forgotten=True),)
    assert all(slot.healthy for shown in advertise(plan, held) for slot in shown.slots)
    assert isinstance(allocate(plan.resources[0], ["GPU-0"], DeviceHolds.of(held)), Allocation)
    refusal = allocate(plan.resources[0], ["GPU-1"], DeviceHolds.of(held))
    assert isinstance(refusal, Reason)
    assert refusal.code == "held-and-forgotten"
    assert "by ml/train, which kubelet has forgotten" in refusal.message


def test_same_name_but_exclusive_before_and_shared_now_is_another_use() -> None:
    config = PluginConfig((SharedResource(GPU, GPU, 2),))
    (shown,) = advertise(share(inventory(2), config), [Hold(GPU, ("GPU-0",))])
    assert [slot.healthy for slot in shown.slots] == [False, False, True, True]


PARTS = tuple(
    MigDevice(f"MIG-{i}", i, "1g.10gb", gpu_instance=i, compute_instance=0, memory_mib=1) for i in range(2)
)
DIVIDED = Inventory((Device("GPU-0", 0, "x", 1, mig_enabled=True, migs=PARTS), Device("GPU-1", 1, "x", 1)))


@pytest.mark.parametrize(
    ("strategy", "name", "held", "unhealthy"),
    [
        pytest.param("mixed", GPU, "GPU-0", {"MIG-0", "MIG-1"}, id="parts while the whole is held"),
        pytest.param(
            "none", "nvidia.com/mig-1g.10gb", "MIG-0", {"GPU-0"}, id="the whole while a part is held"
        ),
        pytest.param(
            "mixed", "nvidia.com/mig-1g.10gb", "MIG-0", set[str](), id="a part while another is held"
        ),
        pytest.param("mixed", GPU, "MIG-0", {"MIG-0"}, id="a part that is held as if it were a whole"),
        pytest.param(
            "mixed", "nvidia.com/mig-1g.10gb", "MIG-0::1", {"MIG-0"}, id="a part that is held shared"
        ),
        pytest.param("mixed", GPU, "GPU-1", set[str](), id="a device that is held as it is offered"),
    ],
)
def test_a_device_and_its_parts_are_not_offered_at_once(
    strategy: str, name: str, held: str, unhealthy: set[str]
) -> None:
    plan = share(DIVIDED, PluginConfig(mig_strategy=MigStrategy(strategy)))
    holds = (Hold(name, (held,), "ml", "train"),)
    shown = [slot for resource in advertise(plan, holds) for slot in resource.slots]
    assert {slot.id for slot in shown if not slot.healthy} == unhealthy
    for resource in plan.resources:
        for slot in resource.slots:
            allocation = allocate(resource, [slot.id], DeviceHolds.of(holds), plan.whole_of)
            assert isinstance(allocation, Reason) == (slot.id in unhealthy)


def test_holds_under_the_own_use_change_nothing() -> None:
    plan = share(inventory(), sharing())
    (shown,) = advertise(plan, [Hold(SHARED, ("GPU-0::0", "GPU-0::7"))])
    assert all(slot.healthy for slot in shown.slots)


@pytest.mark.parametrize(
    ("config", "asked", "code", "text"),
    [
        pytest.param(PluginConfig(), ["GPU-9"], "unknown-device", "unknown device: GPU-9", id="unknown"),
        pytest.param(PluginConfig(), [], "no-devices", "no devices requested", id="nothing asked"),
        pytest.param(PluginConfig(), ["GPU-0", "GPU-0"], "duplicate-device", "requested twice", id="twice"),
        pytest.param(
            sharing(single=True),
            ["GPU-0::0", "GPU-1::0"],
            "shared-request-too-large",
            "maximum request size for shared resources is 1; found 2",
            id="ADM-5: two of a shared resource that refuses more than one",
        ),
    ],
)
def test_refusals(config: PluginConfig, asked: list[str], code: str, text: str) -> None:
    resource = only(config)
    refusal = allocate(resource, asked, DeviceHolds())
    assert isinstance(refusal, Reason)
    assert refusal.code == code
    assert refusal.message.startswith(f'invalid allocation request for "{resource.name}": invalid request: ')
    assert text in refusal.message


def test_an_unhealthy_device_is_refused_with_its_reason() -> None:
    sick = Inventory((dataclasses.replace(inventory(1).devices[0], healthy=False, reason="Xid 79"),))
    refusal = allocate(share(sick, PluginConfig()).resources[0], ["GPU-0"], DeviceHolds())
    assert isinstance(refusal, Reason)
    assert "GPU-0 is unhealthy (Xid 79)" in refusal.message


def test_two_replicas_of_one_device_are_refused_under_spread_strict() -> None:
    resource = only(dataclasses.replace(sharing(), shared_policy=SharedPolicy.SPREAD_STRICT))
    refusal = allocate(resource, ["GPU-2::0", "GPU-0::1", "GPU-2::3"], DeviceHolds())
    assert isinstance(refusal, Reason)
    assert refusal.code == "replicas-of-one-device"
    assert refusal.message == (
        'invalid allocation request for "nvidia.com/gpu.shared": invalid request: '
        "GPU-2::0 and GPU-2::3 are replicas of one GPU, and the policy spread-strict gives a container each"
        " GPU once; kubelet found too few of this node's 4 shared GPUs with a free replica: ask for fewer, or"
        " use the policy spread"
    )
    assert isinstance(allocate(resource, ["GPU-2::0", "GPU-0::1"], DeviceHolds()), Allocation)


def test_replicas_of_one_device_are_that_device_once() -> None:
    allocation = allocate(only(sharing()), ["GPU-0::0", "GPU-0::1", "GPU-1::0"], DeviceHolds())
    assert isinstance(allocation, Allocation)
    assert allocation.uuids == ("GPU-0", "GPU-1")


@pytest.mark.parametrize(
    ("policy", "free", "size", "chosen"),
    [
        pytest.param(
            "distributed", "0::3 1::1 1::2 1::3", 1, ["1::1"], id="distributed: the least taken device"
        ),
        pytest.param("packed", "0::3 1::1 1::2 1::3", 1, ["0::3"], id="packed: the most taken device"),
        pytest.param(
            "distributed", "0::0 0::1 1::0 1::1", 2, ["0::0", "1::0"], id="distributed spreads a request"
        ),
        pytest.param("packed", "0::0 0::1 1::0 1::1", 2, ["0::0", "0::1"], id="packed keeps it together"),
        pytest.param("packed", "0::0", 3, ["0::0"], id="no more than there are"),
        pytest.param(
            "spread",
            "0::0 0::1 0::2 0::3 1::3",
            2,
            ["0::0", "1::3"],
            id="spread takes another device, however much of it is taken",
        ),
        pytest.param(
            "spread",
            "0::0 0::1 0::2 0::3 1::3",
            3,
            ["0::0", "1::3", "0::1"],
            id="spread takes a second of a device when no other is free",
        ),
        pytest.param("spread", "0::3 1::1 1::2", 1, ["1::1"], id="spread: then the least taken device"),
        pytest.param(
            "spread-strict", "0::0 0::1 1::3", 3, ["0::0", "1::3"], id="spread-strict: one of each at most"
        ),
    ],
)
def test_preferred_replicas(policy: str, free: str, size: int, chosen: list[str]) -> None:
    available = [f"GPU-{slot}" for slot in free.split()]
    got = prefer(
        only(sharing(), 2),
        available,
        [],
        size,
        policy=SharedPolicy(policy),
    )
    assert list(got) == [f"GPU-{slot}" for slot in chosen]


def test_preferred_whole_devices_are_required_ones_then_lowest_index() -> None:
    plan = share(Inventory(tuple(Device(f"GPU-{9 - i}", i, "x", 1) for i in range(4))), PluginConfig())
    got = prefer(plan.resources[0], ["GPU-6", "GPU-7", "GPU-8", "GPU-9"], ["GPU-6"], 2)
    assert got == ("GPU-6", "GPU-9")


@given(st.data())
def test_the_preference_is_a_valid_deterministic_subset(data: st.DataObject) -> None:
    resource = only(data.draw(st.sampled_from([PluginConfig(), sharing(3)])))
    available = data.draw(st.lists(st.sampled_from([*ids(resource), "GPU-odd", "x::1"]), unique=True))
    required = data.draw(st.lists(st.sampled_from(available), unique=True)) if available else []
    size = data.draw(st.integers(0, 20))
    policy = data.draw(st.sampled_from(SharedPolicy))
    got = prefer(resource, available, required, size, policy=policy)
    most = len(available)
    if resource.shared and policy is SharedPolicy.SPREAD_STRICT:
        must = [parse_device_id(slot).uuid for slot in required[:size]]
        most = len(must) + len({parse_device_id(slot).uuid for slot in available} - set(must))
    assert len(got) == len(set(got)) == min(size, most)
    assert set(got) <= set(available)
    assert set(required[:size]) <= set(got)
    again = prefer(resource, list(reversed(available)), required, size, policy=policy)
    assert set(again) == set(got)


A = Advertisement(GPU, (DeviceSlot("a", "a"),))
B = Advertisement(GPU, (DeviceSlot("a", "a", healthy=False),))
OTHER = Advertisement(SHARED, (DeviceSlot("a::0", "a"),))


@pytest.mark.parametrize(
    ("desired", "served", "kubelet", "actions"),
    [
        pytest.param((A,), {}, "k", (Serve(A), Register(GPU)), id="first start"),
        pytest.param((A,), {}, "", (Serve(A),), id="kubelet is not there yet"),
        pytest.param((A,), {GPU: RunningPluginServer(A, kubelet="k")}, "k", (), id="nothing to do"),
        pytest.param(
            (B,), {GPU: RunningPluginServer(A, kubelet="k")}, "k", (Publish(B),), id="a device changed"
        ),
        pytest.param(
            (A,), {GPU: RunningPluginServer(A, kubelet="k")}, "l", (Register(GPU),), id="kubelet restarted"
        ),
        pytest.param(
            (A,), {GPU: RunningPluginServer(A)}, "k", (Register(GPU),), id="registration failed before"
        ),
        pytest.param(
            (A,),
            {GPU: RunningPluginServer(A, socket_present=False, kubelet="k")},
            "k",
            (Serve(A), Register(GPU)),
            id="socket vanished",
        ),
        pytest.param(
            (OTHER,),
            {GPU: RunningPluginServer(A, kubelet="k")},
            "k",
            (Withdraw(GPU), Serve(OTHER), Register(SHARED)),
            id="renamed",
        ),
        pytest.param(
            (), {GPU: RunningPluginServer(A, kubelet="k")}, "", (Withdraw(GPU),), id="no device left"
        ),
    ],
)
def test_sockets_follow_what_should_be_advertised(
    desired: tuple[Advertisement, ...],
    served: dict[ResourceName, RunningPluginServer],
    kubelet: str,
    actions: tuple[object, ...],
) -> None:
    assert reconcile(desired, served, kubelet) == actions


def test_a_preference_among_very_many_replicas_is_linear_in_their_number() -> None:
    """kubelet waits for it without end, and admits no other pod meanwhile; the naive way took minutes."""
    plan = share(inventory(64), PluginConfig((SharedResource(GPU, GPU, 512),)))
    (resource,) = plan.resources
    ids = [slot.id for slot in resource.slots]
    got = prefer(resource, ids, [], len(ids) // 2)
    assert Counter(slot.partition("::")[0] for slot in got) == dict.fromkeys(
        (f"GPU-{i}" for i in range(64)), 256
    )
