"""The pretended driver library, asked by the unmodified nvidia-ml-py: other tests rely on what it says."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml
import pytest

from support.driver_root import LIBRARIES, Driver
from support.nvml.bindings import fresh_bindings, handle, refusal
from support.nvml.library import NEWEST_C_LIBRARY, SONAME, nvml_library
from support.nvml.state import (
    SWITCH,
    FakeGpu,
    FakeLink,
    FakeProcess,
    all_pairs,
    h100_node,
    linked,
)
from tonnage.model.catalog.gpus import gpu_models


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = Driver(tmp_path, replace(h100_node(4), calls_file=tmp_path / "calls"))
    with fresh_bindings(made.root / LIBRARIES / SONAME):
        pynvml.nvmlInit()
        yield made


# ---- what it is ----


def test_it_needs_nothing_but_an_old_c_library() -> None:
    """It is mounted into containers of any age."""
    listed = subprocess.run(
        ["objdump", "-T", "-p", str(nvml_library())], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert re.findall(r"NEEDED +(\S+)", listed) == ["libc.so.6"]
    versions = [tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", listed)]
    assert versions
    assert max(versions)[:2] <= NEWEST_C_LIBRARY


def test_it_has_every_function_that_the_backend_asks() -> None:
    asked: set[str] = set()
    for file in Path(__file__).parents[3].glob("src/tonnage/adapters/vendors/nvml*.py"):
        asked |= set(re.findall(r"\bnvml\.(nvml[A-Z]\w+)\(", file.read_text(encoding="utf-8")))
    assert {"nvmlDeviceGetCount", "nvmlEventSetWait_v2"} <= asked
    source = Path(pynvml.__file__).read_text(encoding="utf-8")
    library = ctypes.CDLL(str(nvml_library()))
    for name in asked:
        body = re.split(r"\n(?:def|class) ", source.split(f"\ndef {name}(", 1)[1])[0]
        for symbol in re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', body) or ["nvmlInitWithFlags"]:
            assert hasattr(library, symbol), f"{name} needs {symbol}"


@pytest.mark.parametrize(
    ("structure", "version"),
    [
        (pynvml.c_nvmlMemory_v2_t, pynvml.nvmlMemory_v2),
        (pynvml.nvmlPciInfoExt_v1_t, pynvml.nvmlPciInfoExt_v1),
        (pynvml.c_nvmlGpuInstanceProfileInfo_v2_t, pynvml.nvmlGpuInstanceProfileInfo_v2),
        (pynvml.c_nvmlComputeInstanceProfileInfo_v2_t, pynvml.nvmlComputeInstanceProfileInfo_v2),
        (pynvml.c_nvmlGpuFabricInfo_v3_t, pynvml.nvmlGpuFabricInfo_v3),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_versions_hold_the_size_of_a_structure(structure: Any, version: int) -> None:
    """The library computes them so; a binding that changed a layout would be refused, not misread."""
    assert version & 0xFFFFFF == ctypes.sizeof(structure)


def test_without_gcc_it_is_an_error_and_not_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RuntimeError, match="apt-get install gcc"):
        nvml_library()


def test_a_state_file_that_makes_no_sense_is_named_with_its_line(
    driver: Driver, capfd: pytest.CaptureFixture[str]
) -> None:
    driver.file.write_text("driver 1.2\ngpu 0 colour green\n")
    assert refusal(pynvml.nvmlDeviceGetCount) == pynvml.NVML_ERROR_UNKNOWN
    assert f"{driver.file}:2: not understood: gpu" in capfd.readouterr().err


def test_the_environment_may_name_the_state_file(tmp_path: Path) -> None:
    state = tmp_path / "state"
    h100_node(3).write(state)
    script = f"""
import ctypes, pynvml
pynvml.nvmlLib = ctypes.CDLL({str(nvml_library())!r})
pynvml.nvmlInit()
print(pynvml.nvmlDeviceGetCount())
"""
    environment = {**os.environ, "TONNAGE_FAKE_NVML": str(state)}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "3\n"


# ---- what it says ----


def test_the_node(driver: Driver) -> None:
    assert pynvml.nvmlDeviceGetCount() == 4
    assert pynvml.nvmlSystemGetDriverVersion() == "570.124.06"
    assert pynvml.nvmlSystemGetNVMLVersion() == "12.570.124.06"
    assert pynvml.nvmlSystemGetCudaDriverVersion_v2() == 12080
    assert pynvml.nvmlErrorString(pynvml.NVML_ERROR_GPU_IS_LOST) == "GPU is lost"


def test_a_gpu_is_what_the_catalogue_says(driver: Driver) -> None:
    model, gpu, device = gpu_models()["H100-80"], driver.state.gpu(3), handle(3)
    assert pynvml.nvmlDeviceGetName(device) == model.product
    assert pynvml.nvmlDeviceGetUUID(device) == gpu.identity
    assert pynvml.nvmlDeviceGetMemoryInfo(device).total == model.memory_mib << 20
    memory = pynvml.nvmlDeviceGetMemoryInfo(device, pynvml.nvmlMemory_v2)
    assert memory.total == memory.free + memory.used + memory.reserved
    assert pynvml.nvmlDeviceGetCudaComputeCapability(device) == (9, 0)
    assert pynvml.nvmlDeviceGetArchitecture(device) == pynvml.NVML_DEVICE_ARCH_HOPPER
    assert pynvml.nvmlDeviceGetBrand(device) == pynvml.NVML_BRAND_NVIDIA
    assert pynvml.nvmlDeviceGetMinorNumber(device) == 3
    assert pynvml.nvmlDeviceGetIndex(device) == 3
    assert pynvml.nvmlDeviceGetPowerManagementLimit(device) == model.power_limit_w * 1000
    assert list(pynvml.nvmlDeviceGetMemoryAffinity(device, 2, 0)) == [1 << 1, 0]
    assert pynvml.nvmlDeviceGetEccMode(device) == [1, 1]
    assert pynvml.nvmlDeviceGetRemappedRows(device) == (0, 0, 0, 0)
    assert pynvml.nvmlDeviceGetTemperature(device, 0) == pynvml.nvmlDeviceGetTemperatureV(device, 0) == 35
    assert pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_MEM) == 2619


def test_pci_addresses_are_in_both_forms(driver: Driver) -> None:
    extended = pynvml.nvmlPciInfoExt_v1_t(version=pynvml.nvmlPciInfoExt_v1)
    pynvml.nvmlDeviceGetPciInfoExt(handle(2), ctypes.byref(extended))
    for info in (pynvml.nvmlDeviceGetPciInfo_v3(handle(2)), extended):
        assert (info.busId, info.domain, info.bus, info.device) == ("00000000:03:00.0", 0, 3, 0)
        assert info.pciDeviceId == 0x233010DE
    assert pynvml.nvmlDeviceGetPciInfo_v3(handle(2)).busIdLegacy == "0000:03:00.0"
    for text in (b"00000000:03:00.0", b"0000:03:00.0"):
        assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByPciBusId(text)) == 2


def test_a_gpu_is_found_by_its_uuid(driver: Driver) -> None:
    uuid = driver.state.gpu(1).identity
    assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByUUID(uuid.encode())) == 1
    assert refusal(pynvml.nvmlDeviceGetHandleByUUID, b"GPU-none") == pynvml.NVML_ERROR_NOT_FOUND


def test_sixty_four_gpus_are_the_most(driver: Driver) -> None:
    driver.become(h100_node(64))
    assert pynvml.nvmlDeviceGetCount() == 64
    assert pynvml.nvmlDeviceGetMinorNumber(handle(63)) == 63
    assert refusal(handle, 64) == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_what_is_not_stated_is_not_supported(driver: Driver) -> None:
    driver.become(replace(driver.state, gpus=(FakeGpu(0, "T4", numa=None),)))
    for call in (pynvml.nvmlDeviceGetMigMode, pynvml.nvmlDeviceGetNumaNodeId, pynvml.nvmlDeviceGetFanSpeed):
        assert refusal(call, handle(0)) == pynvml.NVML_ERROR_NOT_SUPPORTED
    assert not pynvml.nvmlGpmQueryDeviceSupport(handle(0)).isSupportedDevice


def test_fields_are_those_stated_and_those_that_follow(driver: Driver) -> None:
    driver.change(0, recovery_action=2, ecc_uncorrected_volatile=3)
    driver.become(replace(driver.state, fields={(0, 138): 4096}))
    asked = (pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL, 138, 91, 9999)
    values = pynvml.nvmlDeviceGetFieldValues(handle(0), asked)
    codes = [value.nvmlReturn for value in values]
    assert codes == [0, 0, 0, 0, pynvml.NVML_ERROR_NOT_SUPPORTED]
    assert (values[0].value.uiVal, values[1].value.ullVal, values[2].value.uiVal) == (2, 3, 4096)
    assert values[3].value.uiVal == 18


def test_metrics_lie_between_two_samples_of_one_gpu(driver: Driver) -> None:
    driver.become(replace(driver.state, metrics={(1, pynvml.NVML_GPM_METRIC_SM_UTIL): 73.25}))
    samples = [pynvml.nvmlGpmSampleGet(handle(1), pynvml.nvmlGpmSampleAlloc()) for _ in range(2)]
    request = pynvml.c_nvmlGpmMetricsGet_t()
    request.version, request.numMetrics = pynvml.NVML_GPM_METRICS_GET_VERSION, 2
    request.sample1, request.sample2 = samples
    request.metrics[0].metricId, request.metrics[1].metricId = 2, 3
    answer = pynvml.nvmlGpmMetricsGet(request)
    assert answer.metrics[0].value == pytest.approx(73.25)
    assert answer.metrics[1].nvmlReturn == pynvml.NVML_ERROR_NOT_SUPPORTED
    other = pynvml.nvmlGpmSampleGet(handle(2), pynvml.nvmlGpmSampleAlloc())
    request.sample2 = other
    assert refusal(pynvml.nvmlGpmMetricsGet, request) == pynvml.NVML_ERROR_INVALID_ARGUMENT
    for sample in (*samples, other):
        pynvml.nvmlGpmSampleFree(sample)


def test_processes_are_those_of_the_device(driver: Driver) -> None:
    mine = FakeProcess(1, os.getpid(), memory_mib=100)
    driver.become(replace(driver.state, processes=(mine, FakeProcess(2, 1, kind="mps"))))
    (found,) = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle(1))
    assert (found.pid, found.usedGpuMemory) == (os.getpid(), 100 << 20)
    assert pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle(2)) == []
    assert len(pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3(handle(2))) == 1
    assert "python" in pynvml.nvmlSystemGetProcessName(os.getpid())


# ---- links ----


def test_links_to_switches(driver: Driver) -> None:
    assert [pynvml.nvmlDeviceGetNvLinkState(handle(0), link) for link in range(18)] == [1] * 18
    assert refusal(pynvml.nvmlDeviceGetNvLinkState, handle(0), 18) == pynvml.NVML_ERROR_NOT_SUPPORTED
    assert pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle(0), 3) == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
    assert pynvml.nvmlDeviceGetNvLinkVersion(handle(0), 3) == pynvml.NVML_NVLINK_VERSION_4_0
    assert pynvml.nvmlDeviceGetNvLinkCapability(handle(0), 3, pynvml.NVML_NVLINK_CAP_P2P_SUPPORTED) == 1
    assert pynvml.nvmlDeviceGetP2PStatus(handle(0), handle(1), pynvml.NVML_P2P_CAPS_INDEX_NVLINK) == 0


def test_direct_links_lead_to_the_peers_address(driver: Driver) -> None:
    driver.become(replace(driver.state, links=linked({(0, 1): 2, (0, 2): 1})))
    remote = [pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle(0), link).busId for link in range(3)]
    assert remote == ["00000000:02:00.0", "00000000:02:00.0", "00000000:03:00.0"]
    assert pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle(2), 0).busId == "00000000:01:00.0"
    nvlink = pynvml.NVML_P2P_CAPS_INDEX_NVLINK
    assert pynvml.nvmlDeviceGetP2PStatus(handle(1), handle(2), nvlink) == pynvml.NVML_P2P_STATUS_NOT_SUPPORTED


def test_a_link_may_be_down_at_one_end_alone(driver: Driver) -> None:
    driver.become(replace(driver.state, links=(FakeLink(0, 0, 1), FakeLink(1, 0, 0, active=False))))
    assert pynvml.nvmlDeviceGetNvLinkState(handle(0), 0) == 1
    assert pynvml.nvmlDeviceGetNvLinkState(handle(1), 0) == 0


def test_levels_are_those_stated_else_the_numa_nodes(driver: Driver) -> None:
    driver.become(replace(driver.state, levels={(0, 1): 10}))
    levels = [pynvml.nvmlDeviceGetTopologyCommonAncestor(handle(1), handle(i)) for i in (0, 1, 2, 3)]
    assert levels == [10, 0, 50, 50]


def test_links_of_every_pair(driver: Driver) -> None:
    links = linked(all_pairs(range(4), 4))
    assert len(links) == 6 * 2 * 4
    assert {link.peer for link in links if link.slot == 0} == {1, 2, 3}
    assert {link.link for link in links if link.slot == 0} == set(range(12))
    assert all(link.peer == SWITCH for link in h100_node().links)


# ---- the driver root ----


def test_a_driver_root_is_laid_out_as_on_a_host(driver: Driver) -> None:
    root = driver.root
    assert (root / LIBRARIES / SONAME).readlink() == Path("libnvidia-ml.so.570.124.06")
    for name in ("nvidiactl", "nvidia-uvm", "nvidia0", "nvidia3"):
        assert (root / "dev" / name).read_bytes() == b""
    assert "570.124.06" in (root / "proc/driver/nvidia/version").read_text()
    assert (root / "sys/bus/pci/devices/0000:04:00.0/numa_node").read_text() == "1\n"
