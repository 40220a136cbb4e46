"""What the NVML backend makes of a driver beyond the contract: MIG devices, links, threads."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from support.driver_root import Driver
from support.nvml.state import (
    DriverState,
    FakeGpu,
    FakeLink,
    FakeMig,
    Rule,
    all_pairs,
    linked,
    switched,
)
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.vendors.nvml import NvmlBackend
from tonnage.model.devices.inventory import Inventory, ProfileSize, RawEvent, RawEventKind
from tonnage.model.devices.links import NVSWITCH, Link, PciLevel
from tonnage.model.errors import HardwareError

PATIENCE_S = 60.0


async def with_links(backend: NvmlBackend) -> Inventory:
    """A scan whose links are those of the devices: the first one may not wait until they are read."""
    inventory = await backend.scan()
    if backend._reading is not None:
        await backend._reading
        inventory = await backend.scan()
    return inventory


# ---- MIG ----


async def test_mig_devices_are_listed_with_their_device(backend: NvmlBackend, driver: Driver) -> None:
    migs = (
        FakeMig("3g", 4, gi=1, uuid="MIG-big"),
        FakeMig("1g+me", 0, gi=9),
        FakeMig("2g", 2, gi=3, slices=1),
    )
    driver.become(
        DriverState((FakeGpu(0, "A100-80", mig_enabled=True, migs=migs), FakeGpu(1), FakeGpu(2, "T4")))
    )
    inventory = await backend.scan()
    assert not inventory.problems
    divided, whole, never = inventory.devices
    assert (divided.mig_enabled, whole.mig_enabled, never.mig_enabled) == (True, False, None)
    assert whole.migs == never.migs == ()
    big, media, part = divided.migs
    assert (big.uuid, big.profile, big.index, big.placement) == ("MIG-big", "3g.40gb", 0, (4, 4))
    assert (big.gpu_instance, big.compute_instance, big.memory_mib, big.multiprocessors) == (1, 0, 40192, 42)
    assert (big.gpu_slices, big.compute_slices, big.decoders) == (3, 3, 2)
    assert (media.profile, media.jpeg_engines, media.optical_flow_engines) == ("1g.10gb+me", 1, 1)
    assert (part.profile, part.gpu_slices, part.compute_slices) == ("1c.2g.20gb", 2, 1)


async def test_what_each_mig_profile_has_is_read_once_of_gpus_that_can_be_divided(
    backend: NvmlBackend, driver: Driver
) -> None:
    driver.become(replace(driver.state, gpus=(FakeGpu(0, "A100-80"), FakeGpu(1, "T4")), links=()))
    for _ in range(2):
        divisible, whole = (await backend.scan()).devices
        assert not whole.profile_sizes
        assert sorted(divisible.profile_sizes) == [0, 5, 9, 14, 15, 19, 20]
        assert divisible.profile_sizes[9] == ProfileSize(40192, 42, 3, decoders=2)
    asked = driver.calls()["nvmlDeviceGetGpuInstanceProfileInfoV"]
    await backend.scan()
    assert driver.calls()["nvmlDeviceGetGpuInstanceProfileInfoV"] == asked > 0


async def test_profiles_that_are_told_in_part_are_not_told(backend: NvmlBackend, driver: Driver) -> None:
    driver.become(DriverState((FakeGpu(0, "A100-80"),)))
    driver.rule(Rule("error", "nvmlDeviceGetGpuInstanceProfileInfoV", value=999))
    [device] = (await backend.scan()).devices
    assert not device.profile_sizes
    driver.rule()
    [device] = (await backend.scan()).devices
    assert device.profile_sizes


async def test_a_mig_device_that_cannot_be_read_hides_no_other(backend: NvmlBackend, driver: Driver) -> None:
    migs = (FakeMig("3g", 4, gi=1), FakeMig("1g", 0, gi=7))
    driver.become(DriverState((FakeGpu(0, "A100-80", mig_enabled=True, migs=migs), FakeGpu(1))))
    driver.rule(Rule("error", "nvmlDeviceGetAttributes_v2", value=999))
    inventory = await backend.scan()
    assert [device.healthy for device in inventory.devices] == [True, True]
    assert inventory.problems == tuple(f"device 0: MIG device {i}: Unknown Error" for i in range(2))


async def test_a_new_layout_is_seen_by_the_next_scan(backend: NvmlBackend, driver: Driver) -> None:
    before = await backend.scan()
    gpu = replace(
        driver.state.gpu(1), mig_enabled=True, migs=tuple(FakeMig("1g", i, gi=7 + i) for i in range(7))
    )
    driver.become(driver.state.with_gpu(gpu))
    after = await backend.scan()
    assert after.devices[0] == before.devices[0]
    assert [mig.profile for mig in after.devices[1].migs] == ["1g.10gb"] * 7
    assert len({mig.uuid for mig in after.devices[1].migs}) == 7


async def test_a_driver_that_tells_of_a_new_layout_is_listened_to(
    backend: NvmlBackend, driver: Driver
) -> None:
    uuid = (await backend.scan()).devices[1].uuid
    driver.divide(1, FakeMig("1g", 0, gi=7))
    driver.event(1, 0, 0x100)
    async with asyncio.timeout(PATIENCE_S), aclosing(_generator(backend)) as events:
        assert await anext(events) == RawEvent(RawEventKind.CHANGED, uuid)


# ---- links ----


def strength(inventory: Inventory) -> dict[tuple[str, str], int]:
    return {(link.source, link.target): link.nvlinks for link in inventory.links if link.nvlinks}


async def test_links_to_switches_are_stated_by_each_device(backend: NvmlBackend, driver: Driver) -> None:
    inventory = await with_links(backend)
    assert strength(inventory) == {(device.uuid, NVSWITCH): 18 for device in inventory.devices}


async def test_direct_links_are_counted_for_each_direction(backend: NvmlBackend, driver: Driver) -> None:
    links = (*linked({(0, 1): 4, (2, 3): 2}), FakeLink(0, 4, 3), FakeLink(0, 5, 2, active=False))
    driver.become(replace(driver.state, links=links))
    inventory = await with_links(backend)
    a, b, c, d = (device.uuid for device in inventory.devices)
    assert strength(inventory) == {(a, b): 4, (b, a): 4, (c, d): 2, (d, c): 2, (a, d): 1}


async def test_levels_are_those_of_the_pci_tree(backend: NvmlBackend, driver: Driver) -> None:
    driver.become(replace(driver.state, links=(), levels={(0, 1): 10, (0, 2): 30}))
    driver.rule(Rule("error", "nvmlDeviceGetTopologyCommonAncestor", 1, 3))
    inventory = await with_links(backend)
    a, b, c, d = (device.uuid for device in inventory.devices)
    levels = {(link.source, link.target): link.level for link in inventory.links}
    assert levels[a, b] is levels[b, a] is PciLevel.SWITCH
    assert levels[c, a] is PciLevel.HOST_BRIDGE
    assert levels[c, d] is PciLevel.NUMA_NODE
    assert (b, c) not in levels, "the driver does not say"


async def test_links_are_read_once_for_a_set_of_devices(backend: NvmlBackend, driver: Driver) -> None:
    """#774: 2,016 calls for each answer about eight GPUs, up to half a minute."""
    await with_links(backend)
    read = driver.calls()["nvmlDeviceGetNvLinkState"]
    assert read == 4 * 19  # one more than there are ends it
    for _ in range(5):
        await backend.scan()
        await backend.sample(("power_w",))
    driver.lose(2)
    await backend.scan()
    driver.recover(2)
    await backend.scan()
    assert driver.calls()["nvmlDeviceGetNvLinkState"] == read
    driver.plug(FakeGpu(4))
    driver.become(replace(driver.state, links=switched(range(5))))
    assert len((await backend.scan()).devices) == 5
    assert len(strength(await with_links(backend))) == 5
    assert driver.calls()["nvmlDeviceGetNvLinkState"] == read + 5 * 19


async def test_links_are_read_again_after_an_error_of_one(backend: NvmlBackend, driver: Driver) -> None:
    await with_links(backend)
    driver.become(replace(driver.state, links=switched(range(4), 17)))
    driver.xid(1, 74)
    async with asyncio.timeout(PATIENCE_S), aclosing(_generator(backend)) as events:
        assert await anext(events) == RawEvent(RawEventKind.XID, driver.state.gpu(1).identity, 74)
        assert set(strength(await with_links(backend)).values()) == {17}


async def test_a_driver_that_hangs_over_links_still_gives_devices(
    backend: NvmlBackend, driver: Driver
) -> None:
    driver.rule(Rule("hang", "nvmlDeviceGetNvLinkState"))
    inventory = await backend.scan()
    assert len(inventory.devices) == 4
    assert not inventory.links
    async with asyncio.timeout(PATIENCE_S), aclosing(_generator(backend)) as events:
        driver.rule()
        assert (await anext(events)).kind is RawEventKind.CHANGED, "the links are there now"
    assert len((await backend.scan()).links) == 4 * 3 + 4


async def test_sixty_four_devices_are_read(backend: NvmlBackend, driver: Driver) -> None:
    gpus = tuple(FakeGpu(slot, numa=slot // 32) for slot in range(64))
    pairs = {pair: 1 for pair in all_pairs(range(64), 1) if abs(pair[0] - pair[1]) <= 8}
    driver.become(DriverState(gpus, links=linked(pairs)))
    inventory = await with_links(backend)
    assert len(inventory.devices) == 64
    assert len(strength(inventory)) == 2 * len(pairs)
    assert Link(gpus[0].identity, gpus[63].identity, 0, PciLevel.SYSTEM) in inventory.links


async def test_the_card_for_the_screen_is_no_device(backend: NvmlBackend, driver: Driver) -> None:
    """A DGX Station has one beside four A100."""
    screen = FakeGpu(2, "T4", facts={"name": "NVIDIA DGX Display"})
    driver.become(driver.state.with_gpu(screen))
    inventory = await with_links(backend)
    uuids = [driver.state.gpu(slot).identity for slot in (0, 1, 3)]
    assert [device.uuid for device in inventory.devices] == uuids
    assert [device.index for device in inventory.devices] == [0, 1, 3]
    assert [vitals.uuid for vitals in inventory.vitals] == uuids
    assert [sample.uuid for sample in await backend.sample(("power_w",))] == uuids
    assert not inventory.problems


# ---- readings ----


async def test_a_lost_device_keeps_its_name_when_others_change_places(
    backend: NvmlBackend, driver: Driver
) -> None:
    """The index of a device says nothing about who it was once another is gone."""
    uuids = [device.uuid for device in (await backend.scan()).devices]
    driver.become(driver.state.without(0))
    driver.lose(2)
    inventory = await backend.scan()
    assert [device.uuid for device in inventory.devices if device.healthy] == [uuids[1], uuids[3]]
    broken = [device.uuid for device in inventory.devices if not device.healthy]
    assert set(broken) <= {uuids[2]}, "no healthy device is taken for the lost one"


async def test_a_driver_without_events_still_has_devices(backend: NvmlBackend, driver: Driver) -> None:
    driver.rule(Rule("error", "nvmlEventSetCreate", value=3))
    assert len((await backend.scan()).devices) == 4
    async with asyncio.timeout(PATIENCE_S), aclosing(_generator(backend)) as events:
        assert (await anext(events)).kind is RawEventKind.CHANGED


async def test_a_driver_that_goes_and_comes_is_met_by_scan_and_events(
    backend: NvmlBackend, driver: Driver
) -> None:
    await backend.scan()
    async with asyncio.timeout(PATIENCE_S), aclosing(_generator(backend)) as events:
        driver.unload()
        assert (await anext(events)).kind is RawEventKind.CHANGED
        with pytest.raises(HardwareError, match="Driver Not Loaded"):
            await backend.scan()
        driver.become(driver.state)
        assert len((await backend.scan()).devices) == 4
        driver.xid(0, 48)
        while (event := await anext(events)).kind is not RawEventKind.XID:
            pass
    assert event.code == 48


async def test_events_that_hang_do_not_hold_up_scans(driver: Driver) -> None:
    backend = NvmlBackend(SystemClock(), root=driver.root, driver_root=driver.root, deadline_s=1.5)
    await backend.scan()
    driver.rule(Rule("hang", "nvmlEventSetWait_v2"))
    async with asyncio.timeout(PATIENCE_S), aclosing(_generator(backend)) as events:
        assert (await anext(events)).kind is RawEventKind.CHANGED
        assert backend.stuck_s() > 0
        assert all(device.healthy for device in (await backend.scan()).devices)
        driver.rule()
    await backend.close()


async def test_an_exchanged_library_is_let_go_of_once_nobody_waits_in_it(
    backend: NvmlBackend, driver: Driver
) -> None:
    await backend.scan()
    async with asyncio.timeout(PATIENCE_S), aclosing(_generator(backend)) as events:
        listening = asyncio.ensure_future(anext(events))
        for number in range(10, 15):
            await asyncio.sleep(0)
            driver.upgrade(f"580.65.{number}")
            assert (await backend.scan()).driver_version == f"580.65.{number}"
        driver.xid(3, 119)
        event = await listening
        while event.kind is not RawEventKind.XID:
            event = await anext(events)
    assert event == RawEvent(RawEventKind.XID, driver.state.gpu(3).identity, 119)


def _generator(backend: NvmlBackend) -> Any:
    return backend.events()
