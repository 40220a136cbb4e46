"""One suite over every DeviceBackend: pretended devices, and NVML's real bindings over a fake library."""

from __future__ import annotations

import asyncio
import ctypes
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, Protocol

import pynvml
import pytest

from tonnage.adapters.clock import SystemClock
from tonnage.adapters.ports import DeviceBackend
from tonnage.adapters.vendors.nvml import NvmlBackend
from tonnage.adapters.vendors.scenario import ScenarioBackend
from tonnage.model.catalog.gpus import gpu_models
from tonnage.model.devices import RawEvent, RawEventKind
from tonnage.model.errors import ConfigError, HardwareError

PATIENCE_S = 20.0
MODEL = gpu_models()["H100-80"]


class FakeNvml:
    """Stands where pynvml keeps its CDLL: functions by name, ctypes arguments, return codes."""

    def __init__(self, count: int) -> None:
        self.uuids = [f"GPU-{i}" for i in range(count)]
        self.lost: set[int] = set()
        self.present = True
        self.hang = threading.Event()
        self.hang.set()
        self.xids: list[tuple[int, int]] = []
        self.struck = threading.Event()
        self.unsupported: set[str] = {"nvmlDeviceGetPowerUsage"}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("nvmlDeviceGet") and name in self.unsupported:
            return lambda *_args: pynvml.NVML_ERROR_NOT_SUPPORTED
        method = getattr(type(self), f"do_{name}", None)
        if method is None:
            raise AttributeError(name)
        return lambda *args: method(self, *args) or pynvml.NVML_SUCCESS

    def _device(self, handle: Any) -> int:
        return int(ctypes.cast(handle, ctypes.c_void_p).value or 0) - 1

    def do_nvmlInitWithFlags(self, _flags: Any) -> int:  # noqa: N802 - names of the library
        return 0 if self.present else pynvml.NVML_ERROR_DRIVER_NOT_LOADED

    def do_nvmlDeviceGetCount_v2(self, count: Any) -> int:  # noqa: N802
        self.hang.wait(PATIENCE_S)
        count._obj.value = len(self.uuids)
        return 0 if self.present else pynvml.NVML_ERROR_DRIVER_NOT_LOADED

    def do_nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:  # noqa: N802
        if index.value in self.lost:
            return int(pynvml.NVML_ERROR_GPU_IS_LOST)
        ctypes.cast(ctypes.byref(handle._obj), ctypes.POINTER(ctypes.c_void_p))[0] = index.value + 1
        return 0

    def do_nvmlDeviceGetUUID(self, handle: Any, text: Any, _size: Any) -> None:  # noqa: N802
        text.value = self.uuids[self._device(handle)].encode()

    def do_nvmlDeviceGetName(self, _handle: Any, text: Any, _size: Any) -> None:  # noqa: N802
        text.value = MODEL.product.encode()

    def do_nvmlDeviceGetMemoryInfo(self, _handle: Any, info: Any) -> None:  # noqa: N802
        info._obj.total, info._obj.used = MODEL.memory_mib << 20, 7 << 20

    def do_nvmlDeviceGetCudaComputeCapability(self, _handle: Any, major: Any, minor: Any) -> None:  # noqa: N802
        major._obj.value, minor._obj.value = map(int, MODEL.compute_capability.split("."))

    def do_nvmlDeviceGetMinorNumber(self, handle: Any, minor: Any) -> None:  # noqa: N802
        minor._obj.value = self._device(handle)

    def do_nvmlDeviceGetPciInfo_v3(self, handle: Any, info: Any) -> None:  # noqa: N802
        info._obj.busId = f"00000000:{self._device(handle) + 1:02X}:00.0".encode()

    def do_nvmlDeviceGetUtilizationRates(self, _handle: Any, rates: Any) -> None:  # noqa: N802
        rates._obj.gpu = 5

    def do_nvmlSystemGetDriverVersion(self, text: Any, _size: Any) -> None:  # noqa: N802
        text.value = b"570.124.06"

    def do_nvmlSystemGetCudaDriverVersion(self, version: Any) -> None:  # noqa: N802
        version._obj.value = 12080

    def do_nvmlEventSetCreate(self, _events: Any) -> None:  # noqa: N802
        pass

    def do_nvmlDeviceRegisterEvents(self, _handle: Any, _kinds: Any, _events: Any) -> None:  # noqa: N802
        pass

    def do_nvmlEventSetWait_v2(self, _events: Any, data: Any, timeout_ms: Any) -> int:  # noqa: N802
        if not self.struck.wait(timeout_ms.value / 1000):
            return int(pynvml.NVML_ERROR_TIMEOUT)
        index, xid = self.xids.pop(0)
        if not self.xids:
            self.struck.clear()
        ctypes.cast(ctypes.byref(data._obj), ctypes.POINTER(ctypes.c_void_p))[0] = index + 1
        data._obj.eventData = xid
        return 0


class Machine(Protocol):
    """What a test does to the hardware, whatever stands for it."""

    backend: DeviceBackend

    def lose(self, index: int) -> None: ...
    def replace(self, index: int, uuid: str) -> None: ...
    def vanish(self) -> None: ...
    def disturb(self) -> RawEventKind:
        """Make something happen that must be heard of."""
        ...


class ScenarioMachine:
    """Four devices in a file."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "hardware.yaml"
        self.devices = [{"uuid": f"GPU-{i}", "model": MODEL.key, "numa": i // 2} for i in range(4)]
        self._write()
        self.backend: DeviceBackend = ScenarioBackend(self.file, SystemClock())

    def _write(self) -> None:
        self.file.write_text(json.dumps({"devices": self.devices}))

    def lose(self, index: int) -> None:
        self.devices[index]["health"] = "lost"
        self._write()

    def replace(self, index: int, uuid: str) -> None:
        self.devices[index]["uuid"] = uuid
        self._write()

    def vanish(self) -> None:
        self.file.unlink()

    def disturb(self) -> RawEventKind:
        self.lose(3)
        return RawEventKind.CHANGED


class NvmlMachine:
    """Four devices in a fake library, their NUMA nodes in a fake sysfs."""

    def __init__(self, folder: Path, library: FakeNvml) -> None:
        self.library = library
        for index in range(4):
            node = folder / f"sys/bus/pci/devices/0000:{index + 1:02x}:00.0/numa_node"
            node.parent.mkdir(parents=True)
            node.write_text(f"{index // 2}\n")
        self.backend: DeviceBackend = NvmlBackend(SystemClock(), root=folder)

    def lose(self, index: int) -> None:
        self.library.lost.add(index)

    def replace(self, index: int, uuid: str) -> None:
        self.library.uuids[index] = uuid

    def vanish(self) -> None:
        self.library.present = False

    def disturb(self) -> RawEventKind:
        self.library.xids.append((2, 79))
        self.library.struck.set()
        return RawEventKind.XID


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNvml]:
    fake = FakeNvml(4)
    monkeypatch.setattr(pynvml, "nvmlLib", fake)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    yield fake
    fake.hang.set()


@pytest.fixture(params=["scenario", "nvml"])
async def machine(
    request: pytest.FixtureRequest, tmp_path: Path, library: FakeNvml
) -> AsyncIterator[Machine]:
    made: Machine = (
        ScenarioMachine(tmp_path) if request.param == "scenario" else NvmlMachine(tmp_path, library)
    )
    yield made
    await made.backend.close()


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
    assert {sample.uuid for sample in await machine.backend.sample()} == {"GPU-0", "GPU-2", "GPU-3"}


async def test_an_exchanged_device_has_its_new_uuid(machine: Machine) -> None:
    await machine.backend.scan()
    machine.replace(2, "GPU-new")
    assert [d.uuid for d in (await machine.backend.scan()).devices] == ["GPU-0", "GPU-1", "GPU-new", "GPU-3"]


async def test_without_any_access_a_scan_is_a_hardware_error(machine: Machine) -> None:
    await machine.backend.scan()
    machine.vanish()
    for read in (machine.backend.scan, machine.backend.sample):
        with pytest.raises(HardwareError):
            await read()


async def test_what_happens_after_a_scan_is_heard(machine: Machine) -> None:
    await machine.backend.scan()
    kind = machine.disturb()
    async with asyncio.timeout(PATIENCE_S), aclosing(_generator(machine.backend)) as events:
        event = await anext(events)
    assert event.kind is kind


def _generator(backend: DeviceBackend) -> Any:
    return backend.events()


async def test_samples_are_readings_of_each_device(machine: Machine) -> None:
    samples = await machine.backend.sample()
    assert [sample.uuid for sample in samples] == [f"GPU-{i}" for i in range(4)]
    assert all(sample.memory_used_mib is not None and sample.memory_used_mib >= 0 for sample in samples)


async def test_an_xid_names_its_device_and_number(tmp_path: Path, library: FakeNvml) -> None:
    machine = NvmlMachine(tmp_path, library)
    machine.disturb()
    async with asyncio.timeout(PATIENCE_S), aclosing(_generator(machine.backend)) as events:
        assert await anext(events) == RawEvent(RawEventKind.XID, "GPU-2", 79)
    await machine.backend.close()


async def test_a_driver_that_hangs_is_an_error_and_recovers(library: FakeNvml) -> None:
    backend = NvmlBackend(SystemClock(), deadline_s=0.05)
    library.hang.clear()
    for _ in range(2):  # the second call must not wait behind the first
        with pytest.raises(HardwareError, match="does not answer"):
            await backend.scan()
    library.hang.set()
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                inventory = await backend.scan()
                break
            except HardwareError:
                await asyncio.sleep(0)
    assert len(inventory.devices) == 4
    await backend.close()


async def test_without_a_driver_the_error_says_what_to_do(library: FakeNvml) -> None:
    library.present = False
    backend = NvmlBackend(SystemClock())
    with pytest.raises(HardwareError, match="is the NVIDIA driver loaded"):
        await backend.scan()
    library.present = True
    assert len((await backend.scan()).devices) == 4
    await backend.close()


async def test_a_device_broken_from_the_start_is_a_problem(library: FakeNvml) -> None:
    library.lost.add(0)
    backend = NvmlBackend(SystemClock())
    inventory = await backend.scan()
    assert [d.uuid for d in inventory.devices] == ["GPU-1", "GPU-2", "GPU-3"]
    assert inventory.problems[0].startswith("device 0: ")
    await backend.close()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        pytest.param("devices: [{uuid: GPU-0, model: H100}]", "did you mean H100-80", id="unknown model"),
        pytest.param(
            "devices: [{uuid: a, model: T4}, {uuid: a, model: T4}]", "uuid a given twice", id="twice"
        ),
        pytest.param("devices: [{uuid: a, model: T4, numma: 1}]", "did you mean numa", id="misspelt key"),
        pytest.param("devices: [", "no valid YAML", id="broken"),
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
