"""The MIG loop over NVML's own bindings and a pretended driver, every call of which may fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.driver_root import Driver
from support.mig_node import Agent, Machine
from support.nvml.bindings import fresh_bindings
from support.nvml.changes import mig_devices
from support.nvml.nvidia_smi import install, resets
from support.nvml.state import DriverState, FakeGpu, FakeMig, FakeProcess, Rule, switched
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.vendors.nvml import NvmlBackend
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.mig.change import gpu_of
from tonnage.decide.node.mig.desired_layout import MigWish
from tonnage.model.actions.devices import (
    CreateGpuInstance,
    DestroyComputeInstance,
    DestroyGpuInstance,
    ResetGpu,
)
from tonnage.model.catalog.mig import mig_model
from tonnage.model.errors import HardwareError
from tonnage.model.mig.layouts import GpuInstance, MigEntry, MigState
from tonnage.twin.clock import VirtualClock

pytestmark = pytest.mark.long

STAYS = FakeMig("1g", 0, gi=9)
GPUS = (
    FakeGpu(0, "H100-80", uuid="GPU-0", mig_enabled=True, migs=(STAYS, FakeMig("3g", 4, gi=2))),
    FakeGpu(1, "H100-80", uuid="GPU-1", mig_enabled=True, migs=(FakeMig("2g", 2, gi=3),)),
    FakeGpu(2, "H100-80", uuid="GPU-2"),
    FakeGpu(3, "A100-80", uuid="GPU-3"),
)
MIXED = MigWish("mixed", (MigEntry((0,), True, {"1g.10gb": 2, "2g.20gb": 1, "1g.20gb": 1}),))
CALLS = (
    *("nvmlDeviceGetMigMode", "nvmlDeviceGetGpuInstanceProfileInfoV", "nvmlDeviceGetGpuInstances"),
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
    *("nvmlGpuInstanceGetInfo", "nvmlGpuInstanceGetComputeInstanceProfileInfoV"),
    *("nvmlGpuInstanceGetComputeInstances", "nvmlComputeInstanceGetInfo_v2", "nvmlDeviceGetGpuInstanceById"),
    *("nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceCreateComputeInstance"),
    *("nvmlGpuInstanceGetComputeInstanceById", "nvmlComputeInstanceDestroy", "nvmlGpuInstanceDestroy"),
    *("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetMigDeviceHandleByIndex"),
)
HARMLESS = {
    *("nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId"),
    "nvmlDeviceIsMigDeviceHandle",
}
"""What every scan asks, too."""


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = Driver(tmp_path / "driver", replace(DriverState(GPUS), calls_file=tmp_path / "calls"))
    with fresh_bindings():
        yield made
    made.rule()


@pytest.fixture
async def machine(driver: Driver) -> AsyncIterator[Machine]:
    backend = NvmlBackend(SystemClock(), root=driver.root, driver_root=driver.root)
    yield Machine(backend, threads=True)
    await backend.close()


def parts(driver: Driver, slot: int) -> list[tuple[str, int]]:
    return sorted((mig.profile, mig.start) for mig in mig_devices(driver.state, driver.file, slot))


async def test_what_the_driver_says_is_what_is_there(machine: Machine, driver: Driver) -> None:
    first, second, whole, _ = await machine.divided()
    assert [(one.id, one.profile, one.start, one.slices) for one in first.instances] == [
        *((9, "1g.10gb", 0, (1,)), (2, "3g.40gb", 4, (3,)))
    ]
    assert first.instances[0].computes[0].uuid == GPUS[0].mig_uuid(STAYS)
    assert (second.index, second.product, second.enabled) == (1, "NVIDIA H100 80GB HBM3", True)
    assert (whole.enabled, whole.instances) == (False, ())
    assert {one.name for one in whole.profiles} == {one.name for one in second.profiles}
    assert not any(one.starts for one in whole.profiles)
    assert (
        gpu_of(second, DeviceHolds()).model()
        == gpu_of(whole, DeviceHolds()).model()
        == mig_model(second.product)
    )


@pytest.mark.parametrize(
    ("gpu", "wanted", "made"),
    [
        (
            FakeGpu(0, facts={"name": "NVIDIA Z9", "memory-mib": 49152}, mig_enabled=True),
            *({"2g.12gb": 1, "1g.6gb": 5}, [("1g", start) for start in (2, 3, 4, 5, 6)] + [("2g", 0)]),
        ),
        (
            FakeGpu(0, facts={"name": "NVIDIA GB200", "memory-mib": 189 << 10}),
            {"3g.95gb": 2},
            [("3g", 0), ("3g", 4)],
        ),
    ],
    ids=["a product of later", "a board with more memory, of which it tells the names alone"],
)
async def test_what_fits_is_what_the_driver_tells(
    gpu: FakeGpu, wanted: dict[str, int], made: list[tuple[str, int]], machine: Machine, driver: Driver
) -> None:
    driver.become(DriverState((gpu,)))
    agent = Agent(machine, VirtualClock(), MigWish("x", (MigEntry((0,), True, wanted),)))
    await agent.ends()
    assert agent.state == MigState.SUCCESS, agent.said
    assert parts(driver, 0) == made


async def test_where_nobody_knows_what_fits_it_is_said_how_to_learn_it(
    machine: Machine, driver: Driver
) -> None:
    driver.become(DriverState((FakeGpu(0, facts={"name": "NVIDIA Z9"}),)))
    agent = Agent(machine, VirtualClock(), MigWish("x", (MigEntry((0,), True, {"1g.10gb": 1}),)))
    await agent.ends()
    assert agent.state == MigState.FAILED
    assert "Tonnage does not know the MIG profiles of NVIDIA Z9" in str(agent.said)
    assert "nvidia-smi -mig 1" in str(agent.said)


async def test_mig_3_a_layout_is_made_and_every_call_of_it_is_scripted_below(
    machine: Machine, driver: Driver
) -> None:
    agent = Agent(machine, VirtualClock(), MIXED)
    await agent.ends()
    assert agent.state == MigState.SUCCESS, agent.said
    assert [name for name, _ in parts(driver, 0)] == ["1g", "1g", "1g.double", "2g"]
    made = {mig.gi for mig in mig_devices(driver.state, driver.file, 0)}
    assert STAYS.gi in made
    assert parts(driver, 1) == [("2g", 2)]
    used = {name for name, count in driver.calls().items() if count}
    assert set(CALLS) <= used
    changing = {name for name in used if "Instance" in name or "Mig" in name}
    assert changing - set(CALLS) <= HARMLESS


@pytest.mark.parametrize("call", CALLS)
async def test_mig_4_a_call_that_fails_wedges_nothing_and_is_done_again_later(
    call: str, machine: Machine, driver: Driver
) -> None:
    agent = Agent(machine, VirtualClock(), MIXED)
    rule = Rule("error", call, slot=None, value=999)
    driver.rule(rule)

    def mended() -> bool:
        if agent.state == MigState.FAILED and driver.state.rules:
            assert agent.withheld == {}
            assert any(mig.gi == STAYS.gi for mig in mig_devices(driver.state, driver.file, 0))
            driver.rule()
        return agent.state == MigState.SUCCESS

    await agent.live(mended)
    assert len(parts(driver, 0)) == 4
    assert parts(driver, 1) == [("2g", 2)]


ON = MigWish("x", (MigEntry((3,), True, {"3g.40gb": 2}),))


async def test_mig_is_turned_on_where_no_reset_is_needed_and_where_one_is(
    machine: Machine, driver: Driver
) -> None:
    hopper = Agent(machine, VirtualClock(), MigWish("x", (MigEntry((2,), True, {"3g.40gb": 2}),)))
    await hopper.ends()
    assert hopper.state == MigState.SUCCESS, hopper.said
    assert parts(driver, 2) == [("3g", 0), ("3g", 4)]
    install(driver.root)
    ampere = Agent(machine, VirtualClock(), ON)
    await ampere.ends()
    assert ampere.state == MigState.SUCCESS, ampere.said
    assert resets(driver.file) == [["GPU-3"]]
    assert parts(driver, 3) == [("3g", 0), ("3g", 4)]


async def test_without_the_drivers_program_a_reset_is_refused_and_the_mode_waits_no_more(
    machine: Machine, driver: Driver
) -> None:
    ampere = Agent(machine, VirtualClock(), ON)
    await ampere.ends()
    state, reason = ampere.said[-1]
    assert state == MigState.FAILED
    assert reason.startswith(
        "GPU-3 needs a reset: nvidia-smi is missing: reset the GPUs while they are idle: "
    )
    assert "nvidia-smi --gpu-reset -i GPU-3" in reason
    assert "the previous layout is restored" in reason
    assert [(gpu.enabled, gpu.pending) for gpu in await machine.divided()][3] == (False, False)


async def test_what_nvidia_smi_says_of_a_reset_is_said(machine: Machine, driver: Driver) -> None:
    program = driver.root / "usr/bin/nvidia-smi"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho In use by; echo another client; exit 19\n")
    program.chmod(0o755)
    ampere = Agent(machine, VirtualClock(), ON)
    await ampere.ends()
    assert "nvidia-smi refuses (19): In use by another client" in ampere.said[-1][1]
    program.write_text("no program")
    with pytest.raises(HardwareError, match="nvidia-smi does not run"):
        await machine.apply(ResetGpu("GPU-3"))


async def test_gpus_behind_nvswitches_are_reset_together_and_the_others_are_as_they_were(
    machine: Machine, driver: Driver
) -> None:
    gpus = tuple(FakeGpu(slot, "A100-80", uuid=f"GPU-{slot}") for slot in range(3))
    divided = FakeGpu(
        3, "A100-80", uuid="GPU-3", mig_enabled=True, migs=(FakeMig("3g", 4, gi=2), FakeMig("1g", 0, gi=9))
    )
    links = switched(range(3))  # one that is divided shows none
    driver.become(replace(driver.state, gpus=(*gpus, divided), links=links))
    install(driver.root)
    wish = MigWish("x", (MigEntry((0, 1), True, {"7g.80gb": 1}),))
    busy = replace(driver.state, processes=(FakeProcess(2, 4711),))
    driver.become(busy)
    agent = Agent(machine, VirtualClock(), wish)

    def ended() -> bool:
        if driver.state.processes and agent.said and "waits" in agent.said[-1][1] and not agent.withheld:
            assert agent.said[-1][1] == "waits: GPU-2 is used by process 4711"
            assert resets(driver.file) == []
            driver.become(replace(driver.state, processes=()))
        return agent.state == MigState.SUCCESS

    await agent.live(ended)
    assert resets(driver.file) == [["GPU-0", "GPU-1", "GPU-2", "GPU-3"]]
    assert [gpu.enabled for gpu in await machine.divided()] == [True, True, False, True]
    assert parts(driver, 0) == parts(driver, 1) == [("7g", 0)]
    assert parts(driver, 3) == [("1g", 0), ("3g", 4)]


async def test_mig_4_a_process_that_is_no_pods_is_named_and_waited_for(
    machine: Machine, driver: Driver
) -> None:
    driver.become(replace(driver.state, processes=(FakeProcess(0, 4711, 64, gi=2, ci=0),)))
    agent = Agent(machine, VirtualClock(), MIXED)

    def ended() -> bool:
        if agent.state == MigState.PENDING and not agent.withheld and driver.state.processes:
            assert agent.said[-1][1].endswith("is used by process 4711")
            assert parts(driver, 0) == [("1g", 0), ("3g", 4)]
            driver.become(replace(driver.state, processes=()))
        return agent.state == MigState.SUCCESS

    await agent.live(ended)
    assert len(parts(driver, 0)) == 4


async def test_a_step_about_what_is_another_one_now_is_refused(machine: Machine, driver: Driver) -> None:
    other = GpuInstance(2, "3g.40gb", 0)
    for step in (DestroyGpuInstance("GPU-0", other), DestroyComputeInstance("GPU-0", other, 0)):
        with pytest.raises(HardwareError, match="has been replaced"):
            await machine.apply(step)
    with pytest.raises(HardwareError, match=r"no MIG profile 1g\.5gb"):
        await machine.apply(CreateGpuInstance("GPU-0", "1g.5gb", 1))
    assert parts(driver, 0) == [("1g", 0), ("3g", 4)]
