"""Machines whose GPUs change: of a scenario, and of NVML's bindings over a pretended driver."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from support.driver_root import Driver
from support.nvml.changes import compute_modes
from support.nvml.nvidia_smi import install, time_slices
from support.nvml.state import FakeProcess, FakeUse, Rule
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.vendors.nvml import NvmlBackend
from tonnage.model.catalog.gpus import gpu_models
from tonnage.model.devices.inventory import RawEventKind
from tonnage.ports.node import DeviceBackend
from tonnage.twin.devices.scenario import ScenarioBackend

PATIENCE_S = 60.0


MODEL = gpu_models()["H100-80"]


class Machine(Protocol):
    """What a test does to the hardware, whatever stands for it."""

    backend: DeviceBackend

    def lose(self, index: int) -> None: ...
    def hang(self, index: int) -> None: ...
    def recover(self, index: int) -> None: ...
    def remove(self, index: int) -> None: ...
    def replace(self, index: int, uuid: str) -> None: ...
    def vanish(self) -> None: ...
    def mode(self, index: int) -> int:
        """NVML's number of the device's compute mode."""
        ...

    def time_slice(self, index: int) -> int:
        """nvidia-smi's number of the device's time slice."""
        ...

    def disturb(self) -> RawEventKind:
        """Make something happen that must be heard of."""
        ...

    def compute(self, index: int, pid: int, memory_mib: int, percent: int) -> None:
        """Have a process there that had so much of the device just now."""
        ...

    def report(self, index: int, xid: int) -> None: ...


class ScenarioMachine:
    """Four devices in a file."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "hardware.yaml"
        self.devices: list[dict[str, Any]] = [
            {"uuid": f"GPU-{i}", "model": MODEL.key, "numa": i // 2, "xids": []} for i in range(4)
        ]
        self._write()
        self.backend: DeviceBackend = ScenarioBackend(self.file, SystemClock())

    def _write(self) -> None:
        self.file.write_text(json.dumps({"devices": self.devices}))

    def compute(self, index: int, pid: int, memory_mib: int, percent: int) -> None:
        process = {"pid": pid, "memoryMib": memory_mib, "utilizationPercent": percent}
        self.devices[index]["processes"] = [process]
        self._write()

    def lose(self, index: int) -> None:
        self.devices[index]["health"] = "lost"
        self._write()

    def hang(self, index: int) -> None:
        self.devices[index]["health"] = "hung"
        self._write()

    def recover(self, index: int) -> None:
        del self.devices[index]["health"]
        self._write()

    def remove(self, index: int) -> None:
        del self.devices[index]
        self._write()

    def replace(self, index: int, uuid: str) -> None:
        self.devices[index]["uuid"] = uuid
        self._write()

    def vanish(self) -> None:
        self.file.unlink()

    def mode(self, index: int) -> int:
        return ScenarioBackend(self.file, SystemClock()).settings().modes.get(f"GPU-{index}", 0)

    def time_slice(self, index: int) -> int:
        return ScenarioBackend(self.file, SystemClock()).settings().slices.get(f"GPU-{index}", 0)

    def disturb(self) -> RawEventKind:
        self.lose(3)
        return RawEventKind.CHANGED

    def report(self, index: int, xid: int) -> None:
        self.devices[index]["xids"].append(xid)
        self._write()


class NvmlMachine:
    """Four devices of a pretended driver."""

    def __init__(self, driver: Driver, deadline_s: float = 5.0) -> None:
        self.driver = driver
        install(driver.root)
        self.backend: DeviceBackend = NvmlBackend(
            SystemClock(), root=driver.root, driver_root=driver.root, deadline_s=deadline_s
        )

    def compute(self, index: int, pid: int, memory_mib: int, percent: int) -> None:
        processes = (FakeProcess(index, pid, memory_mib),)
        uses = (FakeUse(index, pid, percent, 1_000_000),)
        self.driver.become(replace(self.driver.state, processes=processes, uses=uses))

    def lose(self, index: int) -> None:
        self.driver.lose(index)

    def hang(self, index: int) -> None:
        self.driver.rule(Rule("hang", slot=index))

    def recover(self, index: int) -> None:
        self.driver.recover(index)

    def remove(self, index: int) -> None:
        self.driver.become(self.driver.state.without(index))

    def replace(self, index: int, uuid: str) -> None:
        self.driver.become(self.driver.state.with_gpu(replace(self.driver.state.gpu(index), uuid=uuid)))

    def vanish(self) -> None:
        self.driver.unload()

    def mode(self, index: int) -> int:
        return compute_modes(self.driver.file, 4)[index]

    def time_slice(self, index: int) -> int:
        return time_slices(self.driver.file).get(f"GPU-{index}", 0)

    def disturb(self) -> RawEventKind:
        self.report(2, 79)
        return RawEventKind.XID

    def report(self, index: int, xid: int) -> None:
        self.driver.xid(index, xid)
