"""Services measured on a GPU: processes over a pretended libcuda, which computes what the kernels are to."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.nvml.library import built_library
from tonnage.adapters.gpu_service import expected, latencies, rounds_for
from tonnage.adapters.measured_load import MeasuredLevels, report
from tonnage.adapters.workload import add_vectors
from tonnage.documents.pretended_load import parse_load
from tonnage.model.devices.pretended_load import PretendedLoad
from tonnage.model.devices.service_levels import ServiceLevel, SharingWay
from tonnage.model.errors import HardwareError

SOURCES = Path(__file__).parents[1] / "support" / "cuda"
LOAD = "inference rate=40 service=5ms width=20%"
ROW = re.compile(
    r"(exclusive|time-slicing|mps) 40/s [0-9.]+/s (grows grows grows|([0-9.]+ms ?){3}) process-\d"
)


@dataclass(frozen=True, slots=True)
class Gpu:
    """Programs that find the pretended library; `folder` has its log of kernels."""

    folder: Path
    environment: dict[str, str]

    def measured(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tonnage.adapters.measured_load", *arguments]
        environment = {**self.environment, **variables}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    def kernels(self) -> list[list[str]]:
        return [line.split() for line in (self.folder / "log").read_text().splitlines()]


@pytest.fixture
def gpu(tmp_path: Path) -> Gpu:
    library = built_library(SOURCES, "libcuda.so.1")
    pretended = {"LD_LIBRARY_PATH": str(library.parent), "PRETENDED_CUDA": str(tmp_path)}
    return Gpu(tmp_path, {**os.environ, **pretended, "PRETENDED_CUDA_NS": "20"})


@pytest.mark.parametrize(
    ("variables", "way"),
    [
        pytest.param({}, "time-slicing", id="SHR-7: time-slicing"),
        pytest.param(
            {"CUDA_MPS_PIPE_DIRECTORY": "/mps", "PRETENDED_CUDA_MPS": "1"}, "mps", id="SHR-7: through MPS"
        ),
    ],
)
def test_processes_share_the_gpu_and_are_measured(gpu: Gpu, variables: dict[str, str], way: str) -> None:
    done = gpu.measured(LOAD, "--processes", "3", "--seconds", "0.5", **variables)
    assert done.returncode == 0, done.stderr
    first, heading, *rows, advice = done.stdout.splitlines()
    assert first == f"3 on this GPU, {way}; measured on Pretended GPU"
    assert heading == "WAY RATE ANSWERED P50 P95 P99 SERVICE"
    assert [row.split()[0] for row in rows] == ["exclusive", way, way, way]
    assert all(ROW.fullmatch(row) for row in rows), rows
    assert advice.startswith("advice for 95 % within 50 ms: ")
    kernels = gpu.kernels()
    assert len({pid for pid, *_ in kernels}) == 3
    assert {(name, blocks, threads) for _, name, blocks, threads in kernels} == {("work", "20", "1024")}


def test_one_process_has_the_gpu(gpu: Gpu) -> None:
    done = gpu.measured(LOAD, "--processes", "1", "--seconds", "0.2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 on this GPU, exclusive; measured on Pretended GPU\n")
    assert len(done.stdout.splitlines()) == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["inferense"], "use inference if you meant that", id="a misspelt kind"),
        pytest.param(["idle"], "a load that answers requests is needed", id="no requests"),
        pytest.param([LOAD, "--processes", "0"], "--processes takes 1 to 48", id="no process"),
        pytest.param([LOAD, "--seconds", "nan"], "--seconds takes 0.1 to 600", id="no time"),
        pytest.param([LOAD, "--p95", "soon"], "--p95 takes milliseconds, as 50ms", id="no latency"),
    ],
)
def test_what_cannot_be_measured_is_refused(gpu: Gpu, arguments: list[str], words: str) -> None:
    done = gpu.measured(*arguments)
    assert done.returncode == 2
    assert words in done.stderr


@pytest.mark.parametrize("call", ["cuInit", "cuModuleLoadData", "cuLaunchKernel", "cuCtxSynchronize"])
def test_a_driver_that_refuses_is_named(gpu: Gpu, call: str) -> None:
    done = gpu.measured(LOAD, PRETENDED_CUDA_REFUSES=call)
    assert done.returncode == 1
    assert (
        f"error: nothing was measured: a service cannot use the GPU: {call}: CUDA_ERROR_UNKNOWN"
        in done.stderr
    )
    assert not done.stdout


def test_without_a_driver_nothing_is_measured(gpu: Gpu) -> None:
    (gpu.folder / "libcuda.so.1").touch()  # else that of a machine with a GPU would be found
    done = gpu.measured(LOAD, LD_LIBRARY_PATH=str(gpu.folder))
    assert done.returncode == 1
    assert "libcuda.so.1" in done.stderr


def test_the_workload_computes_on_the_pretended_library(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRETENDED_CUDA", str(gpu.folder))
    library = ctypes.CDLL(str(built_library(SOURCES, "libcuda.so.1")))
    assert add_vectors(library) == "Pretended GPU"


def test_rounds_are_found_by_trying() -> None:
    tried: list[int] = []

    def run(rounds: int) -> float:
        tried.append(rounds)
        return 1e-4 + rounds * 3e-9

    assert abs(run(rounds_for(0.01, run)) - 0.01) < 0.0004
    assert len(tried) < 30


def test_a_device_on_which_no_kernel_takes_so_long_is_told() -> None:
    with pytest.raises(HardwareError, match="no kernel takes 1 ms on this device"):
        rounds_for(0.001, lambda _rounds: 0.5)


class Clock:
    """Time that passes while somebody sleeps."""

    now_s = 7.0

    def perf_counter(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.mark.parametrize(("service_s", "keeps_up"), [(0.001, True), (0.1, False)])
def test_requests_that_cannot_be_begun_in_time_are_not_answered(
    monkeypatch: pytest.MonkeyPatch, service_s: float, keeps_up: bool
) -> None:
    clock = Clock()
    monkeypatch.setattr("tonnage.adapters.gpu_service.time", clock)
    came, taken = latencies(lambda: clock.sleep(service_s), rate=40, seconds=10, seed=1)
    assert 300 < came < 500
    assert (len(taken) == came) == keeps_up
    assert len(taken) >= 99
    assert min(taken) >= service_s * 0.999
    assert (max(taken) < 0.01) == keeps_up


def test_the_expected_value_is_that_of_going_every_round() -> None:
    value = 5
    for _ in range(1000):
        value = (value * 1_664_525 + 1_013_904_223) % 2**32
    assert expected(5, 1000) == value


FAST, SLOW = ServiceLevel(40, 0.01, 0.02, 0.03), ServiceLevel(31, None, None, None)


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        pytest.param((SharingWay.MPS, FAST, FAST), "mps on 1 GPU: all 2 were in time", id="in time"),
        pytest.param((SharingWay.TIME_SLICING, FAST, SLOW), "exclusive on 2 GPUs: time-slicing", id="late"),
        pytest.param((SharingWay.MPS, SLOW, SLOW), "a larger GPU, or smaller requests", id="late alone"),
    ],
)
def test_the_advice_is_of_what_was_measured(
    levels: tuple[SharingWay, ServiceLevel, ServiceLevel], words: str
) -> None:
    load = parse_load(LOAD)
    assert isinstance(load, PretendedLoad)
    way, alone, other = levels
    *_, advice = report(MeasuredLevels("A100", way, alone, (alone, other)), load, 0.05)
    assert advice.startswith(f"advice for 95 % within 50 ms: {words}")
