"""The pretended driver library, asked by the unmodified nvidia-ml-py: other tests rely on what it says."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml
import pytest

from support.driver_root import LIBRARIES, Driver, install_driver
from support.nvml.bindings import fresh_bindings
from support.nvml.changes import mig_devices, reset_gpu
from support.nvml.library import NEWEST_C_LIBRARY, SONAME, nvml_library
from support.nvml.state import (
    SWITCH,
    DriverState,
    FakeGpu,
    FakeLink,
    FakeMig,
    FakeProcess,
    Rule,
    all_pairs,
    h100_node,
    linked,
)
from tonnage.model.catalog.gpus import gpu_models

PATIENCE_S = 20.0


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = Driver(tmp_path, replace(h100_node(4), calls_file=tmp_path / "calls"))
    with fresh_bindings(made.root / LIBRARIES / SONAME):
        pynvml.nvmlInit()
        yield made


def handle(index: int) -> Any:
    return pynvml.nvmlDeviceGetHandleByIndex(index)


def code_of(call: Any, *args: Any) -> int:
    """NVML's code for the refusal of this call."""
    with pytest.raises(pynvml.NVMLError) as refusal:
        call(*args)
    return int(refusal.value.value)


# ---- what it is ----


def test_it_needs_nothing_but_an_old_c_library() -> None:
    """It is mounted into containers of any age."""
    listed = subprocess.run(
        ["objdump", "-T", "-p", str(nvml_library())], capture_output=True, text=True, check=True
    ).stdout
    assert re.findall(r"NEEDED +(\S+)", listed) == ["libc.so.6"]
    versions = [tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", listed)]
    assert versions
    assert max(versions)[:2] <= NEWEST_C_LIBRARY


def test_it_has_every_function_that_the_backend_asks() -> None:
    asked: set[str] = set()
    for file in Path(__file__).parents[2].glob("src/tonnage/adapters/vendors/nvml*.py"):
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
    assert code_of(pynvml.nvmlDeviceGetCount) == pynvml.NVML_ERROR_UNKNOWN
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
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
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
    assert code_of(pynvml.nvmlDeviceGetHandleByUUID, b"GPU-none") == pynvml.NVML_ERROR_NOT_FOUND


def test_sixty_four_gpus_are_the_most(driver: Driver) -> None:
    driver.become(h100_node(64))
    assert pynvml.nvmlDeviceGetCount() == 64
    assert pynvml.nvmlDeviceGetMinorNumber(handle(63)) == 63
    assert code_of(handle, 64) == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_what_is_not_stated_is_not_supported(driver: Driver) -> None:
    driver.become(replace(driver.state, gpus=(FakeGpu(0, "T4", numa=None),)))
    for call in (pynvml.nvmlDeviceGetMigMode, pynvml.nvmlDeviceGetNumaNodeId, pynvml.nvmlDeviceGetFanSpeed):
        assert code_of(call, handle(0)) == pynvml.NVML_ERROR_NOT_SUPPORTED
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
    assert code_of(pynvml.nvmlGpmMetricsGet, request) == pynvml.NVML_ERROR_INVALID_ARGUMENT
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
    assert code_of(pynvml.nvmlDeviceGetNvLinkState, handle(0), 18) == pynvml.NVML_ERROR_NOT_SUPPORTED
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


# ---- MIG ----

DIVIDED = FakeGpu(
    0, "A100-80", mig_enabled=True, migs=(FakeMig("3g", 4, gi=1), FakeMig("1g", 0, gi=7, uuid="MIG-mine"))
)


def test_mig_devices_have_the_uuids_and_ids_given(driver: Driver) -> None:
    driver.become(DriverState((DIVIDED,)))
    parent = handle(0)
    assert pynvml.nvmlDeviceGetMigMode(parent) == [1, 1]
    assert pynvml.nvmlDeviceGetMaxMigDeviceCount(parent) == 7
    first, second = (pynvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, i) for i in range(2))
    assert code_of(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, parent, 2) == pynvml.NVML_ERROR_NOT_FOUND
    assert pynvml.nvmlDeviceGetUUID(second) == "MIG-mine"
    assert pynvml.nvmlDeviceGetName(first) == "NVIDIA A100-SXM4-80GB MIG 3g.40gb"
    assert (pynvml.nvmlDeviceGetGpuInstanceId(second), pynvml.nvmlDeviceGetComputeInstanceId(second)) == (
        7,
        0,
    )
    assert pynvml.nvmlDeviceGetMemoryInfo(second).total == 9856 << 20
    assert pynvml.nvmlDeviceIsMigDeviceHandle(first)
    assert not pynvml.nvmlDeviceIsMigDeviceHandle(parent)
    assert (
        pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(second))
        == DIVIDED.identity
    )
    assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByUUID(b"MIG-mine")) == 1
    attributes = pynvml.nvmlDeviceGetAttributes_v2(first)
    assert (attributes.memorySizeMB, attributes.gpuInstanceSliceCount, attributes.multiprocessorCount) == (
        40192,
        3,
        42,
    )
    info = pynvml.nvmlGpuInstanceGetInfo(pynvml.nvmlDeviceGetGpuInstanceById(parent, 1))
    assert (info.profileId, info.placement.start, info.placement.size) == (9, 4, 4)
    assert code_of(pynvml.nvmlDeviceGetUtilizationRates, parent) == pynvml.NVML_ERROR_NOT_SUPPORTED


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("A100-40", "1g.5gb 1g.5gb+me 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb"),
        ("A100-80", "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),
        ("H100-80", "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),
        ("H200", "1g.18gb 1g.18gb+me 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb"),
        ("B200", "1g.23gb 1g.23gb+me 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb"),
    ],
)
def test_profiles_have_the_names_of_the_product(driver: Driver, model: str, names: str) -> None:
    driver.become(DriverState((FakeGpu(0, model, mig_enabled=True),)))
    found = {}
    for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            profile = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(handle(0), number)
        except pynvml.NVMLError_NotSupported:
            continue
        found[profile.name] = (profile.id, profile.sliceCount, profile.instanceCount)
        first = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(handle(0), number, version=1)
        assert (first.id, first.memorySizeMB) == (profile.id, profile.memorySizeMB)
    ids = ((19, 1, 7), (20, 1, 1), (15, 1, 4), (14, 2, 3), (9, 3, 2), (5, 4, 1), (0, 7, 1))
    assert found == {f"MIG {name}": facts for name, facts in zip(names.split(), ids, strict=True)}


def placements(profile: int) -> list[int]:
    room = (pynvml.c_nvmlGpuInstancePlacement_t * 16)()
    count = ctypes.c_uint(16)
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle(0), profile, room, ctypes.byref(count))
    return [place.start for place in room[: count.value]]


def created(profile: int, start: int) -> Any:
    place = pynvml.c_nvmlGpuInstancePlacement_t(start, 0)
    return pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(handle(0), profile, ctypes.byref(place))


def test_instances_are_made_where_they_fit_and_every_process_sees_them(driver: Driver) -> None:
    driver.become(DriverState((FakeGpu(0, mig_enabled=True),)))
    assert placements(9) == [0, 4]
    assert placements(14) == [0, 2, 4]
    big, small = created(9, 4), created(19, 0)
    assert code_of(created, 9, 0) == code_of(created, 14, 0) == pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES
    assert pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(handle(0), 19) == 3
    for instance, profile in ((big, 2), (small, 0)):
        made = pynvml.nvmlGpuInstanceCreateComputeInstance(instance, profile)
        assert pynvml.nvmlComputeInstanceGetInfo(made).id == 0
    script = f"""
import ctypes, pynvml
pynvml.nvmlLib = ctypes.CDLL({str(driver.root / LIBRARIES / SONAME)!r})
pynvml.nvmlInit()
gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
for index in range(2):
    print(pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)))
"""
    seen = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    name = "NVIDIA H100 80GB HBM3 MIG"
    assert seen.splitlines() == [f"{name} 3g.40gb", f"{name} 1g.10gb"]
    assert code_of(pynvml.nvmlGpuInstanceDestroy, big) == pynvml.NVML_ERROR_IN_USE
    pynvml.nvmlComputeInstanceDestroy(pynvml.nvmlGpuInstanceGetComputeInstanceById(big, 0))
    pynvml.nvmlGpuInstanceDestroy(big)
    assert code_of(pynvml.nvmlGpuInstanceGetInfo, big) == pynvml.NVML_ERROR_NOT_FOUND
    assert [part.profile for part in mig_devices(driver.state, driver.file, 0)] == ["1g"]


def test_the_mode_waits_for_a_reset_where_the_gpu_needs_one(driver: Driver) -> None:
    driver.become(
        DriverState((FakeGpu(0), FakeGpu(1, "A100-80"), FakeGpu(2)), processes=(FakeProcess(2, 1),))
    )
    assert pynvml.nvmlDeviceSetMigMode(handle(0), 1) == 0
    assert pynvml.nvmlDeviceGetMigMode(handle(0)) == [1, 1]
    assert pynvml.nvmlDeviceSetMigMode(handle(1), 1) == pynvml.NVML_ERROR_RESET_REQUIRED
    assert pynvml.nvmlDeviceGetMigMode(handle(1)) == [0, 1]
    assert pynvml.nvmlDeviceSetMigMode(handle(2), 1) == pynvml.NVML_ERROR_IN_USE
    reset_gpu(driver.file, 1)
    assert pynvml.nvmlDeviceGetMigMode(handle(1)) == [1, 1]


# ---- bad days ----


def test_a_lost_gpu_refuses_every_call_and_comes_back(driver: Driver) -> None:
    device = handle(1)
    driver.lose(1)
    for call in (pynvml.nvmlDeviceGetUUID, pynvml.nvmlDeviceGetMemoryInfo, pynvml.nvmlDeviceGetPowerUsage):
        assert code_of(call, device) == pynvml.NVML_ERROR_GPU_IS_LOST
    assert code_of(handle, 1) == pynvml.NVML_ERROR_GPU_IS_LOST
    assert pynvml.nvmlDeviceGetCount() == 4
    driver.recover(1)
    assert pynvml.nvmlDeviceGetUUID(device) == driver.state.gpu(1).identity


def test_a_gpu_taken_out_moves_the_indexes_of_those_behind_it(driver: Driver) -> None:
    last = handle(3)
    driver.pull(1)
    assert pynvml.nvmlDeviceGetCount() == 3
    assert pynvml.nvmlDeviceGetIndex(last) == 2
    driver.become(replace(driver.state, counted_at_init=True))
    pynvml.nvmlShutdown()
    pynvml.nvmlInit()
    driver.plug(FakeGpu(1))
    assert pynvml.nvmlDeviceGetCount() == 3
    pynvml.nvmlShutdown()
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetCount() == 4


def test_errors_are_of_a_function_and_a_gpu(driver: Driver) -> None:
    driver.rule(Rule("error", "nvmlDeviceGetName", 2, pynvml.NVML_ERROR_UNKNOWN))
    assert [pynvml.nvmlDeviceGetName(handle(i))[:6] for i in (0, 1, 3)] == ["NVIDIA"] * 3
    assert code_of(pynvml.nvmlDeviceGetName, handle(2)) == pynvml.NVML_ERROR_UNKNOWN


def test_a_call_that_hangs_holds_up_no_other_and_ends_with_the_rule(driver: Driver) -> None:
    driver.rule(Rule("hang", "nvmlDeviceGetName", 2))
    names: list[str] = []
    thread = threading.Thread(target=lambda: names.append(pynvml.nvmlDeviceGetName(handle(2))), daemon=True)
    thread.start()
    for _ in range(3):
        assert pynvml.nvmlDeviceGetName(handle(1))
    assert not names
    driver.rule()
    thread.join(PATIENCE_S)
    assert names == ["NVIDIA H100 80GB HBM3"]


def test_calls_may_be_slow(driver: Driver) -> None:
    driver.rule(Rule("slow", "*", value=1000))
    assert pynvml.nvmlDeviceGetCount() == 4


def test_without_a_state_file_no_driver_is_loaded(driver: Driver) -> None:
    driver.unload()
    assert code_of(pynvml.nvmlDeviceGetCount) == pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    driver.become(driver.state)
    assert pynvml.nvmlDeviceGetCount() == 4


def test_a_library_of_another_driver_refuses(driver: Driver) -> None:
    driver.become(replace(driver.state, driver_version="580.65.06"))
    assert code_of(pynvml.nvmlDeviceGetCount) == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
    install_driver(driver.root, "580.65.06")
    assert [file.name for file in sorted((driver.root / LIBRARIES).glob("libnvidia-ml*"))] == [
        SONAME,
        "libnvidia-ml.so.580.65.06",
    ]
    with fresh_bindings(driver.root / LIBRARIES / SONAME):
        pynvml.nvmlInit()
        assert pynvml.nvmlSystemGetDriverVersion() == "580.65.06"


def test_nothing_answers_before_init_and_after_shutdown(driver: Driver) -> None:
    pynvml.nvmlShutdown()
    assert code_of(pynvml.nvmlDeviceGetCount) == pynvml.NVML_ERROR_UNINITIALIZED
    pynvml.nvmlInit()


# ---- events ----


def test_events_are_those_after_the_registration_in_order(driver: Driver) -> None:
    driver.xid(0, 13)
    events = pynvml.nvmlEventSetCreate()
    for index in range(4):
        pynvml.nvmlDeviceRegisterEvents(handle(index), pynvml.nvmlEventTypeXidCriticalError, events)
    assert code_of(pynvml.nvmlEventSetWait_v2, events, 0) == pynvml.NVML_ERROR_TIMEOUT
    driver.xid(2, 79)
    driver.event(1, 0, pynvml.nvmlEventTypeClock)  # nobody asked for it
    driver.xid(1, 48)
    got = [pynvml.nvmlEventSetWait_v2(events, 0) for _ in range(2)]
    assert [(pynvml.nvmlDeviceGetIndex(event.device), event.eventData) for event in got] == [(2, 79), (1, 48)]
    assert code_of(pynvml.nvmlEventSetWait_v2, events, 0) == pynvml.NVML_ERROR_TIMEOUT
    pynvml.nvmlEventSetFree(events)
    assert code_of(pynvml.nvmlEventSetWait_v2, events, 0) == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_who_waits_is_woken_and_holds_up_nobody(driver: Driver) -> None:
    events = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(handle(0), pynvml.nvmlEventTypeXidCriticalError, events)
    got: list[int] = []

    def wait() -> None:
        got.append(pynvml.nvmlEventSetWait_v2(events, int(PATIENCE_S * 1000)).eventData)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert pynvml.nvmlDeviceGetCount() == 4
    driver.xid(0, 119)
    thread.join(PATIENCE_S)
    assert got == [119]


def test_a_lost_gpu_ends_the_waiting(driver: Driver) -> None:
    events = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(handle(3), pynvml.nvmlEventTypeXidCriticalError, events)
    driver.xid(3, 79)
    driver.lose(3)
    assert pynvml.nvmlEventSetWait_v2(events, 0).eventData == 79
    assert (
        code_of(pynvml.nvmlEventSetWait_v2, events, int(PATIENCE_S * 1000)) == pynvml.NVML_ERROR_GPU_IS_LOST
    )


def test_calls_are_counted_by_function(driver: Driver) -> None:
    before = driver.calls()["nvmlDeviceGetNvLinkState"]
    for link in range(5):
        pynvml.nvmlDeviceGetNvLinkState(handle(0), link)
    assert driver.calls()["nvmlDeviceGetNvLinkState"] == before + 5


# ---- the driver root ----


def test_a_driver_root_is_laid_out_as_on_a_host(driver: Driver) -> None:
    root = driver.root
    assert (root / LIBRARIES / SONAME).readlink() == Path("libnvidia-ml.so.570.124.06")
    for name in ("nvidiactl", "nvidia-uvm", "nvidia0", "nvidia3"):
        assert (root / "dev" / name).read_bytes() == b""
    assert (root / "dev/nvidia0").is_char_device() == (os.geteuid() == 0)
    assert "570.124.06" in (root / "proc/driver/nvidia/version").read_text()
    assert (root / "sys/bus/pci/devices/0000:04:00.0/numa_node").read_text() == "1\n"


def test_capabilities_of_mig_devices_have_their_nodes(tmp_path: Path) -> None:
    root = Driver(tmp_path / "root", DriverState((DIVIDED,))).root
    minors = dict(
        line.rsplit(" ", 1) for line in (root / "proc/driver/nvidia-caps/mig-minors").read_text().splitlines()
    )
    assert set(minors) == {
        *(
            "config",
            "monitor",
            "gpu0/gi1/access",
            "gpu0/gi1/ci0/access",
            "gpu0/gi7/access",
            "gpu0/gi7/ci0/access",
        )
    }
    for minor in minors.values():
        assert (root / f"dev/nvidia-caps/nvidia-cap{minor}").exists()
    file = root / "proc/driver/nvidia/capabilities/gpu0/mig/gi1/ci0/access"
    assert f"DeviceFileMinor: {minors['gpu0/gi1/ci0/access']}\n" in file.read_text()
