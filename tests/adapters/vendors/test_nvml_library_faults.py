"""Bad days of the pretended driver library: lost GPUs, hanging calls, other drivers, events."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest

from support.driver_root import LIBRARIES, Driver, install_driver
from support.nvml.bindings import fresh_bindings, handle, refusal
from support.nvml.library import SONAME
from support.nvml.state import (
    FakeGpu,
    Rule,
    h100_node,
)

PATIENCE_S = 60.0


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = Driver(tmp_path, replace(h100_node(4), calls_file=tmp_path / "calls"))
    with fresh_bindings(made.root / LIBRARIES / SONAME):
        pynvml.nvmlInit()
        yield made


def test_a_lost_gpu_refuses_every_call_and_comes_back(driver: Driver) -> None:
    device = handle(1)
    driver.lose(1)
    for call in (pynvml.nvmlDeviceGetUUID, pynvml.nvmlDeviceGetMemoryInfo, pynvml.nvmlDeviceGetPowerUsage):
        assert refusal(call, device) == pynvml.NVML_ERROR_GPU_IS_LOST
    assert refusal(handle, 1) == pynvml.NVML_ERROR_GPU_IS_LOST
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
    assert refusal(pynvml.nvmlDeviceGetName, handle(2)) == pynvml.NVML_ERROR_UNKNOWN


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
    assert refusal(pynvml.nvmlDeviceGetCount) == pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    driver.become(driver.state)
    assert pynvml.nvmlDeviceGetCount() == 4


def test_a_library_of_another_driver_refuses(driver: Driver) -> None:
    driver.become(replace(driver.state, driver_version="580.65.06"))
    assert refusal(pynvml.nvmlDeviceGetCount) == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
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
    assert refusal(pynvml.nvmlDeviceGetCount) == pynvml.NVML_ERROR_UNINITIALIZED
    pynvml.nvmlInit()


# ---- events ----


def test_events_are_those_after_the_registration_in_order(driver: Driver) -> None:
    driver.xid(0, 13)
    events = pynvml.nvmlEventSetCreate()
    for index in range(4):
        pynvml.nvmlDeviceRegisterEvents(handle(index), pynvml.nvmlEventTypeXidCriticalError, events)
    assert refusal(pynvml.nvmlEventSetWait_v2, events, 0) == pynvml.NVML_ERROR_TIMEOUT
    driver.xid(2, 79)
    driver.event(1, 0, pynvml.nvmlEventTypeClock)  # nobody asked for it
    driver.xid(1, 48)
    got = [pynvml.nvmlEventSetWait_v2(events, 0) for _ in range(2)]
    assert [(pynvml.nvmlDeviceGetIndex(event.device), event.eventData) for event in got] == [(2, 79), (1, 48)]
    assert refusal(pynvml.nvmlEventSetWait_v2, events, 0) == pynvml.NVML_ERROR_TIMEOUT
    pynvml.nvmlEventSetFree(events)
    assert refusal(pynvml.nvmlEventSetWait_v2, events, 0) == pynvml.NVML_ERROR_INVALID_ARGUMENT


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
        refusal(pynvml.nvmlEventSetWait_v2, events, int(PATIENCE_S * 1000)) == pynvml.NVML_ERROR_GPU_IS_LOST
    )


def test_calls_are_counted_by_function(driver: Driver) -> None:
    before = driver.calls()["nvmlDeviceGetNvLinkState"]
    for link in range(5):
        pynvml.nvmlDeviceGetNvLinkState(handle(0), link)
    assert driver.calls()["nvmlDeviceGetNvLinkState"] == before + 5
