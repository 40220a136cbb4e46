"""What pods use of devices, counted over restarts, damage and changes of layout, within a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.agent_context import context_of
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.adapters.job_files import JobFiles
from tonnage.adapters.process_table import ProcFiles
from tonnage.agent.board import NodeBoard
from tonnage.agent.exporter.page import ExporterPage
from tonnage.agent.exporter.pod_usage import CHECKPOINT, UsageMeter
from tonnage.agent.exporter.processes import DeviceProcesses
from tonnage.agent.exporter.sampling import DeviceSampler
from tonnage.agent.exporter.settings import ExporterSettings
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.exporter.usage import USAGE_FIELDS
from tonnage.documents.exporter_counters import default_counters
from tonnage.model.devices.inventory import GpuProcess
from tonnage.model.devices.sharing import Hold
from tonnage.model.errors import HardwareError, Problem
from tonnage.model.node.telemetry import ExportedCounter, PodIdentity
from tonnage.twin.clock import VirtualClock
from tonnage.twin.devices.scenario import ScenarioBackend

SHARED = "nvidia.com/gpu.shared"
TRAIN = Hold("nvidia.com/gpu", ("GPU-a",), "ml", "train", "main")
WHOLE = "devices: [{uuid: GPU-a, model: A100-80, utilizationPercent: 40, memoryUsedMib: 1200}]"
DIVIDED = "devices: [{uuid: GPU-a, model: A100-80, mig: [3g.40gb, 3g.40gb]}]"


def sharer(number: int) -> Hold:
    return Hold(SHARED, (f"GPU-a::{number}",), "ml", f"p{number}", "main")


class Metered:
    """An exporter that counts, without a loop or a socket; another in the same folder is the next agent."""

    def __init__(self, folder: Path, clock: VirtualClock, **settings: object) -> None:
        self._folder = folder
        self._clock = clock
        self._hardware = folder / "hardware.yaml"
        if not self._hardware.exists():
            self._hardware.write_text(WHOLE)
        self._backend = ScenarioBackend(self._hardware, clock)
        chosen = ExporterSettings(**settings)  # type: ignore[arg-type]
        context = context_of("node-1", None, clock, FolderCheckpoints(folder))
        self.board = NodeBoard.blank(clock)
        self.sampler = DeviceSampler(context, self._backend, lambda: USAGE_FIELDS, chosen)
        replicas = {(SHARED, "GPU-a"): 4}
        table = ProcFiles(folder)
        processes = DeviceProcesses(context, self.board, self._backend, table) if chosen.processes else None
        self.meter = UsageMeter(
            context, self.board, self.sampler, replicas=lambda: replicas, processes=processes
        )
        jobs = JobFiles(chosen.jobs).contents
        self._page = ExporterPage(chosen, self.board, clock, self.sampler, jobs, self.meter)

    def hold(self, *holds: Hold) -> None:
        self.board.holds.publish(DeviceHolds.of(holds))

    def rewrite(self, text: str) -> None:
        self._hardware.write_text(text)

    def forbid_processes(self) -> None:
        async def refused() -> tuple[GpuProcess, ...]:
            raise HardwareError(Problem("NVML: not permitted"))

        self._backend.processes = refused  # type: ignore[method-assign]

    async def readings(self, count: int) -> None:
        for _ in range(count):
            await self._clock.advance(30)
            self.board.inventory.publish(await self._backend.scan())
            await self.sampler.sample()
            await self.meter.count()

    def text(self, counters: Sequence[ExportedCounter] = ()) -> str:
        return self._page.text(counters)

    def rows(self, family: str) -> list[tuple[Mapping[str, str], float]]:
        name = f"tonnage_pod_gpu_{family}"
        return [
            (sample.labels, sample.value)
            for metric in text_string_to_metric_families(self.text())
            for sample in metric.samples
            if sample.name == name
        ]

    def values(self, family: str) -> dict[str, float]:
        return {labels["pod"]: round(value, 3) for labels, value in self.rows(family)}


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def metered(tmp_path: Path, clock: VirtualClock) -> Metered:
    return Metered(tmp_path, clock)


async def test_a_whole_gpu_is_counted_for_the_pod_that_has_it(metered: Metered) -> None:
    metered.hold(TRAIN)
    await metered.readings(3)
    ((labels, seconds),) = metered.rows("seconds_total")
    assert labels == {
        "namespace": "ml",
        "pod": "train",
        "container": "main",
        "UUID": "GPU-a",
        "gpu": "0",
        "resource": "nvidia.com/gpu",
        "attribution": "exact",
    }
    assert seconds == 60
    assert metered.values("compute_seconds_total") == {"train": 24}
    assert metered.values("compute_ratio") == {"train": 0.4}
    assert metered.values("memory_bytes") == {"train": 1200 << 20}
    assert metered.values("energy_joules_total")["train"] == pytest.approx(60 * 400 / 6, rel=1e-3)


async def test_counters_go_on_after_a_restart_and_never_back(
    metered: Metered, tmp_path: Path, clock: VirtualClock
) -> None:
    metered.hold(TRAIN)
    await metered.readings(3)
    since = metered.meter.counters.since_s
    successor = Metered(tmp_path, clock)
    await successor.meter.restore()
    successor.hold(TRAIN)
    await successor.readings(1)
    assert successor.values("seconds_total") == {"train": 60}, "what passed between the two is nobody's"
    await successor.readings(1)
    assert successor.values("seconds_total") == {"train": 90}
    assert successor.meter.counters.since_s == since


@pytest.mark.parametrize("content", [b"", b"{}", b'{"version":1,"since":0,"users":[["a"]]}', b"\xff" * 99])
async def test_counters_that_cannot_be_read_begin_anew_and_the_page_says_when(
    metered: Metered, tmp_path: Path, clock: VirtualClock, content: bytes
) -> None:
    metered.hold(TRAIN)
    await metered.readings(2)
    await FolderCheckpoints(tmp_path).save(CHECKPOINT, content)
    await clock.advance(100)
    successor = Metered(tmp_path, clock)
    await successor.meter.restore()
    successor.hold(TRAIN)
    await successor.readings(2)
    assert successor.values("seconds_total") == {"train": 30}
    assert successor.meter.counters.since_s >= metered.meter.counters.since_s + 100
    assert "tonnage_exporter_pod_counters_start_time_seconds" in successor.text()


async def test_a_pod_that_ended_leaves_no_series_and_nothing_on_disk(
    metered: Metered, tmp_path: Path
) -> None:
    metered.hold(sharer(0), sharer(1))
    await metered.readings(2)
    metered.hold(sharer(1))
    assert {labels["pod"] for labels, _ in metered.rows("seconds_total")} == {"p1"}, "before the next reading"
    await metered.readings(1)
    assert b"p0" not in (await FolderCheckpoints(tmp_path).load(CHECKPOINT) or b"")


async def test_a_pod_that_came_since_the_last_reading_has_none_of_what_was_used_before(
    metered: Metered,
) -> None:
    metered.hold(sharer(0))
    await metered.readings(2)
    metered.hold(sharer(0), sharer(1))
    await metered.readings(1)
    assert metered.values("seconds_total") == {"p0": 15}
    await metered.readings(1)
    assert metered.values("seconds_total") == {"p0": 22.5, "p1": 7.5}


async def test_without_processes_a_shared_gpu_is_divided_and_one_line_says_why(
    metered: Metered, caplog: pytest.LogCaptureFixture
) -> None:
    metered.hold(sharer(0), sharer(1))
    await metered.readings(2)
    assert metered.values("compute_ratio") == {"p0": 0.2, "p1": 0.2}
    assert {labels["attribution"] for labels, _ in metered.rows("memory_bytes")} == {"even"}
    lines = [line for line in metered.text().splitlines() if "attribution is even" in line]
    assert lines == [f"# attribution is even: {metered.meter.even_reason(metered.meter.shares())}"]
    assert caplog.text.count("attribution is even") == 1, "each scrape shows it, the log has it once"


async def test_a_change_of_the_mig_layout_ends_series_and_begins_others(metered: Metered) -> None:
    metered.hold(TRAIN)
    await metered.readings(2)
    metered.rewrite(DIVIDED)
    metered.hold()
    await metered.readings(1)
    assert metered.rows("seconds_total") == []
    inventory = metered.board.inventory.value
    assert inventory is not None
    part = inventory.devices[0].migs[0]
    metered.hold(Hold("nvidia.com/mig-3g.40gb", (part.uuid,), "ml", "infer", "main"))
    await metered.readings(2)
    ((labels, seconds),) = metered.rows("seconds_total")
    assert (labels["GPU_I_PROFILE"], labels["GPU_I_ID"]) == ("3g.40gb", str(part.gpu_instance))
    assert 12 < seconds <= 15
    metered.rewrite(WHOLE)
    metered.hold(TRAIN)
    await metered.readings(3)
    assert metered.values("seconds_total") == {"train": 60}, (
        "the pod of then ended: this is another series' start"
    )


async def test_a_device_that_hangs_uses_nothing_and_keeps_what_was_counted(metered: Metered) -> None:
    metered.hold(TRAIN)
    await metered.readings(3)
    metered.rewrite(WHOLE.replace("model: A100-80,", "model: A100-80, health: hung,"))
    await metered.readings(4)
    assert metered.values("seconds_total") == {"train": 60}
    assert metered.values("compute_ratio") == {}


async def test_rows_have_the_uid_labels_and_jobs_that_are_asked_for(
    tmp_path: Path, clock: VirtualClock
) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "0").write_text('4711\n47"12\n')
    metered = Metered(tmp_path, clock, jobs=jobs, pod_uid=True, pod_labels=True, label_patterns=("^team$",))
    metered.board.pods.publish(
        {"ml/train": PodIdentity("uid-1", {"team": 'a\\"b\n', "pod": "x", "gpu": "y"})}
    )
    metered.hold(TRAIN)
    await metered.readings(2)
    ((labels, _),) = metered.rows("seconds_total")
    chosen = {name: labels[name] for name in ("pod_uid", "team", "hpc_job", "pod", "gpu")}
    assert chosen == {
        "pod_uid": "uid-1",
        "team": 'a\\"b\n',
        "hpc_job": '4711,47"12',
        "pod": "train",
        "gpu": "0",
    }


async def test_the_budget_of_series_keeps_whole_pods_and_says_what_is_left_out(
    tmp_path: Path, clock: VirtualClock
) -> None:
    """TEL-5: a node that many pods share."""
    metered = Metered(tmp_path, clock, series_limit=11)
    metered.hold(*map(sharer, range(4)))
    await metered.readings(2)
    shown = {labels["pod"] for labels, _ in metered.rows("memory_bytes")}
    assert shown == {"p0", "p1"}
    assert "tonnage_exporter_users_left_out 2\n" in metered.text()
    assert "tonnage_exporter_series_limit 11\n" in metered.text()
    (reason,) = (line for line in metered.text().splitlines() if "left out:" in line)
    assert reason.endswith("with their 10 series the page would have more than 11 (--series-limit)")
    metered.hold(sharer(3))
    assert "tonnage_exporter_users_left_out 0\n" in metered.text()


async def test_a_disk_that_refuses_stops_no_counting(metered: Metered, tmp_path: Path) -> None:
    (tmp_path / CHECKPOINT).mkdir()
    metered.hold(TRAIN)
    await metered.readings(2)
    assert metered.values("seconds_total") == {"train": 30}


UIDS = [f"{number}0000000-0000-4000-8000-000000000000" for number in range(3)]
BY_PROCESS = """
devices:
- uuid: GPU-a
  model: A100-80
  utilizationPercent: 60
  memoryUsedMib: 2000
  processes:
  - {pid: 100, memoryMib: 900, utilizationPercent: 40}
  - {pid: 101, memoryMib: 600, utilizationPercent: 10}
  - {pid: 999, memoryMib: 100, utilizationPercent: 10}
"""


def proc(folder: Path, pid: int, cgroup: str) -> None:
    place = folder / "proc" / str(pid)
    place.mkdir(parents=True, exist_ok=True)
    (place / "stat").write_text(f"{pid} (python) S " + "0 " * 18 + "100 0\n")
    (place / "cgroup").write_text(cgroup)
    (place / "status").write_text("Name:\tpython\nUid:\t0\t0\t0\t0\n")
    (folder / "proc" / "uptime").write_text("1000.00 1.00\n")


def with_processes(folder: Path, clock: VirtualClock, **settings: object) -> Metered:
    metered = Metered(folder, clock, processes=True, **settings)
    metered.rewrite(BY_PROCESS)
    for number in range(2):
        proc(folder, 100 + number, f"0::/kubepods.slice/kubepods-pod{UIDS[number].replace('-', '_')}.slice/x")
    metered.board.pods.publish({f"ml/p{number}": PodIdentity(UIDS[number]) for number in range(3)})
    metered.hold(*map(sharer, range(3)))
    return metered


async def test_with_processes_each_pod_of_a_shared_gpu_has_its_own_use(
    tmp_path: Path, clock: VirtualClock
) -> None:
    """SHR-7, TEL-5: an idle neighbour is idle, and what a process of the host uses is nobody's."""
    metered = with_processes(tmp_path, clock)
    await metered.readings(2)
    assert metered.values("compute_ratio") == {"p0": 0.4, "p1": 0.1, "p2": 0}
    assert metered.values("memory_bytes") == {"p0": 900 << 20, "p1": 600 << 20, "p2": 0}
    assert metered.values("compute_seconds_total") == {"p0": 12, "p1": 3, "p2": 0}
    energy = metered.values("energy_joules_total")
    assert energy["p0"] == pytest.approx(4 * energy["p1"])
    assert energy["p2"] == 0
    assert {labels["attribution"] for labels, _ in metered.rows("compute_ratio")} == {"process"}
    assert "attribution is even" not in metered.text()


async def test_rows_of_dcgm_by_process_are_as_dcgm_exporter_prints_them(
    tmp_path: Path, clock: VirtualClock
) -> None:
    metered = with_processes(tmp_path, clock, each_holder=True, resources=(SHARED,))
    await metered.readings(2)
    counters = [counter for counter in default_counters() if counter.name == "DCGM_FI_DEV_FB_USED"]
    rows = [
        line.partition("modelName")[2].partition(",")[2]
        for line in metered.text(counters).splitlines()
        if line.startswith("DCGM_FI_DEV_FB_USED{")
    ]
    assert rows[1:] == [
        f'container="main",namespace="ml",pod="p{number}",pod_uid="{UIDS[number]}",vgpu="{number}"}} {used}'
        for number, used in enumerate((900, 600, 0))
    ]
    assert len(rows) == 4, "the device's row, and one for each pod"


async def test_without_processes_no_pod_has_the_devices_number(tmp_path: Path, clock: VirtualClock) -> None:
    metered = Metered(tmp_path, clock, each_holder=True, resources=(SHARED,))
    metered.hold(sharer(0), sharer(1))
    await metered.readings(1)
    counters = [counter for counter in default_counters() if counter.name == "DCGM_FI_DEV_GPU_UTIL"]
    rows = [line for line in metered.text(counters).splitlines() if line.startswith("DCGM_FI_DEV_GPU_UTIL{")]
    assert ["pod=" in row for row in rows] == [False]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(
            "no host", "processes of other pods cannot be seen: the agent's pod needs hostPID", id="hostPID"
        ),
        pytest.param("no pods", "the agent has not read the pods of this node yet", id="no API server"),
        pytest.param("silent", "the driver does not list processes", id="the driver"),
    ],
)
async def test_where_processes_are_not_seen_the_division_is_even_and_says_why(
    tmp_path: Path, clock: VirtualClock, change: str, reason: str
) -> None:
    metered = with_processes(tmp_path, clock)
    match change:
        case "no host":
            (tmp_path / "proc").rename(tmp_path / "elsewhere")
        case "no pods":
            metered.board.pods.publish({})
        case _:
            metered.forbid_processes()
    await metered.readings(2)
    assert {labels["attribution"] for labels, _ in metered.rows("memory_bytes")} == {"even"}
    assert f"# attribution is even: {reason}\n" in metered.text()


async def test_two_processes_with_one_number_over_time_are_told_apart(
    tmp_path: Path, clock: VirtualClock
) -> None:
    metered = with_processes(tmp_path, clock)
    await metered.readings(2)
    proc(tmp_path, 100, f"0::/kubepods/pod{UIDS[2]}/x")
    await metered.readings(1)
    assert metered.values("compute_seconds_total") == {"p0": 12, "p1": 6, "p2": 12}
    # It began after the driver was asked.
    (tmp_path / "proc/100/stat").write_text("100 (python) S " + "0 " * 18 + f"{10**9} 0\n")
    await metered.readings(1)
    assert metered.values("compute_seconds_total") == {"p0": 12, "p1": 9, "p2": 12}, (
        "it began after the question"
    )
