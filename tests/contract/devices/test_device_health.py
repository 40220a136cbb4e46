"""Faults of devices as the agent sees them, over pretended devices and over NVML's own bindings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pynvml
import pytest

from support.driver_root import Driver
from support.health_machines import (
    ONLY_RESETS,
    Agent,
    FastClock,
    Machine,
    NvmlMachine,
    ScenarioMachine,
    StillClock,
    running,
)
from support.looking import until
from support.nvml.bindings import fresh_bindings
from support.nvml.state import XID, DriverState, FakeEvent, FakeGpu, FakeMig, Rule, switched
from tonnage.agent.devices import CHECKPOINT
from tonnage.model.actions.checkpoints import SaveCheckpoint
from tonnage.model.devices.health import FaultClass


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    gpus = tuple(FakeGpu(slot, uuid=f"GPU-{slot}") for slot in range(4))
    made = Driver(tmp_path / "driver", DriverState(gpus, links=switched(range(4))))
    with fresh_bindings():
        yield made
    made.rule()


@pytest.fixture(params=["scenario", "nvml"])
def machine(request: pytest.FixtureRequest, tmp_path: Path, driver: Driver) -> Machine:
    return ScenarioMachine(tmp_path) if request.param == "scenario" else NvmlMachine(driver)


async def test_an_error_of_a_program_is_none_of_the_device(machine: Machine, tmp_path: Path) -> None:
    async with running(machine, tmp_path) as agent:
        for code in (13, 31, 43, 45, 68, 94):
            machine.report(0, code)
        machine.report(2, 95)
        await agent.until_faulty("GPU-2")
        assert {message.partition(":")[0] for _, message in agent.events.posted} == {"GPU-2"}


async def test_after_an_error_that_needs_a_reset_it_must_do_well_for_a_time(
    machine: Machine, tmp_path: Path
) -> None:
    """#189 #234 #403: what was unhealthy once was so until a restart."""
    async with running(machine, tmp_path) as agent:
        machine.report(1, 95)
        assert await agent.until_faulty("GPU-1") == {"GPU-1": "Xid 95: uncontained ECC error; needs a reset"}
        await agent.until_faulty()
        assert agent.events.posted == [
            ("DeviceUnhealthy", "GPU-1: Xid 95: uncontained ECC error; needs a reset"),
            ("DeviceHealthy", "GPU-1 is healthy again"),
        ]


async def test_after_a_reset_it_is_back_soon(machine: Machine, tmp_path: Path) -> None:
    async with running(machine, tmp_path, ONLY_RESETS) as agent:
        machine.report(1, 95)
        await agent.until_faulty("GPU-1")
        machine.tell(1, action=1)
        await agent.until(lambda: "GPU-1" in agent.faulty())
        machine.fail(1, "lost")
        await agent.until(lambda: agent.faulty().get("GPU-1"))
        await agent.until_kept("unreadable")
        machine.tell(1)
        machine.recover(1)
        await agent.until_faulty()


async def test_a_reboot_ends_what_asks_for_one(machine: Machine, tmp_path: Path) -> None:
    async with running(machine, tmp_path) as agent:
        machine.report(3, 79)
        machine.report(0, 95)
        await agent.until_faulty("GPU-0", "GPU-3")
        await agent.until_faulty("GPU-3")
        machine.reboot()
        await agent.until_faulty()


async def test_only_another_device_ends_what_asks_for_one(machine: Machine, tmp_path: Path) -> None:
    async with running(machine, tmp_path) as agent:
        machine.report(3, 81)
        machine.report(0, 79)
        await agent.until_faulty("GPU-0", "GPU-3")
        machine.reboot()
        await agent.until_faulty("GPU-3")
        machine.exchange(3, "GPU-new")
        await agent.until_faulty()


@pytest.mark.parametrize(
    ("xid", "needs"), [(95, "reset"), (79, "reboot"), (81, "replace")], ids=["reset", "reboot", "replace"]
)
async def test_a_restart_of_the_agent_heals_nobody(
    machine: Machine, tmp_path: Path, xid: int, needs: str
) -> None:
    async with running(machine, tmp_path, ONLY_RESETS) as agent:
        machine.report(2, xid)
        reasons = await agent.until_faulty("GPU-2")
    assert f'"{needs}"' in (await agent.context.checkpoints.load(CHECKPOINT) or b"").decode()
    async with running(machine, tmp_path, ONLY_RESETS) as agent:
        assert agent.faulty() == reasons


async def test_what_a_site_heeds_is_not_forgotten_while_its_policy_is_not_known(
    machine: Machine, tmp_path: Path
) -> None:
    heeded = replace(ONLY_RESETS, xids={13: FaultClass.RESET})
    async with running(machine, tmp_path, heeded) as agent:
        machine.report(2, 13)
        await agent.until_faulty("GPU-2")
        await agent.until_kept("xid-13")
    agent = Agent(machine, tmp_path, None, FastClock())
    task = asyncio.create_task(agent.devices.run())
    await until(lambda: agent.context.metrics.turns["devices"] >= 2)
    assert agent.board.inventory.value is None, "nothing is known about what may be used"
    agent.judge_by(heeded)
    await agent.until_faulty("GPU-2")
    agent.judge_by(ONLY_RESETS)
    assert not agent.faulty(), "the site thought again"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await agent.backend.close()


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        pytest.param({"ecc": 3}, "3 uncorrectable ECC errors; needs a reset", id="ECC errors"),
        pytest.param({"remap": "pending"}, "a row remapping is pending; needs a reset", id="remap pending"),
        pytest.param(
            {"remap": "failed"}, "row remapping failed; needs inspection or replacement", id="failed"
        ),
        pytest.param({"action": 2}, "the driver asks for a reboot of the node", id="recovery action"),
    ],
)
async def test_what_a_device_says_of_itself_counts(
    machine: Machine, tmp_path: Path, told: dict[str, Any], reason: str
) -> None:
    async with running(machine, tmp_path) as agent:
        machine.tell(1, **told)
        assert await agent.until_faulty("GPU-1") == {"GPU-1": reason}


@pytest.mark.parametrize("how", ["lost", "hung"])
async def test_a_device_that_is_lost_or_hangs_is_out_alone_and_comes_back(
    machine: Machine, tmp_path: Path, how: Literal["lost", "hung"]
) -> None:
    async with running(machine, tmp_path) as agent:
        machine.fail(2, how)
        reasons = await agent.until_faulty("GPU-2")
        assert ("lost" if how == "lost" else "does not answer") in reasons["GPU-2"]
        machine.report(0, 95)
        await agent.until(lambda: {"GPU-0", "GPU-2"} <= agent.faulty().keys())
        assert agent.faulty().keys() == {"GPU-0", "GPU-2"}
        machine.recover(2)
        await agent.until(lambda: "GPU-2" not in agent.faulty())


async def test_without_a_driver_nothing_is_offered_and_with_it_all(machine: Machine, tmp_path: Path) -> None:
    async with running(machine, tmp_path) as agent:
        machine.report(3, 79)
        await agent.until_faulty("GPU-3")
        match machine:
            case NvmlMachine(driver=driver):
                driver.unload()
            case ScenarioMachine(file=file):
                file.unlink()
        await agent.until(lambda: len(agent.faulty()) == 4)
        match machine:
            case NvmlMachine(driver=driver):
                driver.load()
            case ScenarioMachine():
                machine.reboot()
        await agent.until_faulty()


async def test_an_error_is_shown_before_the_scan_that_follows_it(driver: Driver, tmp_path: Path) -> None:
    async with running(NvmlMachine(driver), tmp_path, clock=StillClock()) as agent:
        driver.rule(Rule("hang", "nvmlDeviceGetCount_v2"))
        driver.xid(3, 95)
        await agent.until_faulty("GPU-3")
        await agent.until(lambda: len(agent.faulty()) == 4)


async def test_a_damaged_memory_is_said_and_begun_anew(machine: Machine, tmp_path: Path) -> None:
    async with running(machine, tmp_path) as agent:
        machine.report(2, 81)
        await agent.until_faulty("GPU-2")
        await agent.until_kept("replace")
    await agent.context.performer.perform(SaveCheckpoint(CHECKPOINT, b'{"version": 1}'))
    async with running(machine, tmp_path) as agent:
        assert not agent.faulty()
        assert agent.events.posted[0][0] == "DeviceHealthForgotten"


# ---- what only NVML has ----


async def test_an_error_that_names_a_mig_device_is_its_own(driver: Driver, tmp_path: Path) -> None:
    migs = tuple(FakeMig("1g", start, gi=7 + start, uuid=f"MIG-{start}") for start in range(3))
    driver.become(driver.state.with_gpu(replace(driver.state.gpu(1), mig_enabled=True, migs=migs)))
    async with running(NvmlMachine(driver), tmp_path, ONLY_RESETS) as agent:
        driver.event(1, 95, XID, gi=8, ci=0)
        await agent.until_faulty("MIG-1")
        driver.event(1, 48, XID)
        await agent.until_faulty("GPU-1", "MIG-0", "MIG-1", "MIG-2")


async def test_a_link_that_goes_down_is_the_devices_own(driver: Driver, tmp_path: Path) -> None:
    async with running(NvmlMachine(driver), tmp_path) as agent:
        await agent.until_kept('"GPU-2", 0, 18')
        links = tuple(replace(link, active=(link.slot, link.link) != (2, 5)) for link in driver.state.links)
        driver.become(replace(driver.state, links=links))
        assert await agent.until_faulty("GPU-2") == {"GPU-2": "17 of 18 NVLinks are up; needs a reset"}


@pytest.mark.parametrize(
    ("kind", "fact"),
    [
        pytest.param(pynvml.nvmlEventTypeGpuRecoveryAction, "recovery-action", id="a recovery action"),
        pytest.param(pynvml.nvmlEventTypeDoubleBitEccError, "ecc-uncorrected-volatile", id="double-bit ECC"),
        pytest.param(pynvml.nvmlEventTypeDramRetirementFailure, "remap-failure", id="no more spare rows"),
    ],
)
async def test_an_event_that_is_no_xid_makes_it_look_at_once(
    driver: Driver, tmp_path: Path, kind: int, fact: str
) -> None:
    """A recovery action, a device that is unavailable, a poisoned memory: the readings say what it is."""
    async with running(NvmlMachine(driver), tmp_path, clock=StillClock()) as agent:
        gpu = driver.state.gpu(0)
        asking = replace(gpu, facts={**gpu.facts, fact: 1})
        driver.become(replace(driver.state.with_gpu(asking), events=(FakeEvent(1, 0, 0, kind),)))
        await agent.until_faulty("GPU-0")


async def test_a_lost_device_is_noticed_by_itself(driver: Driver, tmp_path: Path) -> None:
    async with running(NvmlMachine(driver), tmp_path, clock=StillClock()) as agent:
        driver.lose(1)
        await agent.until_faulty("GPU-1")


@pytest.mark.parametrize("refused", ["nvmlEventSetCreate", "nvmlDeviceRegisterEvents", "nvmlEventSetWait_v2"])
async def test_without_events_of_the_driver_its_readings_still_count(
    driver: Driver, tmp_path: Path, refused: str
) -> None:
    """#1641 #1223: the health check did not start, and every GPU of a broken node stayed healthy."""
    driver.rule(Rule("error", refused, value=999))
    async with running(NvmlMachine(driver), tmp_path) as agent:
        driver.change(2, recovery_action=2)
        reasons = await agent.until_faulty("GPU-2")
        assert "reboot" in reasons["GPU-2"]
        driver.lose(0)
        await agent.until_faulty("GPU-0", "GPU-2")
