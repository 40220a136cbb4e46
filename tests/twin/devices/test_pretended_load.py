"""What devices read while workloads run on them: alone, shared, divided, and over time."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.documents.pretended_load import parse_load
from tonnage.model.catalog.gpus import gpu_models
from tonnage.model.devices.pretended_load import LoadKind, PretendedLoad
from tonnage.twin.clock import VirtualClock
from tonnage.twin.devices.load.activity import RunningLoad, activity
from tonnage.twin.devices.load.load_file import LoadRun
from tonnage.twin.devices.load.physics import LoadCount, LoadTotals
from tonnage.twin.devices.scenario import ScenarioBackend

FIELDS = (
    *("utilization_percent", "memory_used_mib", "power_w", "temperature_c", "clock_sm_mhz", "energy_mj"),
    *("throttled_power_ns", "throttled_thermal_ns", "nvlink_sent_kib", "pcie_received_bytes_per_s"),
    *("nvlink_sent_bytes_per_s", "nvlink_recovery_errors"),
)
HALF = PretendedLoad(LoadKind.TRAINING, busy=0.5, width=0.4)
FULL = PretendedLoad(LoadKind.TRAINING, busy=1.0, width=0.9)


def load(text: str) -> PretendedLoad:
    parsed = parse_load(text)
    assert isinstance(parsed, PretendedLoad)
    return parsed


@pytest.mark.parametrize(
    ("loads", "mps", "busy", "active"),
    [
        pytest.param([], False, 0.0, 0.0, id="nothing runs"),
        pytest.param([HALF], False, 0.5, 0.2, id="one by itself"),
        pytest.param([HALF], True, 0.5, 0.2, id="one client of MPS is as if by itself"),
        pytest.param([HALF, HALF], False, 1.0, 0.4, id="time-sliced, times add up"),
        pytest.param([HALF, HALF], True, 0.75, 0.4, id="under MPS they overlap"),
        pytest.param([HALF] * 4, False, 1.0, 0.4, id="time-sliced, a busy device saturates"),
        pytest.param([HALF] * 4, True, 0.94, 0.8, id="under MPS four fill twice as much of it"),
        pytest.param([FULL, FULL], True, 0.8, 1.0, id="under MPS large kernels find no room"),
        pytest.param([FULL, FULL], False, 1.0, 0.9, id="time-sliced, large kernels take turns"),
    ],
)
def test_sharers_add_up_and_saturate(
    loads: list[PretendedLoad], *, mps: bool, busy: float, active: float
) -> None:
    quiet = [RunningLoad(each, 30.0, mps=mps) for each in loads]
    shared = activity(quiet, 1000)
    assert shared.busy == pytest.approx(busy, abs=0.04)
    assert shared.active == pytest.approx(active, abs=0.04)


@given(
    st.lists(st.sampled_from(["training", "inference rate=200", "leak", "idle"]), max_size=6), st.booleans()
)
def test_nobody_gets_more_than_there_is(kinds: list[str], mps: bool) -> None:
    running = [RunningLoad(load(kind), 95.0, number, mps) for number, kind in enumerate(kinds)]
    shared = activity(running, 40960)
    assert 0 <= shared.active <= 1
    assert 0 <= shared.busy <= 1
    assert shared.memory_mib <= 40960
    if not mps:
        assert sum(shared.granted) <= 1.0001


@given(st.lists(st.floats(0, 5000), min_size=1, max_size=20))
def test_counters_never_fall_and_are_the_same_whoever_reads_them(moments: list[float]) -> None:
    def second(elapsed_s: float) -> LoadTotals:
        return LoadTotals(60 + elapsed_s % 340, elapsed_s % 70 < 35, elapsed_s % 90 / 90)

    count, last = LoadCount(), LoadTotals()
    for moment in sorted(moments):
        totals = count.totals(moment, second)
        assert totals.energy_j >= last.energy_j
        assert totals.capped_s >= last.capped_s
        assert totals.linked_s >= last.linked_s
        last = totals
    again = LoadCount().totals(max(moments), second)
    assert (last.energy_j, last.capped_s, last.linked_s) == pytest.approx(
        (again.energy_j, again.capped_s, again.linked_s)
    )


class Bench:
    """Two devices, one of them divided, and a clock that only the test moves."""

    def __init__(self, folder: Path) -> None:
        self.clock = VirtualClock(start=datetime(2026, 1, 1, tzinfo=UTC))
        self._file = folder / "hardware.yaml"
        cards = [
            {"uuid": "GPU-a", "model": "H100-80"},
            {"uuid": "GPU-b", "model": "H100-80", "mig": ["3g.40gb"] * 2},
        ]
        self._file.write_text(json.dumps({"devices": cards}))
        self.backend = ScenarioBackend(self._file, self.clock)
        self.backend.start_load()

    def begin(self, text: str, *ids: str, mps: bool = False) -> str:
        key = f"{text}/{ids}/{self.clock.monotonic()}"
        started_s = self.clock.now().timestamp()
        self.backend.begin_load(LoadRun(key, "ml", "p", "c", ids, load(text), 1, mps, started_s))
        return key

    async def read(self, uuid: str = "GPU-a", *, fresh: bool = False) -> dict[str, float]:
        """The readings; `fresh`: of another process, which has read nothing before."""
        backend = ScenarioBackend(self._file, self.clock) if fresh else self.backend
        samples = {sample.uuid: sample for sample in await backend.sample((*FIELDS, "sm_active_ratio"))}
        return {**samples[uuid].values}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_training_warms_its_device_and_the_device_cools_down(bench: Bench) -> None:
    idle = await bench.read()
    assert (idle["utilization_percent"], idle["temperature_c"], idle["clock_sm_mhz"]) == (0, 35, 300)
    key = bench.begin("training", "GPU-a")
    await bench.clock.advance(60)
    busy = await bench.read()
    assert busy["utilization_percent"] > 85
    assert busy["power_w"] > 4 * idle["power_w"]
    assert busy["clock_sm_mhz"] == gpu_models()["H100-80"].sm_clock_mhz
    assert 40 < busy["temperature_c"] < 75
    await bench.clock.advance(240)
    assert (await bench.read())["temperature_c"] > busy["temperature_c"]
    bench.backend.finish_load(key)
    after = await bench.read()
    assert (after["utilization_percent"], after["memory_used_mib"]) == (0, 0)
    assert after["temperature_c"] > 50
    await bench.clock.advance(200)
    assert (await bench.read())["temperature_c"] == 35


async def test_energy_goes_on_over_starts_and_ends_and_is_the_same_in_another_process(bench: Bench) -> None:
    seen = []
    for seconds in (0, 30, 65, 400):
        key = bench.begin("training", "GPU-a")
        await bench.clock.advance(seconds)
        seen.append((await bench.read())["energy_mj"])
        assert await bench.read() == await bench.read(fresh=True)
        bench.backend.finish_load(key)
        seen.append((await bench.read())["energy_mj"])
    assert seen == sorted(seen)
    assert seen[-1] > 400 * 300 * 1000


@pytest.mark.parametrize(
    ("ids", "linked"),
    [
        pytest.param(("GPU-a", "GPU-b"), True, id="on two GPUs, links carry data"),
        pytest.param(("GPU-a",), False, id="on one GPU, they carry none"),
    ],
)
async def test_training_moves_data_over_bus_and_links(
    bench: Bench, ids: tuple[str, ...], *, linked: bool
) -> None:
    idle = await bench.read()
    moved = ("pcie_received_bytes_per_s", "nvlink_sent_kib", "throttled_power_ns")
    assert [idle[name] for name in moved] == [0, 0, 0]
    key = bench.begin("training", *ids)
    await bench.clock.advance(100)
    busy = await bench.read()
    assert busy["pcie_received_bytes_per_s"] > 1e9
    assert (busy["nvlink_sent_bytes_per_s"] > 0, busy["nvlink_sent_kib"] > 0) == (linked, linked)
    assert (busy["throttled_thermal_ns"], busy["nvlink_recovery_errors"]) == (0, 0)
    bench.backend.finish_load(key)
    await bench.clock.advance(100)
    after = await bench.read()
    assert after["nvlink_sent_bytes_per_s"] == 0
    assert after["nvlink_sent_kib"] == busy["nvlink_sent_kib"]


async def test_the_power_limit_throttles_what_fills_a_gpu(bench: Bench) -> None:
    bench.begin("training busy=100% width=100%", "GPU-a")
    await bench.clock.advance(100)
    assert (await bench.read())["throttled_power_ns"] > 10e9


async def test_a_leak_fills_the_memory(bench: Bench) -> None:
    bench.begin("leak per-minute=50%", "GPU-a")
    await bench.clock.advance(25)
    early = (await bench.read())["memory_used_mib"]
    await bench.clock.advance(300)
    assert early < (await bench.read())["memory_used_mib"] == gpu_models()["H100-80"].memory_mib


async def test_a_mig_device_has_its_own_load_and_its_gpu_the_sum(bench: Bench) -> None:
    gpu = (await bench.backend.scan()).devices[1]
    first, second = (part.uuid for part in gpu.migs)
    bench.begin("training busy=100%", first)
    await bench.clock.advance(60)
    assert (await bench.read(first))["memory_used_mib"] == round(0.7 * gpu.migs[0].memory_mib)
    assert (await bench.read(second))["memory_used_mib"] == 0
    whole, part = await bench.read("GPU-b"), await bench.read(first)
    assert whole["sm_active_ratio"] == pytest.approx(part["sm_active_ratio"] * 3 / 7, abs=0.001)
    assert "utilization_percent" not in whole


async def test_the_same_moments_give_the_same_readings(tmp_path: Path) -> None:
    readings = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        bench = Bench(tmp_path / name)
        bench.begin("inference rate=60", "GPU-a")
        await bench.clock.advance(123)
        readings.append(await bench.read())
    assert readings[0] == readings[1]


async def test_a_file_that_somebody_broke_is_no_load(bench: Bench, tmp_path: Path) -> None:
    bench.begin("training", "GPU-a")
    await bench.clock.advance(60)
    (tmp_path / "hardware.yaml.load").write_text('{"runs": [{}]}')
    broken = await bench.read()
    assert broken["utilization_percent"] == 0
    assert "energy_mj" not in broken


def test_an_idle_workload_holds_memory_alone() -> None:
    shared = activity([RunningLoad(replace(load("idle"), memory_mib=900), 60.0)], 1000)
    assert (shared.busy, shared.memory_mib) == (0.0, 900)
