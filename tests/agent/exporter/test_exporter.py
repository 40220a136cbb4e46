"""The exporter over pretended devices: what a scrape shows while devices are shared, divided, ill or hang."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.agent_context import context_of
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.adapters.config_file import MountedConfigFile
from tonnage.adapters.job_files import JobFiles
from tonnage.agent.board import NodeBoard
from tonnage.agent.exporter.collectors import Collectors
from tonnage.agent.exporter.page import ExporterPage
from tonnage.agent.exporter.pod_usage import UsageMeter
from tonnage.agent.exporter.sampling import DeviceSampler
from tonnage.agent.exporter.settings import ExporterSettings
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.exporter.metric_text import PageText
from tonnage.decide.node.exporter.page import exporter_page
from tonnage.decide.node.exporter.readings import CLOCK_REASONS
from tonnage.model.devices.health import SeenXid
from tonnage.model.devices.inventory import Sample
from tonnage.model.devices.sharing import Hold
from tonnage.model.node.entity_choice import entity_choice
from tonnage.model.node.telemetry import CLOCK_COUNT, PodIdentity
from tonnage.twin.clock import VirtualClock
from tonnage.twin.devices.scenario import ScenarioBackend

TRAIN = Hold("nvidia.com/gpu", ("GPU-a",), "ml", "train", "main")
TWO = """
devices:
- {uuid: GPU-a, model: A100-80, utilizationPercent: 40, memoryUsedMib: 1200}
- {uuid: GPU-b, model: A100-80, mig: [3g.40gb, 3g.40gb]}
"""


class Lively(ScenarioBackend):
    """Devices whose clocks are held down by these reasons, as bits, and whose NVLinks read this."""

    clock_reasons = 0
    links: Mapping[int, Mapping[str, int | float]] = MappingProxyType({})

    async def sample(self, fields: Collection[str]) -> tuple[Sample, ...]:
        more = {CLOCK_REASONS: self.clock_reasons} if CLOCK_REASONS in fields else {}
        return tuple(
            replace(sample, values={**sample.values, **more}, links=self.links)
            for sample in await super().sample(fields)
        )


class Exporter:
    """Sampler and page over a file of pretended devices, without a loop or a socket."""

    def __init__(
        self, folder: Path, clock: VirtualClock, settings: ExporterSettings, csv: Path | None = None
    ) -> None:
        self._hardware = folder / "hardware.yaml"
        self._hardware.write_text(TWO)
        self.backend = Lively(self._hardware, clock)
        context = context_of("node-1", None, clock, FolderCheckpoints(folder))
        self.board = NodeBoard.blank(clock)
        self.collectors = Collectors(context, MountedConfigFile(csv) if csv else None)
        self.sampler = DeviceSampler(context, self.backend, self.collectors.fields, settings)
        self.meter = UsageMeter(context, self.board, self.sampler, replicas=dict)
        jobs = JobFiles(settings.jobs).contents
        self._page = ExporterPage(settings, self.board, clock, self.sampler, jobs, self.meter)

    async def read(self) -> None:
        self.board.inventory.publish(await self.backend.scan())
        await self.sampler.sample()

    def rewrite(self, text: str) -> None:
        self._hardware.write_text(text)

    def hold(self, *holds: Hold) -> None:
        self.board.holds.publish(DeviceHolds.of(holds))

    def text(self) -> str:
        return self._page.text(self.collectors.counters)

    def rows(self, family: str) -> list[str]:
        """Its rows without what is the same in all."""
        lines = self.text().replace('modelName="NVIDIA A100-SXM4-80GB",', "").splitlines()
        return [line.removeprefix(family) for line in lines if line.startswith(f"{family}{{")]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def settings() -> ExporterSettings:
    return ExporterSettings(hostname="node-1")


@pytest.fixture
async def exporter(tmp_path: Path, clock: VirtualClock, settings: ExporterSettings) -> Exporter:
    exporter = Exporter(tmp_path, clock, settings)
    await exporter.read()
    return exporter


async def test_a_scrape_shows_what_was_read(exporter: Exporter) -> None:
    (row,) = exporter.rows("DCGM_FI_DEV_GPU_UTIL")
    assert row == (
        '{gpu="0",UUID="GPU-a",pci_bus_id="00000000:01:00.0",device="nvidia0",Hostname="node-1",'
        'DCGM_FI_DRIVER_VERSION="570.124.06"} 40'
    )
    used = exporter.rows("DCGM_FI_DEV_FB_USED")
    assert ['GPU_I_PROFILE="3g.40gb"' in row for row in used] == [False, True, True]


async def test_a_field_that_the_gpus_lack_is_absent(exporter: Exporter) -> None:
    assert exporter.rows("DCGM_FI_PROF_GR_ENGINE_ACTIVE") == []


@pytest.mark.parametrize(
    ("holds", "pods"),
    [
        pytest.param(
            [Hold("nvidia.com/gpu", ("GPU-a",), "ml", "train", "main")], ["train"], id="one pod has it"
        ),
        pytest.param(
            [Hold("nvidia.com/gpu", (f"GPU-a::{n}",), "ml", f"p{n}", "main") for n in range(2)],
            [""],
            id="TEL-3: pods that share it are not mixed up: it has no pod",
        ),
        pytest.param(
            [Hold("nvidia.com/gpu", (f"GPU-a::{n}",), "ml", "train", f"c{n}") for n in range(2)],
            ["train"],
            id="two containers of a pod",
        ),
        pytest.param(
            [Hold("example.com/gpu", ("GPU-a",), "ml", "train", "main")], [""], id="another resource"
        ),
    ],
)
async def test_rows_say_whose_a_device_is(exporter: Exporter, holds: list[Hold], pods: list[str]) -> None:
    exporter.hold(*holds)
    rows = exporter.rows("DCGM_FI_DEV_GPU_UTIL")
    assert [row.partition('pod="')[2].partition('"')[0] for row in rows] == pods


async def test_with_virtual_gpus_each_pod_has_a_row(tmp_path: Path, clock: VirtualClock) -> None:
    exporter = Exporter(tmp_path, clock, ExporterSettings(each_holder=True))
    await exporter.read()
    exporter.hold(*(Hold("nvidia.com/gpu", (f"GPU-a::{n}",), "ml", f"p{n}", "main") for n in range(2)))
    rows = exporter.rows("DCGM_FI_DEV_GPU_TEMP")
    assert [f'pod="p{n}",vgpu="{n}"' in row for n, row in enumerate(rows[:2])] == [True, True]


POD = PodIdentity(
    "uid-1", {"app": 'a "b"\n\\', "gpu": "x", "team.example.com/cost": "42", "a" * 60: "b" * 4096}
)


@pytest.mark.parametrize(
    ("settings", "labels"),
    [
        pytest.param(ExporterSettings(), {}, id="not asked for"),
        pytest.param(ExporterSettings(pod_uid=True), {"pod_uid": "uid-1"}, id="its uid"),
        pytest.param(
            ExporterSettings(pod_labels=True),
            {"app": 'a "b"\n\\', "team_example_com_cost": "42", "a" * 60: "b" * 4096},
            id="all but those that have the name of another label, quotes and new lines escaped",
        ),
        pytest.param(
            ExporterSettings(pod_labels=True, label_patterns=("(", r"^team\.", "(a+)+$")),
            {"team_example_com_cost": "42", "a" * 60: "b" * 4096},
            id="those that patterns choose: without the one that is none, and none backtracks",
        ),
        pytest.param(
            ExporterSettings(pod_labels=True, label_patterns=(r"^(a+)+b$", r"^team\.")),
            {"team_example_com_cost": "42"},
            id="a pattern that would backtrack for years, on a name that it does not match",
        ),
        pytest.param(
            ExporterSettings(pod_labels=True, label_patterns=("(", "[")), {}, id="no pattern can be used"
        ),
    ],
)
async def test_rows_carry_what_is_chosen_of_their_pod(
    tmp_path: Path, clock: VirtualClock, settings: ExporterSettings, labels: dict[str, str]
) -> None:
    exporter = Exporter(tmp_path, clock, settings)
    await exporter.read()
    exporter.board.pods.publish({"ml/train": POD})
    exporter.hold(TRAIN)
    (row,) = exporter.rows("DCGM_FI_DEV_GPU_UTIL")
    (family,) = text_string_to_metric_families(f"DCGM_FI_DEV_GPU_UTIL{row}\n")
    fixed = {"gpu", "UUID", "pci_bus_id", "device", "namespace", "pod", "container", "DCGM_FI_DRIVER_VERSION"}
    (sample,) = family.samples
    assert {name: value for name, value in sample.labels.items() if name not in fixed} == labels


async def test_the_last_xid_stands_with_its_words(exporter: Exporter) -> None:
    exporter.board.xids.publish(
        (SeenXid("GPU-a", 31, 0), SeenXid("GPU-a", 79, 1), SeenXid("GPU-b", 48, 1, 0))
    )
    first, second, third = exporter.rows("DCGM_FI_DEV_XID_ERRORS")
    assert first.endswith('err_code="79",err_msg="GPU has fallen off the bus"} 79')
    assert second.endswith("} 48")
    assert third.endswith('err_code="0",err_msg="No Error"} 0')


async def test_reasons_that_held_clocks_down_are_counted_within_a_window(
    tmp_path: Path, clock: VirtualClock
) -> None:
    csv = tmp_path / "counters.csv"
    csv.write_text("DCGM_EXP_CLOCK_EVENTS_COUNT, gauge, Clock events.\n")
    exporter = Exporter(tmp_path, clock, ExporterSettings(clock_window_ms=70_000), csv)
    await exporter.collectors.look()
    for bits in (0x40, 0x44, 0x04, 0):
        exporter.backend.clock_reasons = bits
        await exporter.read()
        await clock.advance(30)
    counts = {
        row.partition('clock_event="')[2].partition('"')[0]: row[-1] for row in exporter.rows(CLOCK_COUNT)
    }
    assert counts == {"power_cap": "1"}


@pytest.mark.parametrize(
    ("choice", "shown"),
    [("f", ["0", "1/0", "1/1"]), ("g", ["0", "1"]), ("i", ["1/0", "1/1"]), ("g:1", ["1"]), ("g:7", [])],
)
async def test_devices_are_chosen_in_dcgm_exporters_words(
    tmp_path: Path, clock: VirtualClock, choice: str, shown: list[str]
) -> None:
    wanted = entity_choice(choice)
    assert wanted is not None
    exporter = Exporter(tmp_path, clock, ExporterSettings(choice=wanted))
    await exporter.read()
    rows = exporter.rows("DCGM_FI_DEV_FB_USED")
    places = [re.search(r'gpu="(\d)"(?:.*GPU_I_ID="(\d)")?', row) for row in rows]
    assert ["/".join(filter(None, place.groups())) for place in places if place] == shown


async def test_each_nvlink_has_a_row_with_the_pod_of_its_gpu(tmp_path: Path, clock: VirtualClock) -> None:
    csv = tmp_path / "counters.csv"
    csv.write_text(
        "DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES, counter, Sent.\n"
        "DCGM_FI_DEV_NVLINK_COUNT_SYMBOL_BER_FLOAT, gauge, Rate.\n"
    )
    exporter = Exporter(tmp_path, clock, ExporterSettings(hostname="node-1"), csv)
    exporter.backend.links = {0: {"link_sent_bytes": 7}, 3: {"link_symbol_error_rate": 0.25}}
    await exporter.collectors.look()
    exporter.hold(TRAIN)
    await exporter.read()
    first, _ = exporter.rows("DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES")
    assert first == (
        '{nvlink="0",gpu="0",gpu_uuid="GPU-a",pci_bus_id="00000000:01:00.0",device="nvidia0",'
        'model_name="NVIDIA A100-SXM4-80GB",Hostname="node-1",container="main",namespace="ml",pod="train"} 7'
    )
    rates = exporter.rows("DCGM_FI_DEV_NVLINK_COUNT_SYMBOL_BER_FLOAT")
    assert [row.partition("} ")[2] for row in rates] == ["0.250000", "0.250000"]


async def test_a_counter_that_a_gpu_lacks_is_told_once(
    exporter: Exporter, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for _ in range(4):
        await clock.advance(30)
        await exporter.read()
    told = [line for line in caplog.text.splitlines() if "counters absent" in line]
    assert [uuid in line for uuid, line in zip(("GPU-a", "GPU-b"), told, strict=True)] == [True, True]
    assert "DCGM_FI_PROF_GR_ENGINE_ACTIVE" in told[0]


async def test_before_any_device_is_known_there_are_no_rows_of_one(
    tmp_path: Path, clock: VirtualClock
) -> None:
    exporter = Exporter(tmp_path, clock, ExporterSettings())
    assert exporter.rows("DCGM_FI_DEV_GPU_TEMP") == []
    assert "tonnage_exporter_scrape_errors_total 0" in exporter.text()


async def test_a_device_that_hangs_loses_its_rows_and_the_others_keep_theirs(
    exporter: Exporter, clock: VirtualClock, settings: ExporterSettings
) -> None:
    exporter.rewrite(TWO.replace("model: A100-80, util", "model: A100-80, health: hung, util"))
    for _ in range(4):
        await clock.advance(settings.interval_s)
        await exporter.sampler.sample()
    assert exporter.rows("DCGM_FI_DEV_GPU_UTIL") == []
    assert len(exporter.rows("DCGM_FI_DEV_FB_USED")) == 2
    exporter.board.inventory.publish(await exporter.backend.scan())
    stalls = exporter.rows("tonnage_gpu_driver_stall_seconds")
    assert [float(row.partition("} ")[2]) for row in stalls] == [4 * settings.interval_s, 0]


async def test_counters_follow_the_file_and_good_ones_stay(tmp_path: Path, clock: VirtualClock) -> None:
    csv = tmp_path / "counters.csv"
    csv.write_text("DCGM_FI_DEV_GPU_TEMP, gauge, Temperature.\nDCGM_FI_DEV_GPU_TMP, gauge, x\n")
    exporter = Exporter(tmp_path, clock, ExporterSettings(), csv)
    await exporter.collectors.look()
    assert [counter.name for counter in exporter.collectors.counters] == ["DCGM_FI_DEV_GPU_TEMP"]
    csv.write_text("nonsense\n")
    await exporter.collectors.look()
    assert [counter.name for counter in exporter.collectors.counters] == ["DCGM_FI_DEV_GPU_TEMP"]


async def test_without_the_file_the_default_counters_are_served(tmp_path: Path, clock: VirtualClock) -> None:
    """As where a ConfigMap that may be missing comes and goes."""
    csv = tmp_path / "counters.csv"
    exporter = Exporter(tmp_path, clock, ExporterSettings(), csv)
    default = exporter.collectors.counters
    await exporter.collectors.look()
    assert exporter.collectors.counters == default
    csv.write_text("DCGM_FI_DEV_GPU_TEMP, gauge, Temperature.\n")
    await exporter.collectors.look()
    assert len(exporter.collectors.counters) == 1
    csv.unlink()
    await exporter.collectors.look()
    assert exporter.collectors.counters == default


async def test_jobs_of_an_hpc_scheduler_stand_on_rows(tmp_path: Path, clock: VirtualClock) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "0").write_text("4711\n\n4712\n")
    (jobs / "notes").write_text("no job")
    exporter = Exporter(tmp_path, clock, ExporterSettings(jobs=jobs))
    await exporter.read()
    rows = exporter.rows("DCGM_FI_DEV_GPU_UTIL")
    assert [row.partition('hpc_job="')[2].partition('"')[0] for row in rows] == ["4711", "4712"]


async def test_a_page_is_written_anew_where_something_changed(
    exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []

    def counted(*given: Any) -> PageText:
        written.append("page")
        return exporter_page(*given)

    monkeypatch.setattr("tonnage.agent.exporter.page.exporter_page", counted)
    exporter.text()
    first = len(written)

    def writes() -> bool:
        written.clear()
        exporter.text()
        return len(written) == first

    assert not writes()
    assert not written
    await exporter.read()
    assert writes()
    exporter.hold(TRAIN)
    assert writes()
    exporter.board.pods.publish({"ml/train": PodIdentity("7")})
    assert writes()
    exporter.board.xids.publish((SeenXid("GPU-a", 79, 1.0),))
    assert writes()
    assert 'err_code="79"' in exporter.text()
    assert not written[first:]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(ExporterSettings(), id="of devices alone"),
        pytest.param(
            ExporterSettings(kubernetes=True, each_holder=True), id="TEL-5: with a row for each pod"
        ),
        pytest.param(ExporterSettings(kubernetes=True, series_limit=1), id="TEL-5: with pods left out"),
    ],
)
async def test_the_page_says_how_many_series_it_has(exporter: Exporter) -> None:
    exporter.hold(*(Hold("nvidia.com/gpu", (f"GPU-a::{n}",), "ml", f"p{n}", "main") for n in range(2)))
    exporter.backend.links = {0: {"link_sent_bytes": 7}}
    await exporter.read()
    await exporter.meter.count()
    lines = exporter.text().splitlines()
    series = sum(not line.startswith("#") for line in lines)
    assert f"tonnage_exporter_series {series}" in lines


async def test_a_page_shows_what_is_read_after_a_scrape(exporter: Exporter) -> None:
    before = exporter.rows("DCGM_FI_DEV_GPU_UTIL")
    exporter.rewrite(TWO.replace("utilizationPercent: 40", "utilizationPercent: 60"))
    await exporter.read()
    after = exporter.rows("DCGM_FI_DEV_GPU_UTIL")
    assert [row.replace("} 40", "} 60") for row in before] == after != before
