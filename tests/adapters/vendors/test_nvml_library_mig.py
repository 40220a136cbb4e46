"""MIG as the pretended driver library has it: profiles, places, instances that every process sees."""

from __future__ import annotations

import ctypes
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
from support.nvml.changes import mig_devices, reset_gpu
from support.nvml.library import SONAME
from support.nvml.state import (
    DriverState,
    FakeGpu,
    FakeMig,
    FakeProcess,
    h100_node,
)
from tonnage.model.catalog.gpus import gpu_models
from tonnage.model.catalog.mig import device_mib, mig_model
from tonnage.model.mig.profile_names import parse_profile


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = Driver(tmp_path, replace(h100_node(4), calls_file=tmp_path / "calls"))
    with fresh_bindings(made.root / LIBRARIES / SONAME):
        pynvml.nvmlInit()
        yield made


DIVIDED = FakeGpu(
    0, "A100-80", mig_enabled=True, migs=(FakeMig("3g", 4, gi=1), FakeMig("1g", 0, gi=7, uuid="MIG-mine"))
)


def test_mig_devices_have_the_uuids_and_ids_given(driver: Driver) -> None:
    driver.become(DriverState((DIVIDED,)))
    parent = handle(0)
    assert pynvml.nvmlDeviceGetMigMode(parent) == [1, 1]
    assert pynvml.nvmlDeviceGetMaxMigDeviceCount(parent) == 7
    first, second = (pynvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, i) for i in range(2))
    assert refusal(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, parent, 2) == pynvml.NVML_ERROR_NOT_FOUND
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
    assert refusal(pynvml.nvmlDeviceGetUtilizationRates, parent) == pynvml.NVML_ERROR_NOT_SUPPORTED


@pytest.mark.parametrize("model", [key for key, model in gpu_models().items() if model.mig])
def test_profiles_are_those_of_the_catalogue(driver: Driver, model: str) -> None:
    driver.become(DriverState((FakeGpu(0, model, mig_enabled=True),)))
    product = gpu_models()[model]
    board = mig_model(product.product)
    assert board is not None
    found = {}
    for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            profile = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(handle(0), number)
        except pynvml.NVMLError_NotSupported:
            continue
        starts = tuple(placements(profile.id))
        memory = profile.memorySizeMB
        facts = (profile.sliceCount, spans(profile.id), profile.instanceCount, starts, memory)
        found[profile.name] = (profile.id, *facts)
        first = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(handle(0), number, version=1)
        assert (first.id, first.memorySizeMB) == (profile.id, memory)
    assert found == {
        f"MIG {name}": (number, row.compute, {row.memory}, row.most, row.starts, mib)
        for (name, row), number in zip(board.profiles.items(), (19, 20, 15, 14, 9, 5, 0), strict=True)
        for mib in [device_mib(board, model, product.memory_mib, parse_profile(name))]
    }


def placements(profile: int) -> list[int]:
    return [place.start for place in possible(profile)]


def spans(profile: int) -> set[int]:
    return {place.size for place in possible(profile)}


def possible(profile: int) -> list[Any]:
    room = (pynvml.c_nvmlGpuInstancePlacement_t * 16)()
    count = ctypes.c_uint(16)
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle(0), profile, room, ctypes.byref(count))
    return list(room[: count.value])


def created(profile: int, start: int) -> Any:
    place = pynvml.c_nvmlGpuInstancePlacement_t(start, 0)
    return pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(handle(0), profile, ctypes.byref(place))


def test_instances_are_made_where_they_fit_and_every_process_sees_them(driver: Driver) -> None:
    driver.become(DriverState((FakeGpu(0, mig_enabled=True),)))
    assert placements(9) == [0, 4]
    assert placements(14) == [0, 2, 4]
    big, small = created(9, 4), created(19, 0)
    assert refusal(created, 9, 0) == refusal(created, 14, 0) == pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES
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
    seen = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    name = "NVIDIA H100 80GB HBM3 MIG"
    assert seen.splitlines() == [f"{name} 3g.40gb", f"{name} 1g.10gb"]
    assert refusal(pynvml.nvmlGpuInstanceDestroy, big) == pynvml.NVML_ERROR_IN_USE
    pynvml.nvmlComputeInstanceDestroy(pynvml.nvmlGpuInstanceGetComputeInstanceById(big, 0))
    pynvml.nvmlGpuInstanceDestroy(big)
    assert refusal(pynvml.nvmlGpuInstanceGetInfo, big) == pynvml.NVML_ERROR_NOT_FOUND
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


def test_a_change_whose_writing_was_not_ended_never_happened(driver: Driver) -> None:
    driver.become(DriverState((FakeGpu(0, mig_enabled=True),)))
    created(9, 4)
    changes = driver.file.with_name(f"{driver.file.name}.mig")
    whole = changes.read_text()
    changes.write_text(f"{whole}gi 0 5 14")
    assert refusal(pynvml.nvmlDeviceGetGpuInstanceById, handle(0), 5) == pynvml.NVML_ERROR_NOT_FOUND
    created(19, 0)
    assert changes.read_text() == f"{whole}gi 0 7 0 0\n"


def test_processes_that_make_instances_at_once_take_no_place_twice(driver: Driver) -> None:
    driver.become(DriverState((FakeGpu(0, mig_enabled=True),)))
    script = f"""
import ctypes, pynvml
pynvml.nvmlLib = ctypes.CDLL({str(driver.root / LIBRARIES / SONAME)!r})
pynvml.nvmlInit()
gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
made = 0
while True:
    try:
        pynvml.nvmlDeviceCreateGpuInstance(gpu, 19)
        made += 1
    except pynvml.NVMLError_InsufficientResources:
        print(made)
        break
"""
    programs = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert sum(int(program.communicate(timeout=60)[0]) for program in programs) == 7
    rows = driver.file.with_name(f"{driver.file.name}.mig").read_text().splitlines()
    assert sorted(row.split()[-1] for row in rows) == list("0123456")
