"""What holds for the health of devices whatever happens to them, and across restarts of the agent."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.node.health import device_health, faults
from tonnage.decide.node.health.checkpoint import health_from_json, health_json
from tonnage.decide.node.health.device_health import (
    curable,
    next_look_s,
    offered_inventory,
    state_after_scan,
    wait_s,
)
from tonnage.decide.node.health.faults import HealthState
from tonnage.decide.node.health.xids import classes_of, state_after_event
from tonnage.model.catalog.xids import xids
from tonnage.model.devices.health import SEVERITY, FaultClass, HealthPolicy, Signal
from tonnage.model.devices.inventory import Device, Inventory, MigDevice, RawEvent, RawEventKind, Vitals

POLICY = HealthPolicy()
UUIDS = ("a", "b", "c")
EPOCH = 1.7e9

codes = st.sampled_from([*xids(), 87, 999])
counts = st.none() | st.integers(0, 5)
flags = st.none() | st.booleans()
vitals = st.builds(
    Vitals,
    st.just(""),
    uncorrected_errors=counts,
    remap_pending=flags,
    remap_failed=flags,
    recovery_action=st.none() | st.integers(0, 9),
    nvlinks_up=counts,
    nvlink_errors=st.none() | st.integers(0, 10_000),
)
looks = st.dictionaries(st.sampled_from(UUIDS), st.tuples(st.booleans(), vitals))
steps = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.1, 1.0, 10.0, 400.0, 90_000.0]),
        st.one_of(looks, st.tuples(st.sampled_from(UUIDS), codes), st.sampled_from(["boot-1", "boot-2"])),
    ),
    max_size=15,
)


def inventory(facts: dict[str, tuple[bool, Vitals]], incarnation: str) -> Inventory:
    devices = tuple(
        Device(
            uuid,
            index,
            "x",
            1,
            healthy=facts[uuid][0],
            reason="" if facts[uuid][0] else "lost",
            migs=(MigDevice(f"{uuid}-1", 0, "1g", 1, 0, 1),),
        )
        for index, uuid in enumerate(UUIDS)
        if uuid in facts
    )
    told = tuple(replace(facts[device.uuid][1], uuid=device.uuid) for device in devices if device.healthy)
    return Inventory(devices, vitals=told, incarnation=incarnation)


def lived(happened: list[Any]) -> tuple[HealthState, Inventory, float]:
    """A node's life: its memory, the last look and the time."""
    state, now, incarnation = HealthState(), 0.0, "boot-0"
    facts = {uuid: (True, Vitals(uuid)) for uuid in UUIDS}
    for seconds, what in happened:
        now += seconds
        match what:
            case dict():
                facts = what
            case str():
                incarnation = what
            case (uuid, code):
                event = RawEvent(RawEventKind.XID, uuid, code)
                state = state_after_event(state, event, inventory(facts, incarnation), POLICY, now=now)
        state = state_after_scan(state, inventory(facts, incarnation), POLICY, now=now)
    return state, inventory(facts, incarnation), now


@given(steps)
def test_nothing_unreadable_is_offered_and_no_part_of_what_is_not(happened: list[Any]) -> None:
    state, scanned, _ = lived(happened)
    shown = offered_inventory(scanned, state)
    assert [device.uuid for device in shown.devices] == [device.uuid for device in scanned.devices]
    for device, raw in zip(shown.devices, scanned.devices, strict=True):
        assert raw.healthy or not device.healthy
        assert device.healthy or not any(part.healthy for part in device.migs)
        parts: tuple[Device | MigDevice, ...] = (device, *device.migs)
        assert all(bool(part.reason) is not part.healthy for part in parts)


@given(steps)
def test_nobody_is_withheld_for_anothers_fault(happened: list[Any]) -> None:
    """`c` never fails; whatever happens to the others, it is offered when it is there."""
    others = [
        (seconds, {**what, "c": (True, Vitals("c"))} if isinstance(what, dict) else what)
        for seconds, what in happened
        if not (isinstance(what, tuple) and what[0] == "c")
    ]
    state, scanned, _ = lived(others)
    assert all(device.healthy for device in offered_inventory(scanned, state).devices if device.uuid == "c")


@given(steps)
def test_every_curable_device_that_does_well_comes_back_and_no_other(happened: list[Any]) -> None:
    state, scanned, now = lived(happened)
    well = replace(
        inventory({uuid: (True, Vitals(uuid)) for uuid in UUIDS}, scanned.incarnation),
    )
    for _ in range(2):
        longest = max((wait_s(fault, POLICY) for fault in state.faults), default=0.0)
        state = state_after_scan(state, well, POLICY, now=now)
        now += longest + 1
        state = state_after_scan(state, well, POLICY, now=now)
    assert not any(curable(fault) for fault in state.faults)
    left = {fault.device for fault in state.faults}
    assert {device.uuid for device in offered_inventory(well, state).devices if not device.healthy} == left


@given(steps)
def test_a_boot_leaves_only_what_asks_for_another_device(happened: list[Any]) -> None:
    state, _, now = lived(happened)
    well = inventory({uuid: (True, Vitals(uuid)) for uuid in UUIDS}, "boot-9")
    state = state_after_scan(state, well, POLICY, now=now)
    assert all(fault.needs is FaultClass.REPLACE for fault in state.faults)


@given(steps, st.floats(0, 80_000.0))
def test_a_restart_of_the_agent_makes_nothing_healthy(happened: list[Any], asleep_s: float) -> None:
    state, scanned, now = lived(happened)
    memory = json.loads(json.dumps(health_json(state, epoch=EPOCH - now)))
    back = health_from_json(memory, epoch=EPOCH + asleep_s - 5.0, now=5.0)
    assert offered_inventory(scanned, back) == offered_inventory(scanned, replace(state, faults=tuple(
        replace(fault, well_since=None) for fault in state.faults)))  # fmt: skip
    again = state_after_scan(back, scanned, POLICY, now=5.0)
    before = state_after_scan(state, scanned, POLICY, now=now)
    present = {device.uuid for device in scanned.devices}
    unhealthy = {fault.subject for fault in before.faults if fault.device in present}
    assert unhealthy <= {fault.subject for fault in again.faults}


@given(steps)
def test_what_is_remembered_is_recalled(happened: list[Any]) -> None:
    state, _, now = lived(happened)
    memory = health_json(state, epoch=EPOCH)
    assert health_json(health_from_json(memory, epoch=EPOCH, now=now), epoch=EPOCH) == memory
    assert len(json.dumps(memory)) < 1 << 20


@given(steps)
def test_looking_again_at_once_changes_nothing_that_is_kept(happened: list[Any]) -> None:
    state, scanned, now = lived([*happened, (0.0, "boot-3")])
    again = state_after_scan(state, scanned, POLICY, now=now)
    assert offered_inventory(scanned, again) == offered_inventory(scanned, state)
    assert health_json(again, epoch=0.0) == health_json(state, epoch=0.0)
    assert 1 <= next_look_s(again, POLICY, now=now) <= 10


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 60
    for module in (faults, device_health):
        monkeypatch.setattr(module, "MOST", most)
    state = HealthState()
    devices = most + 50
    for number in range(devices):
        uuid = f"GPU-{number}"
        inventory = Inventory((Device(uuid, 0, "x", 1),), vitals=(Vitals(uuid, uncorrected_errors=0),))
        state = state_after_event(
            state, RawEvent(RawEventKind.XID, uuid, 81), inventory, POLICY, now=float(number)
        )
        state = state_after_scan(state, inventory, POLICY, now=float(number))
    assert max(map(len, (state.faults, state.sightings, state.baselines))) <= most
    assert state.faults[-1].device == f"GPU-{devices - 1}"


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["version", "faults", "sightings", "baselines", "incarnation"]), inner
            )
        ),
    )
)
def test_a_memory_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        health_from_json(value, epoch=0.0, now=0.0)


def test_a_later_version_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown version"):
        health_from_json({**health_json(HealthState(), epoch=0.0), "version": 2}, epoch=0.0, now=0.0)


@given(codes, st.sets(st.sampled_from(Signal)), st.booleans())
def test_what_comes_again_never_asks_for_less(code: int, signals: set[Signal], every: bool) -> None:
    first, again = classes_of(code, HealthPolicy(signals=frozenset(signals), every_xid=every))
    assert SEVERITY[first] <= SEVERITY[again]


def test_the_catalogue_is_complete_and_each_row_has_its_source() -> None:
    assert set(range(1, 174)) - xids().keys() == {87, 138, 152, 153}
    assert all(row.source and row.name and row.action for row in xids().values())
    assert {row.origin for row in xids().values()} == {
        "application",
        "driver",
        "hardware",
        "information",
        "link",
    }
