"""Defects of NVIDIA's plugin and labels that were reported by its users: here from text to answer.

Numbers are those of the threads in NVIDIA/k8s-device-plugin unless another repository is named. What has a
test of its own elsewhere is in the table of docs/explanation/what-plugin-users-suffer.md.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import grpc.aio
import pytest

from support.topologies import both, bridged_pairs, devices
from tonnage.adapters.kubelet.plugin_folder import PluginFolder
from tonnage.decide.node.allocate import allocate
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.health.device_health import offered_inventory
from tonnage.decide.node.health.faults import HealthState
from tonnage.decide.node.health.xids import state_after_event
from tonnage.decide.node.labels.gpu import gpu_labels
from tonnage.decide.node.preference.links import link_matrix
from tonnage.decide.node.preference.prefer import prefer
from tonnage.decide.node.preference.whole_devices import DeviceTopology, finished, topology_of, worked_out
from tonnage.decide.node.share import share
from tonnage.documents.device_plugin.config import parse_device_plugin_config
from tonnage.model.devices.health import HealthPolicy
from tonnage.model.devices.inventory import Device, Inventory, RawEvent, RawEventKind
from tonnage.model.devices.links import NVSWITCH, Link
from tonnage.model.devices.sharing import (
    Advertisement,
    Allocation,
    DeviceSlot,
    Injection,
    PlannedResource,
    PluginConfig,
    SharedPolicy,
)
from tonnage.model.names import GPU, ResourceName
from tonnage.model.node.machine import Machine
from tonnage.model.reasons.reason import Reason
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as wire
from tonnage.wire.kubelet.methods import LIST_AND_WATCH

PATIENCE_S = 60.0
EIGHT = Inventory(tuple(Device(f"GPU-{i}", i, "NVIDIA H100 80GB HBM3", 81559, "9.0") for i in range(8)))


def planned(text: str, inventory: Inventory = EIGHT) -> dict[str, PlannedResource]:
    plan = share(inventory, parse_device_plugin_config(text, source="config"))
    return {resource.name: resource for resource in plan.resources}


# ---- configuration that was parsed and ignored


def test_some_gpus_are_shared_under_a_name_and_the_others_stay_whole() -> None:
    """#1786 #628 #404 #491 #169: `devices` and `rename` were overwritten with a warning."""
    found = planned("""
version: v1
sharing:
  timeSlicing:
    resources:
    - {name: nvidia.com/gpu, rename: nvidia.com/gpu-dev, devices: [0, "GPU-5"], replicas: 4}
""")
    assert found.keys() == {"nvidia.com/gpu", "nvidia.com/gpu-dev"}
    assert {slot.uuid for slot in found["nvidia.com/gpu-dev"].slots} == {"GPU-0", "GPU-5"}
    assert len(found["nvidia.com/gpu-dev"].slots) == 8
    assert [slot.id for slot in found["nvidia.com/gpu"].slots] == [f"GPU-{i}" for i in (1, 2, 3, 4, 6, 7)]


def test_each_model_of_a_node_has_a_resource() -> None:
    """#1024 #1169 #143, NVIDIA/gpu-operator#563: `resources` was overwritten with a warning."""
    mixed = Inventory(
        (Device("GPU-0", 0, "Tesla T4", 15360), Device("GPU-1", 1, "NVIDIA A100-SXM4-40GB", 40960))
    )
    patterns = "{gpus: [{pattern: 'Tesla T4', name: t4}, {pattern: '*A100*', name: nvidia.com/a100}]}"
    found = planned(f"version: v1\nresources: {patterns}", mixed)
    assert {name: [slot.id for slot in resource.slots] for name, resource in found.items()} == {
        "nvidia.com/t4": ["GPU-0"],
        "nvidia.com/a100": ["GPU-1"],
    }


# ---- the allocator


def topologies(inventory: Inventory) -> tuple[DeviceTopology, DeviceTopology]:
    """Without tables, as at first, and with them."""
    plain = topology_of(link_matrix(inventory.devices, inventory.links))
    return plain, finished(worked_out(plain))


def whole(inventory: Inventory) -> PlannedResource:
    (resource,) = share(inventory, PluginConfig()).resources
    return resource


def test_five_free_gpus_of_which_one_pair_is_linked_give_three() -> None:
    """NVIDIA/go-gpuallocator PR#80: the process died of a nil pointer in a set filled up with nils."""
    one_pair = Inventory(devices(5, numa_nodes=1), links=both({(1, 3): 2}))
    for topology in topologies(one_pair):
        got = prefer(whole(one_pair), [f"GPU-{i}" for i in range(5)], (), 3, topology=topology)
        assert len(got) == 3
        assert {"GPU-1", "GPU-3"} <= set(got)


def test_every_request_on_every_set_of_free_gpus_is_answered() -> None:
    """NVIDIA/go-gpuallocator PR#80: none of them may end a process; each gets what it asked for."""
    inventory = bridged_pairs(6)
    resource = whole(inventory)
    for topology, count in itertools.product(topologies(inventory), range(1, 7)):
        for free in itertools.combinations([f"GPU-{i}" for i in range(6)], count):
            for size in range(1, count + 1):
                got = prefer(resource, free, free[-1:], size, topology=topology)
                assert len(set(got)) == len(got) == size
                assert set(free[-1:]) <= set(got) <= set(free)


def test_links_count_as_often_as_the_end_says_that_has_fewer() -> None:
    """#448: "all P2PLinks between 2 GPUs should be bidirectional", and the process was gone."""
    stated = (Link("GPU-0", "GPU-1", 4), Link("GPU-1", "GPU-0", 2), Link("GPU-2", "GPU-3", 12))
    inventory = Inventory(devices(4), links=(*stated, *both({(1, 2): 3})))
    for topology in topologies(inventory):
        got = prefer(whole(inventory), [f"GPU-{i}" for i in range(4)], (), 2, topology=topology)
        assert got == ("GPU-1", "GPU-2"), "three links that both ends know"


def test_gpus_behind_nvswitches_are_linked() -> None:
    """#546, NVIDIA/go-gpuallocator#44, Project-HAMi/HAMi#2103: no pair of eight H100 had an NVLink."""
    switched = tuple(Link(f"GPU-{i}", NVSWITCH, 18) for i in range(6))  # two have lost their links
    inventory = Inventory(devices(8, "9.0"), links=switched)
    for topology in topologies(inventory):
        free = [f"GPU-{i}" for i in (7, 6, 5, 2)]
        got = prefer(whole(inventory), free, (), 2, topology=topology)
        assert set(got) == {"GPU-2", "GPU-5"}, "over NVLink across sockets, not over PCI within one"


@pytest.mark.parametrize("policy", SharedPolicy)
def test_the_order_in_which_kubelet_names_ids_changes_no_choice(policy: SharedPolicy) -> None:
    """Equal candidates came in the order of a Go map: another one in each process."""
    resource = planned(
        "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 3}]}}", Inventory(EIGHT.devices[:3])
    )[GPU]
    ids = [slot.id for slot in resource.slots]
    turned = [ids[place:] + ids[:place] for place in range(len(ids))]
    assert len({prefer(resource, order, (), 4, policy=policy) for order in (*turned, ids[::-1])}) == 1


def test_two_shared_slots_are_on_two_gpus_where_the_policy_says_so() -> None:
    """#491 #1690 PR#1936, NVIDIA/gpu-operator#386: a job for two GPUs got two slots of one."""
    flags = "flags: {plugin: {sharedDevicesAllocationPolicy: POLICY}}\n"
    sharing = "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4}]}}"
    two = Inventory(EIGHT.devices[:2])
    resource = planned(flags.replace("POLICY", "spread") + sharing, two)[GPU]
    free = ["GPU-0::1", "GPU-0::2", "GPU-0::3", "GPU-1::3"]
    assert prefer(resource, free, (), 2, policy=SharedPolicy.SPREAD) == ("GPU-0::1", "GPU-1::3")
    strict = planned(flags.replace("POLICY", "spread-strict") + sharing, two)[GPU]
    refused = allocate(strict, ["GPU-0::1", "GPU-0::2"], DeviceHolds())
    assert isinstance(refused, Reason)
    assert "replicas of one GPU" in refused.message
    assert isinstance(allocate(strict, ["GPU-0::1", "GPU-1::3"], DeviceHolds()), Allocation)


# ---- health


def struck_by(*codes: int) -> dict[str, str]:
    """Why GPUs are out of scheduling after errors of GPU-0, a minute after one another."""
    state = HealthState()
    for minute, code in enumerate(codes):
        event = RawEvent(RawEventKind.XID, "GPU-0", code)
        state = state_after_event(state, event, EIGHT, HealthPolicy(), now=60.0 * minute)
    return {
        device.uuid: device.reason for device in offered_inventory(EIGHT, state).devices if not device.healthy
    }


@pytest.mark.parametrize(
    ("codes", "needs"),
    [
        pytest.param((94,), "", id="94 is over when the application ended: it was fatal there"),
        pytest.param((109,), "", id="109 once"),
        pytest.param((109, 109), "needs a reset", id="109 twice a day: it was ignored for ever there"),
        pytest.param((79,), "needs a reboot of the node", id="79"),
    ],
)
def test_errors_ask_for_what_nvidias_own_catalogue_says(codes: Sequence[int], needs: str) -> None:
    """#1974 #945: the plugin's list of Xids contradicted NVIDIA's catalogue."""
    reasons = struck_by(*codes)
    assert reasons.keys() == ({"GPU-0"} if needs else set())
    assert reasons.get("GPU-0", "").endswith(needs)


class Giving:
    """Answers nothing of interest."""

    async def allocate(self, requests: Sequence[Sequence[str]]) -> tuple[Injection, ...]:
        return tuple(Injection() for _ in requests)

    async def prefer(self, available: Sequence[str], required: Sequence[str], size: int) -> tuple[str, ...]:
        return tuple(available[:size])


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    yield made
    shutil.rmtree(made)


async def test_what_happens_while_nobody_listens_holds_up_nothing_and_is_told_first(folder: Path) -> None:
    """The health loop waited for a listener, and each event reached one of the listeners alone."""
    lists = [
        Advertisement(GPU, tuple(DeviceSlot(f"GPU-{i}", f"GPU-{i}", healthy=i >= bad) for i in range(8)))
        for bad in range(9)
    ]
    sockets = PluginFolder(folder, folder / "kubelet.sock")
    async with asyncio.timeout(PATIENCE_S):
        await sockets.serve(lists[0], Giving())
        for shown in lists[1:]:
            await sockets.publish(shown)
        async with grpc.aio.insecure_channel(f"unix:{folder}/nvidia-gpu.sock") as channel:
            method = LIST_AND_WATCH
            listen = channel.unary_stream(
                method.path, method.request.SerializeToString, method.response.FromString
            )
            for stream in (listen(wire.Empty()), listen(wire.Empty())):
                message = await anext(aiter(stream))
                assert [device.health for device in message.devices] == ["Unhealthy"] * 8
                stream.cancel()
    await sockets.close()


# ---- labels


def labels_of(*found: Device) -> dict[str, str]:
    inventory, config = Inventory(found), PluginConfig()
    return gpu_labels(inventory, config, share(inventory, config), Machine())


def test_a_name_that_is_too_long_is_cut_to_a_valid_label() -> None:
    """A product's name of more than 63 characters was no label, and the API server refused all of them."""
    product = labels_of(Device("GPU-0", 0, "NVIDIA " + "Very Long Name " * 8, 81559))[
        "nvidia.com/gpu.product"
    ]
    assert len(product) <= 63
    assert product[-1].isalnum()


def test_labels_of_a_node_with_two_models_do_not_flap() -> None:
    """#731 #733, NVIDIA/gpu-feature-discovery#27: the last model of a random order had the labels."""
    both_models = (
        *(Device(f"GPU-{i}", i, "NVIDIA L4", 23034) for i in range(2)),
        *(Device(f"GPU-{i}", i, "NVIDIA A2", 15356) for i in range(2, 4)),
    )
    found = {tuple(sorted(labels_of(*order).items())) for order in itertools.permutations(both_models)}
    (labels,) = found
    assert dict(labels)["nvidia.com/gpu.product"] == "NVIDIA-A2"
    assert dict(labels)["nvidia.com/gpu.count"] == "2"


def test_a_renamed_resource_is_the_one_that_is_offered() -> None:
    """#491: `rename` of one entry was ignored, so shared and whole GPUs had one name."""
    found = planned("""
sharing: {timeSlicing: {resources: [{name: gpu, rename: gpu-shared, replicas: 2}]}}""")
    assert found.keys() == {ResourceName("nvidia.com/gpu-shared")}
