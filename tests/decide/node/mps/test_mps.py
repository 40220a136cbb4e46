"""Which MPS control daemons a node needs, who may use them, and what is to be done about each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.node.access import access_to
from tonnage.decide.node.allocate import allocate
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.inject import inject
from tonnage.decide.node.mps.checkpoint import daemons_from_json, daemons_json
from tonnage.decide.node.mps.daemons import daemons_of, gated
from tonnage.decide.node.mps.steps import (
    FORGIVEN_S,
    DaemonState,
    QueryDaemon,
    Step,
    answered,
    died,
    next_steps,
    silent,
    started,
)
from tonnage.decide.node.share import share
from tonnage.model.actions.mps import StartDaemon, StopDaemon
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.mps import MpsDaemon, MpsDevice, MpsState
from tonnage.model.devices.sharing import (
    Allocation,
    DeviceListStrategy,
    Mount,
    PlannedResource,
    PluginConfig,
    SharedResource,
)
from tonnage.model.names import GPU, ResourceName
from tonnage.model.node.plugin_settings import MigStrategy, SharingKind
from tonnage.model.reasons.reason import Reason

SHARED, SMALL = ResourceName("nvidia.com/gpu.shared"), ResourceName("nvidia.com/small")
TWO = Inventory((Device("GPU-0", 0, "T4", 15360, "7.5"), Device("GPU-1", 1, "T4", 15360, "7.5")))
MIG = MigDevice("MIG-0", 0, "1g.10gb", gpu_instance=1, compute_instance=0, memory_mib=1)


def sharing(replicas: int = 8, **more: Any) -> PluginConfig:
    entry = SharedResource(GPU, SHARED, replicas)
    return PluginConfig(
        **{"shared": (entry,), "sharing_kind": SharingKind.MPS, "mps_root": "/run/nvidia/mps", **more}
    )


def daemons(inventory: Inventory = TWO, config: PluginConfig | None = None) -> tuple[MpsDaemon, ...]:
    config = config or sharing()
    return daemons_of(share(inventory, config), inventory, config)


def test_shr_4_a_client_may_use_its_share_of_memory_and_threads() -> None:
    limits = (MpsDevice("GPU-0", 1920), MpsDevice("GPU-1", 1920))
    assert daemons() == (MpsDaemon(SHARED, "/run/nvidia/mps", 12, limits),)
    assert daemons(config=sharing(3))[0].threads_percent == 33
    assert daemons(config=PluginConfig((SharedResource(GPU, SHARED, 8),))) == ()
    assert daemons(config=sharing(shared=())) == ()


def test_a_resource_has_a_daemon_of_its_own_and_exclusive_devices_have_none() -> None:
    three = Inventory((*TWO.devices, Device("GPU-2", 2, "T4", 8192, "7.5")))
    entries = (SharedResource(GPU, SHARED, 8, ("0",)), SharedResource(GPU, SMALL, 2, ("2",)))
    mps_daemons = daemons(three, sharing(shared=entries))
    assert {d.resource: d.devices for d in mps_daemons} == {
        SHARED: (MpsDevice("GPU-0", 1920),),
        SMALL: (MpsDevice("GPU-2", 4096),),
    }


def test_cuda_counts_a_healthy_device_before_one_that_may_be_missing() -> None:
    ill = Inventory((replace(TWO.devices[0], healthy=False), TWO.devices[1]))
    (before,), (after,) = daemons(), daemons(ill)
    assert [device.uuid for device in after.devices] == ["GPU-1", "GPU-0"]
    assert after.like(before)


@pytest.mark.parametrize(
    ("device", "replicas", "why"),
    [
        pytest.param(Device("a", 0, "V100", 1, "7.0"), 17, "exceeded: 17 > 16", id="16 before 7.5"),
        pytest.param(Device("a", 0, "V100", 1, "7.0"), 16, "", id="16 are served"),
        pytest.param(Device("a", 0, "T4", 1, "7.5"), 49, "exceeded: 49 > 48", id="48 from 7.5 on"),
        pytest.param(Device("a", 0, "H100", 1, "9.0"), 48, "", id="48 are served"),
        pytest.param(Device("a", 0, "?", 1, ""), 17, "not known; ask for at most 16", id="not known: few"),
        pytest.param(
            Device("a", 0, "A100", 1, "8.0", mig_enabled=True, migs=(MIG,)),
            2,
            "sharing using MPS is not supported for MIG devices",
            id="a divided device as a whole",
        ),
    ],
)
def test_shr_4_what_cannot_be_shared_so_is_withheld_alone(device: Device, replicas: int, why: str) -> None:
    good = Device("good", 1, "H100", 1, "9.0")
    plan = share(Inventory((device, good)), sharing(replicas))
    offered = {slot.uuid for resource in plan.resources for slot in resource.slots}
    assert offered == ({"a"} if not why else set()) | ({"good"} if replicas <= 48 else set())
    assert any(why in refusal.message for refusal in plan.refusals) if why else not plan.refusals


def test_mig_devices_are_never_shared_through_mps() -> None:
    device = Device("a", 0, "A100", 1, "8.0", mig_enabled=True, migs=(MIG,))
    plan = share(Inventory((device,)), sharing(2, mig_strategy=MigStrategy.SINGLE))
    assert plan.resources == ()
    assert "use timeSlicing, or disable MIG there" in plan.refusals[0].message


def offered(config: PluginConfig, states: dict[ResourceName, MpsState]) -> PlannedResource:
    plan = share(TWO, config)
    (resource,) = gated(plan, daemons_of(plan, TWO, config), states).resources
    return resource


@pytest.mark.parametrize(
    ("state", "why"),
    [
        pytest.param(None, "the MPS control daemon has not started yet", id="no daemon"),
        pytest.param(
            MpsState(daemons()[0], "signal 9"),
            "the MPS control daemon does not serve: signal 9",
            id="one that is dead",
        ),
        pytest.param(
            MpsState(daemons(config=sharing(4))[0]),
            "the MPS control daemon serves it once the pods with the former limits have ended",
            id="one with other limits",
        ),
        pytest.param(
            MpsState(daemons(config=sharing(mps_root="/mps"))[0]),
            "the MPS control daemon serves it once the pods with the former limits have ended",
            id="one elsewhere",
        ),
    ],
)
def test_devices_that_no_daemon_serves_are_unhealthy_and_refused(state: MpsState | None, why: str) -> None:
    resource = offered(sharing(), {SHARED: state} if state else {})
    assert {(slot.healthy, slot.reason) for slot in resource.slots} == {(False, why)}
    refusal = allocate(resource, ["GPU-0::3"], DeviceHolds())
    assert isinstance(refusal, Reason)
    assert refusal.message.endswith(f"device GPU-0::3 is unhealthy ({why})")


def test_devices_that_a_daemon_serves_are_as_they_are() -> None:
    resource = offered(sharing(), {SHARED: MpsState(daemons()[0])})
    assert all(slot.healthy for slot in resource.slots)


def test_a_device_that_came_later_waits_and_the_others_do_not() -> None:
    (mps_daemon,) = daemons(Inventory(TWO.devices[:1]))
    resource = offered(sharing(), {SHARED: MpsState(mps_daemon)})
    assert {slot.uuid for slot in resource.slots if slot.healthy} == {"GPU-0"}


def test_a_fault_of_the_device_itself_is_the_reason_that_is_given() -> None:
    inventory = Inventory((replace(TWO.devices[0], healthy=False, reason="Xid 79"),))
    plan = share(inventory, sharing())
    (resource,) = gated(plan, daemons_of(plan, inventory, sharing()), {}).resources
    assert {slot.reason for slot in resource.slots} == {"Xid 79"}


@pytest.mark.parametrize(
    "strategies", [("envvar",), ("volume-mounts",), ("cdi-cri",), ("cdi-annotations", "cdi-cri")]
)
def test_a_client_gets_pipe_and_memory_whatever_way_it_is_told_its_devices(
    strategies: tuple[str, ...],
) -> None:
    config = sharing(device_list=tuple(map(DeviceListStrategy, strategies)))
    injection = inject(Allocation(SHARED, ("GPU-0::0",), ("GPU-0",)), config, access_to(TWO, config))
    assert injection.env["CUDA_MPS_PIPE_DIRECTORY"] == f"/mps/{SHARED}/pipe"
    assert injection.mounts[-2:] == (
        Mount(f"/run/nvidia/mps/{SHARED}/pipe", f"/mps/{SHARED}/pipe"),
        Mount("/run/nvidia/mps/shm", "/dev/shm"),
    )


@pytest.mark.parametrize(
    ("resource", "config"),
    [
        pytest.param(GPU, sharing(), id="an exclusive device beside shared ones"),
        pytest.param(SHARED, sharing(sharing_kind=SharingKind.TIME_SLICING), id="time-slicing"),
    ],
)
def test_who_is_no_client_gets_nothing_of_mps(resource: ResourceName, config: PluginConfig) -> None:
    injection = inject(Allocation(resource, ("GPU-0",), ("GPU-0",)), config, access_to(TWO, config))
    assert (dict(injection.env), injection.mounts) == ({"NVIDIA_VISIBLE_DEVICES": "GPU-0"}, ())


EIGHT, FOUR = daemons()[0], daemons(config=sharing(4))[0]
ELSEWHERE = replace(EIGHT, resource=SMALL)
SERVING = started(DaemonState(EIGHT), now=0.0)
DEAD = died(SERVING, "signal 9", now=5.0)


@pytest.mark.parametrize(
    ("wanted", "standing", "held", "now", "expected"),
    [
        pytest.param((EIGHT,), None, False, 0, [StartDaemon(EIGHT)], id="none yet: start"),
        pytest.param((EIGHT,), SERVING, False, 9, [], id="serving: nothing"),
        pytest.param((EIGHT,), SERVING, False, 10, [QueryDaemon(EIGHT)], id="serving for a while: ask"),
        pytest.param((EIGHT,), replace(SERVING, busy=True), False, 10, [], id="under way: nothing"),
        pytest.param((EIGHT,), DEAD, False, 5, [StartDaemon(EIGHT)], id="dead: start"),
        pytest.param((EIGHT,), replace(DEAD, due_at=7.0), False, 6, [], id="dead again: pause"),
        pytest.param(
            (EIGHT,), replace(DEAD, due_at=7.0), True, 7, [StartDaemon(EIGHT)], id="dead and held: start"
        ),
        pytest.param((), SERVING, False, 1, [StopDaemon(EIGHT)], id="not wanted: stop"),
        pytest.param((), SERVING, True, 1, [], id="not wanted, held: leave it"),
        pytest.param((), SERVING, True, 10, [QueryDaemon(EIGHT)], id="not wanted, held: look after it"),
        pytest.param((), DEAD, True, 5, [StopDaemon(EIGHT)], id="not wanted, held, dead: stop"),
        pytest.param((FOUR,), SERVING, True, 1, [], id="other limits, held: leave it"),
        pytest.param((FOUR,), SERVING, False, 1, [StopDaemon(EIGHT)], id="other limits: stop first"),
        pytest.param((FOUR,), DEAD, True, 5, [StopDaemon(EIGHT)], id="other limits, dead: clean up first"),
        pytest.param((ELSEWHERE,), SERVING, True, 1, [], id="its devices elsewhere, held: wait"),
        pytest.param(
            (ELSEWHERE,), SERVING, False, 1, [StopDaemon(EIGHT)], id="its devices elsewhere: stop first"
        ),
        pytest.param(
            (), DaemonState(EIGHT), False, 0, [StopDaemon(EIGHT)], id="left by an earlier agent: give back"
        ),
        pytest.param(
            (EIGHT,), DaemonState(EIGHT), False, 0, [StartDaemon(EIGHT)], id="left, and wanted: start anew"
        ),
    ],
)
def test_what_to_do_next(
    wanted: tuple[MpsDaemon, ...], standing: DaemonState | None, held: bool, now: float, expected: list[Step]
) -> None:
    stands = {standing.daemon.resource: standing} if standing else {}
    assert list(next_steps(wanted, stands, {SHARED} if held else set(), now=now)) == expected


def test_a_first_death_is_mended_at_once_and_others_wait_longer_and_longer() -> None:
    one, now, pauses = SERVING, 0.0, []
    for _ in range(8):
        one = died(one, "signal 9", now=now)
        pauses.append(one.due_at - now)
        one = started(one, now=now)
    assert pauses == [0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 30.0]
    long = answered(one, now=FORGIVEN_S)
    assert died(long, "signal 9", now=FORGIVEN_S).due_at == FORGIVEN_S


def test_a_silent_daemon_serves_nobody_and_is_replaced_after_three_silences() -> None:
    one = SERVING
    for _ in range(2):
        one = silent(one, "does not answer", now=20.0)
        assert (one.alive, one.state.why, one.due_at) == (True, "does not answer", 22.0)
    assert answered(one, now=22.0).state.why == ""
    gone = silent(one, "does not answer", now=22.0)
    assert (gone.alive, gone.state.why) == (False, "does not answer")


names = st.sampled_from([SHARED, SMALL])
made = st.builds(
    MpsDaemon,
    names,
    st.sampled_from(["/run/nvidia/mps", "/mps"]),
    st.integers(2, 50),
    st.lists(st.builds(MpsDevice, st.sampled_from(["GPU-0", "GPU-1"]), st.integers(0, 99)), max_size=2).map(
        tuple
    ),
)
standings = st.builds(DaemonState, made, *(st.booleans(),) * 3, due_at=st.floats(0, 10))


@given(
    st.lists(made, unique_by=lambda d: d.resource),
    st.lists(standings, unique_by=lambda s: s.daemon.resource),
    st.sets(names),
)
def test_no_resource_has_two_steps_at_a_time_and_no_device_two_daemons(
    wanted: list[MpsDaemon], standing: list[DaemonState], held: set[ResourceName]
) -> None:
    stands = {device.daemon.resource: device for device in standing}
    steps = next_steps(tuple(wanted), stands, held, now=5.0)
    names = [step.daemon.resource for step in steps]
    assert len(names) == len(set(names))
    for step in steps:
        assert not stands.get(step.daemon.resource, DaemonState(EIGHT)).busy
        if isinstance(step, StartDaemon):
            others = {
                d.uuid
                for name, one in stands.items()
                if name != step.daemon.resource
                for d in one.daemon.devices
            }
            assert others.isdisjoint(device.uuid for device in step.daemon.devices)
            before = stands.get(step.daemon.resource)
            assert before is None or not before.alive


@given(st.lists(made, max_size=3))
def test_what_is_remembered_is_recalled(found: list[MpsDaemon]) -> None:
    assert daemons_from_json(daemons_json(found)) == tuple(found)


@pytest.mark.parametrize(
    "damaged", [{}, [], {"daemons": [{}]}, {"daemons": 1}, {"daemons": [{"resource": "x/" + "y" * 99}]}]
)
def test_a_damaged_memory_is_an_error(damaged: Any) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        daemons_from_json(damaged)
