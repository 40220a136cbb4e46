"""Who uses a GPU, as NVML says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from support.driver_root import make_driver_root
from support.nvml.bindings import fresh_bindings
from support.nvml.state import FakeProcess, h100_node
from tonnage.adapters.vendors.nvml_reader import NvmlReader
from tonnage.adapters.vendors.nvml_session import NvmlSession
from tonnage.model.devices.inventory import GpuProcess


def no_step(subject: int, *, times: float = 1.0) -> None:
    assert subject < 2
    assert times


def test_processes_are_read_with_their_memory_those_of_screens_are_not(tmp_path: Path) -> None:
    used = (
        FakeProcess(0, 100, 3000),
        FakeProcess(0, 101, 2000, kind="mps"),
        FakeProcess(1, 102, 70, kind="graphics"),
        FakeProcess(1, 103, 1000),
    )
    state = replace(h100_node(2), processes=used)
    root = make_driver_root(tmp_path / "driver", state)
    with fresh_bindings():
        session = NvmlSession(root, root)
        reader = NvmlReader(session, root)
        found, without = reader.processes(no_step), reader.processes(no_step, {0})
        session.close()
    first, second = (gpu.identity for gpu in state.gpus)
    assert without == (GpuProcess(second, 103, 1000),)
    assert found == (GpuProcess(first, 100, 3000), GpuProcess(first, 101, 2000), *without)
