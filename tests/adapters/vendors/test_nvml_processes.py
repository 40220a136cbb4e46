"""Who uses a GPU, as NVML says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from support.driver_root import make_driver_root
from support.nvml.bindings import fresh_bindings
from support.nvml.state import FakeMig, FakeProcess, FakeUse, h100_node
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
    assert without == (GpuProcess(second, 103, 1000, utilization=0),)
    mps = GpuProcess(first, 101, 2000, utilization=0, through_mps=True)
    assert found == (GpuProcess(first, 100, 3000, utilization=0), mps, *without)


def test_utilisation_is_the_mean_since_the_last_question(tmp_path: Path) -> None:
    uses = (FakeUse(0, 100, 20, 1000), FakeUse(0, 100, 40, 2000), FakeUse(0, 99, 90, 1500))
    state = replace(h100_node(1), processes=(FakeProcess(0, 100), FakeProcess(0, 101)), uses=uses)
    root = make_driver_root(tmp_path / "driver", state)
    with fresh_bindings():
        session = NvmlSession(root, root)
        reader = NvmlReader(session, root)
        first = reader.processes(no_step)
        again = reader.processes(no_step)
        session.close()
    assert [(each.pid, each.utilization, each.sampled_us) for each in first] == [(100, 30, 2000), (101, 0, 0)]
    assert [(each.pid, each.utilization) for each in again] == [(100, 0), (101, 0)]


def test_processes_of_a_divided_gpu_say_which_instance_and_nothing_of_utilisation(tmp_path: Path) -> None:
    gpu = replace(h100_node(1).gpus[0], mig_enabled=True, migs=(FakeMig("1g", 0, 7),))
    state = replace(h100_node(1), gpus=(gpu,), processes=(FakeProcess(0, 100, 10, 7, 0),))
    root = make_driver_root(tmp_path / "driver", state)
    with fresh_bindings():
        session = NvmlSession(root, root)
        found = NvmlReader(session, root).processes(no_step)
        session.close()
    assert found == (GpuProcess(gpu.identity, 100, 10, gpu_instance=7),)
