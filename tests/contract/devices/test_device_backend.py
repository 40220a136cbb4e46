"""One suite over every DeviceBackend: pretended devices, and NVML's own bindings over a pretended driver."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pynvml
import pytest

from support.backend_machines import MODEL, PATIENCE_S, Machine, NvmlMachine, ScenarioMachine
from support.device_contract import READ
from support.driver_root import Driver
from support.nvml.bindings import fresh_bindings
from support.nvml.state import DriverState, FakeGpu, Rule
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.vendors.nvml import NvmlBackend
from tonnage.model.actions.devices import SetComputeMode, SetTimeSlice
from tonnage.model.devices.inventory import ComputeMode, RawEvent, RawEventKind, Sample, TimeSlice
from tonnage.model.errors import ConfigError, HardwareError
from tonnage.ports.node import DeviceBackend
from tonnage.twin.devices.scenario import ScenarioBackend


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    gpus = tuple(FakeGpu(slot, MODEL.key, uuid=f"GPU-{slot}", numa=slot // 2) for slot in range(4))
    made = Driver(tmp_path / "driver", DriverState(gpus))
    with fresh_bindings():
        yield made
    made.rule()


@pytest.fixture(params=["scenario", "nvml"])
async def machine(request: pytest.FixtureRequest, tmp_path: Path, driver: Driver) -> AsyncIterator[Machine]:
    made: Machine = ScenarioMachine(tmp_path) if request.param == "scenario" else NvmlMachine(driver)
    yield made
    await made.backend.close()


@pytest.mark.parametrize("kind", ["scenario", "nvml"])
async def test_a_device_that_hangs_hides_no_reading_of_another(
    kind: str, tmp_path: Path, driver: Driver
) -> None:
    machine: Machine = (
        ScenarioMachine(tmp_path) if kind == "scenario" else NvmlMachine(driver, deadline_s=0.5)
    )
    try:
        before = await machine.backend.sample(READ)
        machine.hang(1)
        after = await machine.backend.sample(READ)
        assert [sample.uuid for sample in after] == ["GPU-0", "GPU-2", "GPU-3"]
        for sample in after:
            known = next(each for each in before if each.uuid == sample.uuid)
            assert {*sample.values, *sample.texts} == {*known.values, *known.texts}
    finally:
        await machine.backend.close()


async def test_a_scan_states_what_the_catalogue_knows(machine: Machine) -> None:
    inventory = await machine.backend.scan()
    assert [(d.uuid, d.index, d.numa_node) for d in inventory.devices] == [
        (f"GPU-{i}", i, i // 2) for i in range(4)
    ]
    for device in inventory.devices:
        assert device.product == MODEL.product
        assert device.memory_mib == MODEL.memory_mib
        assert device.compute_capability == "9.0"
        assert device.pci_bus_id == f"00000000:{device.index + 1:02X}:00.0"
        assert device.minor == device.index
        assert device.healthy
        assert not device.reason
    assert (inventory.driver_version, inventory.cuda_version) == ("570.124.06", "12.8")
    assert not inventory.problems


async def test_a_lost_device_is_unhealthy_with_a_reason_and_hides_no_other(machine: Machine) -> None:
    await machine.backend.scan()
    machine.lose(1)
    inventory = await machine.backend.scan()
    assert [d.healthy for d in inventory.devices] == [True, False, True, True]
    assert inventory.devices[1].uuid == "GPU-1"
    assert "lost" in inventory.devices[1].reason.lower()
    assert {sample.uuid for sample in await machine.backend.sample(("power_w",))} == {
        "GPU-0",
        "GPU-2",
        "GPU-3",
    }


async def test_an_exchanged_device_has_its_new_uuid(machine: Machine) -> None:
    await machine.backend.scan()
    machine.replace(2, "GPU-new")
    assert [d.uuid for d in (await machine.backend.scan()).devices] == ["GPU-0", "GPU-1", "GPU-new", "GPU-3"]


async def test_without_any_access_a_scan_is_a_hardware_error(machine: Machine) -> None:
    await machine.backend.scan()
    machine.vanish()
    for read in (machine.backend.scan, partial(machine.backend.sample, ("power_w",))):
        with pytest.raises(HardwareError):
            await read()


async def test_what_happens_after_a_scan_is_heard(machine: Machine) -> None:
    await machine.backend.scan()
    kind = machine.disturb()
    async with asyncio.timeout(PATIENCE_S), aclosing(_generator(machine.backend)) as events:
        event = await anext(events)
    assert event.kind is kind


async def test_an_error_is_heard_though_a_scan_came_first(machine: Machine) -> None:
    """The agent looks now and then: that look must not take the news from those who listen."""
    await machine.backend.scan()
    machine.report(2, 79)
    await machine.backend.scan()
    async with asyncio.timeout(PATIENCE_S), aclosing(_generator(machine.backend)) as events:
        assert await anext(events) == RawEvent(RawEventKind.XID, "GPU-2", 79)


def _generator(backend: DeviceBackend) -> Any:
    return backend.events()


async def test_samples_are_readings_of_each_device(machine: Machine) -> None:
    samples = await machine.backend.sample(("memory_total_mib", "driver_version", "brand"))
    assert samples == tuple(
        Sample(
            f"GPU-{i}",
            {"memory_total_mib": MODEL.memory_mib},
            {"driver_version": "570.124.06", "brand": "NVIDIA"},
        )
        for i in range(4)
    )


async def test_each_gpu_has_the_status_of_nvlink_to_each_other_that_answers(machine: Machine) -> None:
    samples = await machine.backend.sample(("nvlink_peer_status",))
    uuids = [f"GPU-{i}" for i in range(4)]
    for sample in samples:
        assert [*sample.peers] == [uuid for uuid in uuids if uuid != sample.uuid]
        assert {*sample.peers.values()} < {0, 5}, "joined by NVLink or not, as their board has it"
    machine.lose(2)
    samples = await machine.backend.sample(("nvlink_peer_status",))
    assert [sorted(sample.peers) for sample in samples] == [
        ["GPU-1", "GPU-3"],
        ["GPU-0", "GPU-3"],
        ["GPU-0", "GPU-1"],
    ]
    assert await machine.backend.sample(()) == tuple(Sample(sample.uuid) for sample in samples)


async def test_processes_are_those_of_devices_that_answer_with_what_they_had(machine: Machine) -> None:
    assert await machine.backend.processes() == ()
    machine.compute(1, 4711, 900, 30)
    uuids = [device.uuid for device in (await machine.backend.scan()).devices]
    (process,) = await machine.backend.processes()
    assert (process.uuid, process.pid, process.memory_mib) == (uuids[1], 4711, 900)
    assert (process.utilization, process.gpu_instance, process.through_mps) == (30, None, False)
    assert process.sampled_us


async def test_a_device_is_one_processs_own_until_it_is_given_back(machine: Machine) -> None:
    for mode in (ComputeMode.EXCLUSIVE_PROCESS, ComputeMode.EXCLUSIVE_PROCESS, ComputeMode.DEFAULT):
        await machine.backend.apply(SetComputeMode("GPU-2", mode))
        assert [machine.mode(index) for index in range(4)] == [0, 0, mode, 0]


async def test_a_time_slice_is_set_until_it_is_taken_back(machine: Machine) -> None:
    for interval in (TimeSlice.LONG, TimeSlice.SHORT, TimeSlice.DEFAULT):
        await machine.backend.apply(SetTimeSlice("GPU-2", interval))
        assert [machine.time_slice(index) for index in range(4)] == [0, 0, interval, 0]
    with pytest.raises(HardwareError, match="the time slice of GPU-9 cannot be set"):
        await machine.backend.apply(SetTimeSlice("GPU-9", TimeSlice.LONG))


async def test_a_device_that_is_not_there_has_no_mode(machine: Machine) -> None:
    machine.lose(1)
    for uuid in ("GPU-1", "GPU-9"):
        with pytest.raises(HardwareError, match=f"the compute mode of {uuid} cannot be set"):
            await machine.backend.apply(SetComputeMode(uuid, ComputeMode.EXCLUSIVE_PROCESS))


async def test_a_device_that_recovers_is_healthy_again(machine: Machine) -> None:
    before = await machine.backend.scan()
    machine.lose(1)
    assert not (await machine.backend.scan()).devices[1].healthy
    machine.recover(1)
    assert await machine.backend.scan() == before


async def test_a_device_that_is_taken_out_is_no_longer_listed(machine: Machine) -> None:
    await machine.backend.scan()
    machine.remove(3)
    inventory = await machine.backend.scan()
    assert [d.uuid for d in inventory.devices] == ["GPU-0", "GPU-1", "GPU-2"]
    assert not inventory.problems


@pytest.fixture
async def nvml(driver: Driver) -> AsyncIterator[NvmlBackend]:
    backend = NvmlMachine(driver).backend
    assert isinstance(backend, NvmlBackend)
    yield backend
    await backend.close()


async def test_an_xid_names_its_device_and_number(nvml: NvmlBackend, driver: Driver) -> None:
    await nvml.scan()
    driver.xid(2, 79)
    driver.xid(0, 31)
    async with asyncio.timeout(PATIENCE_S), aclosing(_generator(nvml)) as events:
        assert await anext(events) == RawEvent(RawEventKind.XID, "GPU-2", 79)
        assert await anext(events) == RawEvent(RawEventKind.XID, "GPU-0", 31)


async def test_errors_that_were_corrected_wake_nobody(nvml: NvmlBackend, driver: Driver) -> None:
    """Single-bit errors may come in floods, and nothing follows from them; double-bit ones are news."""
    await nvml.scan()
    driver.event(1, 0, pynvml.nvmlEventTypeSingleBitEccError)
    driver.xid(2, 79)
    driver.event(3, 0, pynvml.nvmlEventTypeDoubleBitEccError)
    async with asyncio.timeout(PATIENCE_S), aclosing(_generator(nvml)) as events:
        assert await anext(events) == RawEvent(RawEventKind.XID, "GPU-2", 79)
        assert await anext(events) == RawEvent(RawEventKind.CHANGED, "GPU-3")


async def test_a_device_lost_while_listening_is_heard_and_the_others_still_are(
    nvml: NvmlBackend, driver: Driver
) -> None:
    await nvml.scan()
    async with asyncio.timeout(PATIENCE_S), aclosing(_generator(nvml)) as events:
        driver.lose(1)
        assert (await anext(events)).kind is RawEventKind.CHANGED
        await nvml.scan()
        driver.xid(3, 48)
        assert await anext(events) == RawEvent(RawEventKind.XID, "GPU-3", 48)
        driver.recover(1)
        await nvml.scan()
        driver.xid(1, 94)
        assert await anext(events) == RawEvent(RawEventKind.XID, "GPU-1", 94)


async def test_a_device_added_is_listed_and_its_xids_are_heard(nvml: NvmlBackend, driver: Driver) -> None:
    await nvml.scan()
    driver.become(driver.state.with_gpu(FakeGpu(4, MODEL.key, uuid="GPU-4")))
    assert [d.uuid for d in (await nvml.scan()).devices] == [f"GPU-{i}" for i in range(5)]
    driver.xid(4, 79)
    async with asyncio.timeout(PATIENCE_S), aclosing(_generator(nvml)) as events:
        assert await anext(events) == RawEvent(RawEventKind.XID, "GPU-4", 79)


async def test_a_driver_that_hangs_is_an_error_and_recovers(driver: Driver) -> None:
    backend = NvmlBackend(SystemClock(), driver_root=driver.root, deadline_s=0.1)
    driver.rule(Rule("hang", "nvmlDeviceGetCount_v2"))
    for _ in range(2):  # the second call must not wait behind the first
        with pytest.raises(HardwareError, match="does not answer"):
            await backend.scan()
    driver.rule()
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                inventory = await backend.scan()
                break
            except HardwareError:
                await asyncio.sleep(0)
    assert len(inventory.devices) == 4
    await backend.close()


async def test_a_mode_that_may_not_be_set_is_an_error_with_the_capability_that_is_lacking(
    nvml: NvmlBackend, driver: Driver
) -> None:
    driver.rule(Rule("error", "nvmlDeviceSetComputeMode", value=4))
    with pytest.raises(HardwareError, match="Insufficient Permissions") as caught:
        await nvml.apply(SetComputeMode("GPU-1", ComputeMode.EXCLUSIVE_PROCESS))
    assert "the capability SYS_ADMIN" in str(caught.value)
    await nvml.apply(SetComputeMode("GPU-1", ComputeMode.DEFAULT))  # nothing to be set


async def test_a_mode_that_hangs_is_given_up(driver: Driver) -> None:
    backend = NvmlBackend(SystemClock(), driver_root=driver.root, deadline_s=0.1)
    driver.rule(Rule("hang", "nvmlDeviceSetComputeMode"))
    with pytest.raises(HardwareError, match="does not answer: set a mode of GPU-1"):
        await backend.apply(SetComputeMode("GPU-1", ComputeMode.EXCLUSIVE_PROCESS))
    driver.rule()
    await backend.close()


async def test_without_a_driver_the_error_says_what_to_do(nvml: NvmlBackend, driver: Driver) -> None:
    driver.unload()
    with pytest.raises(HardwareError, match="check that the NVIDIA driver is loaded"):
        await nvml.scan()
    driver.become(driver.state)
    assert len((await nvml.scan()).devices) == 4


async def test_another_driver_is_met_without_a_restart(nvml: NvmlBackend, driver: Driver) -> None:
    assert (await nvml.scan()).driver_version == "570.124.06"
    driver.upgrade("580.65.06")
    inventory = await nvml.scan()
    assert inventory.driver_version == "580.65.06"
    assert len(inventory.devices) == 4
    driver.xid(2, 79)
    async with asyncio.timeout(PATIENCE_S), aclosing(_generator(nvml)) as events:
        while (event := await anext(events)).kind is not RawEventKind.XID:
            pass
    assert event == RawEvent(RawEventKind.XID, "GPU-2", 79)


async def test_a_driver_that_counts_only_when_initialised_shows_new_devices_too(
    nvml: NvmlBackend, driver: Driver
) -> None:
    driver.become(replace(driver.state, counted_at_init=True))
    assert len((await nvml.scan()).devices) == 4
    driver.plug(FakeGpu(4, MODEL.key, uuid="GPU-4"))
    assert [d.uuid for d in (await nvml.scan()).devices] == [f"GPU-{i}" for i in range(5)]


async def test_a_device_broken_from_the_start_is_a_problem(nvml: NvmlBackend, driver: Driver) -> None:
    driver.lose(0)
    inventory = await nvml.scan()
    assert [d.uuid for d in inventory.devices] == ["GPU-1", "GPU-2", "GPU-3"]
    assert inventory.problems[0].startswith("device 0: ")


async def test_a_fact_that_a_device_does_not_give_is_left_out(nvml: NvmlBackend, driver: Driver) -> None:
    driver.rule(Rule("error", "nvmlDeviceGetPowerUsage", slot=1, value=3))
    samples = await nvml.sample(("power_w", "temperature_c"))
    assert ["power_w" in sample.values for sample in samples] == [True, False, True, True]
    assert all("temperature_c" in sample.values for sample in samples)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        pytest.param("devices: [{uuid: GPU-0, model: H100}]", "use H100-80", id="unknown model"),
        pytest.param(
            "devices: [{uuid: a, model: T4}, {uuid: a, model: T4}]", "uuid a is given twice", id="twice"
        ),
        pytest.param("devices: [{uuid: a, model: T4, numma: 1}]", "use numa", id="misspelt key"),
        pytest.param("devices: [", "not valid YAML", id="broken"),
    ],
)
async def test_a_wrong_hardware_file_is_a_config_error_with_its_place(
    tmp_path: Path, text: str, what: str
) -> None:
    file = tmp_path / "h.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=what) as caught:
        await ScenarioBackend(file, SystemClock()).scan()
    assert caught.value.problems[0].where.startswith(f"{file}:")
