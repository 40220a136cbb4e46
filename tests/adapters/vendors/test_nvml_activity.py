"""What the NVML backend reads of devices field by field: activity, memory, what the driver lacks."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from support.device_contract import READ
from support.driver_root import Driver
from support.nvml.state import (
    SWITCH,
    DriverState,
    FakeGpu,
    FakeLink,
    FakeMig,
    Rule,
)
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.vendors.nvml import NvmlBackend
from tonnage.model.catalog.metrics import MOST_LINKS, device_fields


class HandClock(SystemClock):
    """Time as it is set."""

    at = 0.0

    def monotonic(self) -> float:
        return self.at


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def timed(driver: Driver, clock: HandClock) -> AsyncIterator[NvmlBackend]:
    made = NvmlBackend(clock, root=driver.root, driver_root=driver.root)
    yield made
    await made.close()


GPM = ("sm_active_ratio", "dram_active_ratio", "sm_occupancy_ratio", "pcie_sent_bytes_per_s")


async def values(backend: NvmlBackend, fields: tuple[str, ...] = GPM) -> list[dict[str, float]]:
    """Readings of each device that answers."""
    return [dict(sample.values) for sample in await backend.sample(fields)]


async def test_activity_is_read_from_the_second_sample_on(
    timed: NvmlBackend, driver: Driver, clock: HandClock
) -> None:
    odd = {(0, 2): 61.5, (0, 10): 20.0, (0, 3): math.nan, (0, 20): math.inf, (1, 20): 2.5}
    driver.become(replace(driver.state.with_gpu(FakeGpu(3, "A100-80")), metrics=odd))
    assert await values(timed) == [{}] * 4
    clock.at += 0.1
    busy, sending, idle, without = await values(timed)
    assert busy == {"sm_active_ratio": 0.615, "dram_active_ratio": 0.2}
    assert sending == {"pcie_sent_bytes_per_s": 5 << 19}
    assert idle == without == {}


async def test_activity_asked_for_too_soon_is_that_of_before(
    timed: NvmlBackend, driver: Driver, clock: HandClock
) -> None:
    """Nothing follows from two samples that are less than 100 ms apart."""
    driver.become(replace(driver.state, metrics={(0, 2): 61.5}))
    await values(timed)
    clock.at += 1
    assert (await values(timed))[0] == {"sm_active_ratio": 0.615}
    taken = driver.calls()["nvmlGpmSampleGet"]
    clock.at += 0.09
    await values(timed)
    assert driver.calls()["nvmlGpmSampleGet"] == taken
    clock.at += 0.09
    await values(timed)
    assert driver.calls()["nvmlGpmSampleGet"] == taken + 4


async def test_samples_are_given_back(timed: NvmlBackend, driver: Driver, clock: HandClock) -> None:
    for _ in range(10):
        await values(timed)
        clock.at += 1
    calls = driver.calls()
    assert calls["nvmlGpmSampleAlloc"] - calls["nvmlGpmSampleFree"] == 2 * 4
    driver.lose(3)
    await values(timed)
    calls = driver.calls()
    assert calls["nvmlGpmSampleAlloc"] - calls["nvmlGpmSampleFree"] == 2 * 3


async def test_a_gpu_instance_has_its_own_activity_and_memory(
    timed: NvmlBackend, driver: Driver, clock: HandClock
) -> None:
    parts = (FakeMig("1g", 0, 7), FakeMig("2g", 2, 3))
    gpu = replace(driver.state.gpu(0), mig_enabled=True, migs=parts)
    driver.become(replace(driver.state, gpus=(gpu,), metrics={(0, 2): 50.0}))
    fields = ("sm_active_ratio", "pcie_sent_bytes_per_s", "memory_total_mib", "temperature_c")
    await values(timed, fields)
    clock.at += 1
    whole, *divided = await timed.sample(fields)
    assert whole.uuid == gpu.identity
    assert whole.values["temperature_c"] == 35
    assert [sample.uuid for sample in divided] == [gpu.mig_uuid(part) for part in parts]
    for sample in divided:
        assert sample.values.keys() == {"sm_active_ratio", "memory_total_mib"}
        assert sample.values["memory_total_mib"] < whole.values["memory_total_mib"]
    assert driver.calls()["nvmlGpmMigSampleGet"] == 2 * 2


async def test_every_field_of_the_catalogue_is_answered_where_the_driver_has_it(
    timed: NvmlBackend, driver: Driver, clock: HandClock
) -> None:
    """A row with a misspelt call or part would be absent for ever."""
    facts: dict[str, int | str] = {"fan-percent": 30, "retired-pages": 2, "licensed": 1, "fabric-state": 3}
    facts |= {"auto-boost": 1, "rack-module": 7, "rack-serial": "CH-0007"}
    known = [field for field in device_fields().values() if field.name in READ]
    numbers = {(0, field.field_id): 5.0 for field in known if field.field_id is not None}
    metrics = {(0, field.gpm): 50.0 for field in known if field.gpm is not None}
    gpu = FakeGpu(0, facts=facts)
    links = tuple(FakeLink(0, number, SWITCH, active=number != 1) for number in range(MOST_LINKS))
    driver.become(replace(driver.state, gpus=(gpu,), fields=numbers, metrics=metrics, links=links))
    await timed.sample(READ)
    clock.at += 1
    (sample,) = await timed.sample(READ)
    assert [*sample.links] == [0, *range(2, MOST_LINKS)], "links that are up"
    of_pairs = {field.name for field in known if field.peer}
    assert {*sample.values, *sample.texts, *sample.links[2]} == {*READ} - of_pairs
    assert sample.links[0]["link_sent_bytes"] == 5
    assert sample.values["retired_pages_corrected"] == 2
    assert sample.values["power_instant_w"] == 0.005
    assert sample.values["c2c_sent_bytes_per_s"] == 50 << 20


@pytest.mark.parametrize(
    ("packed", "rate"), [(0, 0.0), (0x401, 0.4), (0xC00, 12.0), (0xF0F, 15e-15)], ids=str
)
async def test_an_error_rate_of_a_link_is_unpacked(
    backend: NvmlBackend, driver: Driver, packed: int, rate: float
) -> None:
    driver.become(replace(driver.state, links=(FakeLink(0, 0, SWITCH),), fields={(0, 222): float(packed)}))
    first, *_ = await backend.sample(("link_symbol_error_rate", "link_symbol_error_rate_raw"))
    assert first.links[0]["link_symbol_error_rate"] == pytest.approx(rate)
    assert first.links[0]["link_symbol_error_rate_raw"] == packed


async def test_a_gpu_that_needs_no_license_has_none(backend: NvmlBackend, driver: Driver) -> None:
    assert await values(backend, ("vgpu_licensed",)) == [{"vgpu_licensed": 0}] * 4


async def test_an_error_of_the_fabric_is_one_of_a_complete_fabric(
    backend: NvmlBackend, driver: Driver
) -> None:
    gpus = tuple(FakeGpu(slot, facts={"fabric-state": slot, "fabric-status": 999}) for slot in (2, 3))
    driver.become(replace(driver.state, gpus=gpus))
    joining, joined = await values(backend, ("fabric_state", "fabric_error"))
    assert joining == {"fabric_state": 2}
    assert joined == {"fabric_state": 3, "fabric_error": 999}


PLATFORM = ("infiniband_guid", "chassis_serial", "slot", "tray", "host", "peer_type", "module")


async def test_what_the_driver_does_not_know_of_a_rack_is_absent(
    backend: NvmlBackend, driver: Driver
) -> None:
    known: dict[str, int | str] = {"rack-serial": "CH-0007", "rack-slot": 5}
    known |= {"rack-tray": 0, "rack-host": 1, "rack-module": 3}
    gpus = (
        FakeGpu(0, facts=known),
        FakeGpu(1, facts={"rack-slot": 255, "rack-tray": 255, "rack-module": 0}),
        FakeGpu(2),
    )
    driver.become(replace(driver.state, gpus=gpus))
    racked, unknown, without = await backend.sample(tuple(f"platform_{word}" for word in PLATFORM))
    assert racked.texts == {
        "platform_infiniband_guid": "0x0000000000000003",
        "platform_chassis_serial": "CH-0007",
    }
    words = ("slot", "tray", "host", "peer_type", "module")
    assert racked.values == {f"platform_{word}": n for word, n in zip(words, (5, 0, 1, 0, 3), strict=True)}
    assert unknown.values.keys() == {"platform_host", "platform_peer_type", "platform_module"}
    assert "platform_chassis_serial" not in unknown.texts
    assert (without.values, without.texts) == ({}, {})


async def test_an_inforom_that_is_corrupt_is_an_answer_and_none_is_none(
    backend: NvmlBackend, driver: Driver
) -> None:
    sound, corrupt = FakeGpu(0), FakeGpu(1, facts={"inforom-corrupt": 1})
    driver.become(replace(driver.state, gpus=(sound, corrupt, FakeGpu(2))))
    driver.rule(Rule("error", "nvmlDeviceValidateInforom", slot=2, value=3))
    assert await values(backend, ("inforom_valid",)) == [{"inforom_valid": 1}, {"inforom_valid": 0}, {}]


async def test_a_compute_capability_is_one_number(backend: NvmlBackend, driver: Driver) -> None:
    driver.become(replace(driver.state, gpus=(FakeGpu(0), FakeGpu(1, "L40S"))))
    hopper, ada = await values(backend, ("compute_capability",))
    assert hopper == {"compute_capability": 9 << 16}
    assert ada == {"compute_capability": (8 << 16) + 9}


async def test_errors_of_memory_are_told_by_their_place(backend: NvmlBackend, driver: Driver) -> None:
    facts = {"ecc-uncorrected-volatile": 3, "ecc-corrected-aggregate": 7}
    driver.become(replace(driver.state, gpus=(FakeGpu(0, facts=facts), FakeGpu(1, facts={"ecc-mode": 0}))))
    fields = (
        *("ecc_uncorrected_volatile_device", "ecc_uncorrected_volatile_sram"),
        *("ecc_corrected_aggregate_device", "ecc_corrected_volatile_device"),
    )
    first, without = await values(backend, fields)
    assert first == dict(zip(fields, (3, 0, 7, 0), strict=True))
    assert without == {}


async def test_nothing_is_called_that_was_not_asked_for(backend: NvmlBackend, driver: Driver) -> None:
    await backend.sample(("memory_occupied_mib",))
    calls = driver.calls()
    assert calls["nvmlDeviceGetMemoryInfo"] == 4
    for name in calls:
        assert not re.search("Gpm|FieldValues|Power|Temperature|Utilization|Mig|MemoryInfo_v2", name), name


async def test_fields_of_one_call_cost_one_call(backend: NvmlBackend, driver: Driver) -> None:
    await backend.sample(
        ("utilization_percent", "memory_utilization_percent", "energy_mj", "memory_temperature_c")
    )
    calls = driver.calls()
    assert (calls["nvmlDeviceGetUtilizationRates"], calls["nvmlDeviceGetFieldValues"]) == (4, 4)


async def test_what_the_driver_keeps_is_not_used_unless_the_driver_cannot_say(
    backend: NvmlBackend, driver: Driver
) -> None:
    gpu = replace(driver.state.gpu(0), facts={"memory-used-mib": 1000})
    driver.become(DriverState((gpu,)))
    fields = ("memory_used_mib", "memory_reserved_mib", "memory_occupied_mib")
    assert await values(backend, fields) == [dict(zip(fields, (1000, 512, 1512), strict=True))]
    driver.rule(Rule("error", "nvmlDeviceGetMemoryInfo_v2", value=13))
    assert await values(backend, fields) == [{"memory_used_mib": 1512, "memory_occupied_mib": 1512}]


async def test_a_temperature_that_cannot_be_is_none(backend: NvmlBackend, driver: Driver) -> None:
    """DCGM drops what is above 200 degrees."""
    driver.become(replace(driver.state, fields={(0, 82): 0xFFFFFFFF, (1, 82): 200.0}))
    answers = await values(backend, ("memory_temperature_c",))
    assert answers == [{}, *({"memory_temperature_c": celsius} for celsius in (200, 40, 40))]


async def test_a_divided_device_has_no_utilization(backend: NvmlBackend, driver: Driver) -> None:
    driver.become(driver.state.with_gpu(replace(driver.state.gpu(0), mig_enabled=True)))
    busy = {"utilization_percent": 0}
    assert await values(backend, ("utilization_percent",)) == [{}, busy, busy, busy]


# ---- bad days ----
