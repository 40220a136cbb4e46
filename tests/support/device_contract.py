"""What every DeviceBackend must do that changes nothing of the hardware, so that real GPUs can be asked it.

`CHECKS` run over pretended devices, over NVML's bindings on a pretended driver, and on GPUs where there are.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import grpc
import grpc.aio
import pytest

from support.plugin_node import PATIENCE_S, PluginNode, allocate, first_list
from tonnage.decide.node.preference.links import link_matrix
from tonnage.decide.node.preference.prefer import prefer
from tonnage.decide.node.preference.whole_devices import finished, topology_of, worked_out
from tonnage.decide.node.share import share
from tonnage.model.catalog.metrics import FieldKind, FieldOrigin, device_fields
from tonnage.model.devices.inventory import Inventory, Sample
from tonnage.model.devices.links import NVSWITCH
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.errors import Bug
from tonnage.ports.node import DeviceBackend
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as plugin
from tonnage.wire.kubelet.methods import GET_PREFERRED

Check = Callable[[DeviceBackend], Awaitable[None]]

_UUID: Final = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MIG_UUID: Final = re.compile(r"MIG-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BUS_ID: Final = re.compile(r"[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7]")
_PROFILE: Final = re.compile(r"([1-7]c\.)?[1-7]g\.\d+gb([+-](me|gfx|me\.all))*")
_LOOK_S: Final = 0.2


async def with_links(backend: DeviceBackend) -> Inventory:
    """A scan with links, where there are any to read: the first ones may come without."""
    async with asyncio.timeout(PATIENCE_S):
        inventory = await backend.scan()
        while len(inventory.devices) > 1 and not inventory.links:
            await asyncio.sleep(0)
            inventory = await backend.scan()
    return inventory


async def devices_are_told_whole(backend: DeviceBackend) -> None:
    inventory = await backend.scan()
    assert inventory.devices
    assert [device.index for device in inventory.devices] == sorted({d.index for d in inventory.devices})
    assert len({device.uuid for device in inventory.devices}) == len(inventory.devices)
    assert len({device.pci_bus_id for device in inventory.devices}) == len(inventory.devices)
    for device in inventory.devices:
        assert _UUID.fullmatch(device.uuid), device
        assert _BUS_ID.fullmatch(device.pci_bus_id), device
        assert re.fullmatch(r"\d+\.\d", device.compute_capability), device
        assert device.product == device.product.strip() != ""
        assert device.memory_mib > 1024
        assert device.minor is not None
        assert device.healthy, device.reason
    assert inventory.problems == ()


async def the_driver_says_its_versions(backend: DeviceBackend) -> None:
    inventory = await backend.scan()
    assert re.fullmatch(r"\d+(\.\d+){1,2}", inventory.driver_version), inventory.driver_version
    assert re.fullmatch(r"\d+\.\d", inventory.cuda_version), inventory.cuda_version


async def the_same_is_told_again(backend: DeviceBackend) -> None:
    first, second = await backend.scan(), await backend.scan()
    assert replace(first, vitals=(), links=()) == replace(second, vitals=(), links=())


async def links_make_a_matrix(backend: DeviceBackend) -> None:
    inventory = await with_links(backend)
    uuids = {device.uuid for device in inventory.devices}
    levels = {(link.source, link.target): link.level for link in inventory.links if link.level is not None}
    assert all(levels[one, other] == levels[other, one] for one, other in levels)
    for link in inventory.links:
        assert link.source in uuids
        assert link.target in uuids | {NVSWITCH}
        assert link.source != link.target
        assert link.nvlinks >= 0
    matrix = link_matrix(inventory.devices, inventory.links)
    assert matrix.uuids == tuple(device.uuid for device in inventory.devices)
    assert all(
        bandwidth > 0 for i, row in enumerate(matrix.best) for j, bandwidth in enumerate(row) if i != j
    )


async def each_device_says_how_it_is(backend: DeviceBackend) -> None:
    inventory = await backend.scan()
    assert [vitals.uuid for vitals in inventory.vitals] == [device.uuid for device in inventory.devices]
    for vitals in inventory.vitals:
        assert not vitals.hangs
        assert vitals.uncorrected_errors is None or vitals.uncorrected_errors >= 0
        assert vitals.recovery_action is None or vitals.recovery_action >= 0
        assert vitals.nvlinks_up is None or 0 <= vitals.nvlinks_up <= 36
        assert vitals.nvlink_errors is None or vitals.nvlink_errors >= 0


READ: Final = tuple(name for name, field in device_fields().items() if field.origin is FieldOrigin.READ)


async def readings_are_in_their_ranges(backend: DeviceBackend) -> None:
    inventory = await backend.scan()
    memory = {device.uuid: device.memory_mib for device in inventory.devices}
    memory |= {mig.uuid: mig.memory_mib for device in inventory.devices for mig in device.migs}
    samples = await backend.sample(READ)
    parts = [uuid for device in inventory.devices for uuid in (device.uuid, *(m.uuid for m in device.migs))]
    assert [sample.uuid for sample in samples] == parts, "each GPU, and after it its MIG devices"
    for sample in samples:
        assert sample.values["memory_total_mib"] == pytest.approx(memory[sample.uuid], rel=0.02)
        assert 0 <= sample.values["memory_used_mib"] <= memory[sample.uuid]
        for name, value in sample.values.items():
            field = device_fields()[name]
            assert value >= 0, (name, value)
            assert field.double or isinstance(value, int), (name, value)
            assert field.unit not in ("percent", "ratio") or value <= (100 if field.unit == "percent" else 1)
            assert field.unit != "C" or value <= 200
            assert field.unit != "W" or value < 3000
            assert field.unit != "flag" or value in (0, 1), (name, value)
        for name, text in sample.texts.items():
            assert device_fields()[name].kind is FieldKind.LABEL
            assert text.strip()


async def fields_of_a_gpu_are_no_mig_devices(backend: DeviceBackend) -> None:
    inventory = await backend.scan()
    divided = {device.uuid for device in inventory.devices if device.mig_enabled}
    for sample in await backend.sample(READ):
        own = all(device_fields()[name].mig for name in (*sample.values, *sample.texts))
        assert own == sample.uuid.startswith("MIG-"), sample.uuid
        assert sample.uuid not in divided or "utilization_percent" not in sample.values


async def only_what_is_asked_for_is_answered(backend: DeviceBackend) -> None:
    gpus = [device.uuid for device in (await backend.scan()).devices]
    for sample in await backend.sample(("power_w", "driver_version")):
        assert {*sample.values, *sample.texts} <= {"power_w", "driver_version"}
    assert [sample.uuid for sample in await backend.sample(("power_w",))] == gpus
    assert await backend.sample(()) == tuple(map(Sample, gpus))
    with pytest.raises(Bug, match="no device has a field power"):
        await backend.sample(("temperature_c", "power"))


async def activity_is_a_share_of_time(backend: DeviceBackend) -> None:
    """Devices with GPM tell it from some reading on; others never do."""
    fields = [name for name, field in device_fields().items() if field.gpm is not None]
    until = time.monotonic() + _LOOK_S
    samples = await backend.sample(fields)
    while time.monotonic() < until and not any(sample.values for sample in samples):
        samples = await backend.sample(fields)
    for name, value in (pair for sample in samples for pair in sample.values.items()):
        assert value >= 0, name
        assert device_fields()[name].unit != "ratio" or value <= 1, name


async def parts_are_those_of_their_device(backend: DeviceBackend) -> None:
    for device in (await backend.scan()).devices:
        assert device.mig_enabled or not device.migs
        assert len({mig.uuid for mig in device.migs}) == len(device.migs)
        for mig in device.migs:
            assert _MIG_UUID.fullmatch(mig.uuid), mig
            assert _PROFILE.fullmatch(mig.profile), mig
            assert 0 < mig.memory_mib < device.memory_mib
        places = sorted({mig.placement for mig in device.migs if mig.placement is not None})
        for (start, size), (following, _) in pairwise(places):
            assert start + size <= following, places


async def nothing_wrong_is_heard_of_healthy_devices(backend: DeviceBackend) -> None:
    await backend.scan()
    generator: Any = backend.events()
    async with aclosing(generator) as events:
        heard = asyncio.ensure_future(anext(events))
        done, _ = await asyncio.wait({heard}, timeout=_LOOK_S)
        heard.cancel()
        await asyncio.gather(heard, return_exceptions=True)
    assert all(task.result().code == 0 for task in done), "an error while the suite ran"
    assert (await backend.scan()).devices


async def every_device_is_offered_and_every_size_answered(backend: DeviceBackend) -> None:
    inventory = await with_links(backend)
    plan = share(inventory, PluginConfig())
    offered = {slot.uuid for resource in plan.resources for slot in resource.slots}
    assert offered == {device.uuid for device in inventory.devices if device.migs or not device.mig_enabled}
    for resource in plan.resources:
        plain = topology_of(link_matrix(inventory.devices, inventory.links))
        for topology in (plain, finished(worked_out(plain))):
            free = [slot.id for slot in resource.slots]
            for size in {1, 2, len(free) // 2, len(free)}:
                if 0 < size <= len(free):
                    got = prefer(resource, free, (), size, topology=topology)
                    assert len(set(got) & set(free)) == size


CHECKS: Final[tuple[Check, ...]] = (
    devices_are_told_whole,
    the_driver_says_its_versions,
    the_same_is_told_again,
    links_make_a_matrix,
    each_device_says_how_it_is,
    readings_are_in_their_ranges,
    fields_of_a_gpu_are_no_mig_devices,
    only_what_is_asked_for_is_answered,
    activity_is_a_share_of_time,
    parts_are_those_of_their_device,
    nothing_wrong_is_heard_of_healthy_devices,
    every_device_is_offered_and_every_size_answered,
)


async def agent_gives_every_device(node: PluginNode, uuids: set[str], *flags: str) -> None:
    """An agent process on the node, of which kubelet hears, and gets, just these devices; each once."""
    await node.start_kubelet()
    await node.start_agent(*flags, devices="nvml")
    async with node.channel() as channel:
        stream, ids = await first_list(channel)
        assert ids == uuids
        for size in range(1, len(uuids) + 1):
            assert await preferred(channel, sorted(uuids), size) <= uuids
        for uuid in sorted(uuids):
            assert await allocate(channel, uuid) == ""
        assert "unknown device" in await allocate(channel, "GPU-of-somebody-else")
        del stream


async def preferred(channel: grpc.aio.Channel, free: list[str], size: int) -> set[str]:
    """The ids that the agent prefers; as many as were asked for."""
    method = GET_PREFERRED
    call = channel.unary_unary(method.path, method.request.SerializeToString, method.response.FromString)
    one = plugin.ContainerPreferredAllocationRequest(available_deviceIDs=free, allocation_size=size)
    answer = await call(plugin.PreferredAllocationRequest(container_requests=[one]), timeout=PATIENCE_S)
    (chosen,) = answer.container_responses
    assert len(chosen.deviceIDs) == size
    return set(chosen.deviceIDs)
