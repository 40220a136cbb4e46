"""What brings a device back, after how long, and what only looks like it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.watched_node import DAY_S, POLICY, Node, mig, xid
from tonnage.decide.node.health.device_health import CALM_S, next_look_s, offered_inventory, unreadable
from tonnage.decide.node.health.faults import HealthState, interrupted
from tonnage.model.devices.health import HealthPolicy, RecoveryAction, Signal
from tonnage.model.devices.inventory import Device, Vitals
from tonnage.model.devices.links import NVSWITCH, Link


@pytest.fixture
def node() -> Node:
    return Node()


# ---- back to health ----


def test_without_a_reset_the_device_must_do_well_for_long(node: Node) -> None:
    node.strike(xid(95))
    node.look()
    node.looks(299)
    assert node.reasons
    node.look(1)
    assert not node.reasons


def test_after_a_reset_a_short_while_is_enough(node: Node) -> None:
    node.strike(xid(95))
    node.change("a", healthy=False, reason="GPU requires reset")
    node.look(60)
    node.change("a", healthy=True, reason="")
    node.look(1)
    node.looks(4)
    assert node.reasons
    node.look(1)
    assert not node.reasons


@pytest.mark.parametrize(
    "sign",
    [
        pytest.param({"recovery_action": RecoveryAction.GPU_RESET}, id="the driver asked for one"),
        pytest.param({"remap_pending": True}, id="a row was to be remapped"),
    ],
)
def test_what_only_a_reset_ends_tells_of_one(node: Node, sign: dict[str, object]) -> None:
    node.strike(xid(95))
    node.tell(**sign)
    node.looks(400)
    assert node.reasons, "it does not do well as long as it says so"
    node.tell(recovery_action=0, remap_pending=False)
    node.looks(6)
    assert not node.reasons


def test_a_count_that_began_anew_tells_of_a_reset(node: Node) -> None:
    node.tell(uncorrected_errors=2)
    node.look(1)
    assert node.reasons == {"a": "2 uncorrectable ECC errors; needs a reset"}
    node.tell(uncorrected_errors=0)
    node.looks(6)
    assert not node.reasons


def test_a_device_that_only_hung_has_not_been_reset(node: Node) -> None:
    node.strike(xid(119))
    node.change("a", healthy=False, reason="does not answer")
    node.tell(hangs=True)
    node.look(1)
    node.change("a", healthy=True, reason="")
    node.tell(hangs=False)
    node.looks(10)
    assert node.reasons["a"].startswith("Xid 119")


@pytest.mark.parametrize("code", [79, 143, 167])
def test_a_reboot_is_waited_for(node: Node, code: int) -> None:
    node.strike(xid(code))
    node.change("a", healthy=False)
    node.look(1)
    node.change("a", healthy=True)
    node.looks(3600)
    assert node.reasons, "neither time nor coming back is enough"
    node.incarnation = "boot-2"
    node.look(1)
    assert not node.reasons


@pytest.mark.parametrize("code", [54, 81, 157])
def test_only_another_device_ends_what_asks_for_one(node: Node, code: int) -> None:
    node.strike(xid(code))
    node.incarnation = "boot-2"
    node.look(DAY_S)
    assert node.reasons.keys() == {"a"}
    before = node.devices.pop("a")
    node.devices["new"] = replace(before, uuid="new")
    node.look(1)
    assert not node.reasons
    node.look(2 * DAY_S)
    node.devices["a"] = before
    node.look(1)
    assert node.reasons.keys() == {"a"}, "it was put back"


def test_when_it_is_not_told_whether_the_node_booted_it_did_not(node: Node) -> None:
    node.strike(xid(79))
    for incarnation in ("", "boot-1", ""):
        node.incarnation = incarnation
        node.look(1)
        assert node.reasons


def test_each_time_within_a_day_the_wait_is_twice_as_long(node: Node) -> None:
    waits = []
    for _ in range(6):
        node.strike(xid(46))
        node.look()
        waited = 0
        while node.reasons:
            node.look(1)
            waited += 1
        waits.append(waited)
    assert waits == [300, 600, 1200, 2400, 3600, 3600]


def test_a_new_error_begins_the_wait_anew(node: Node) -> None:
    node.strike(xid(95))
    node.look()
    node.looks(200)
    node.strike(xid(46))
    node.look()
    node.looks(250)
    assert node.reasons["a"].startswith("Xid 46")


def test_a_mig_device_made_anew_has_no_fault_of_its_predecessor(node: Node) -> None:
    node.strike(xid(95, "b", 1, 0))
    node.change("b", migs=(mig("b-new", 1), *node.devices["b"].migs[1:]))
    node.look(1)
    assert not node.reasons


# ---- readings ----


def test_a_lost_device_is_out_at_once_and_back_after_a_while(node: Node) -> None:
    node.change("b", healthy=False, reason="GPU is lost")
    node.look(1)
    assert node.reasons == dict.fromkeys(("b", "b-1", "b-2", "b-2x"), "GPU is lost")
    node.change("b", healthy=True, reason="")
    node.look(1)
    assert node.reasons["b"] == "GPU is lost (over, being watched)"
    node.looks(4)
    assert node.reasons
    node.look(1)
    assert not node.reasons


def test_one_that_comes_and_goes_is_watched_longer_and_longer(node: Node) -> None:
    for _ in range(12):
        node.change("a", healthy=False)
        node.look(1)
        node.change("a", healthy=True)
        node.look(1)
        node.looks(600)
        assert not node.reasons
    node.change("a", healthy=False)
    node.look(1)
    node.change("a", healthy=True)
    node.look(1)
    node.looks(599)
    assert node.reasons


@pytest.mark.parametrize(
    ("vitals", "reason"),
    [
        pytest.param({"remap_pending": True}, "a row remapping is pending; needs a reset", id="pending"),
        pytest.param(
            {"recovery_action": RecoveryAction.NODE_REBOOT},
            "the driver asks for a reboot of the node",
            id="reboot",
        ),
        pytest.param({"recovery_action": 42}, "the driver asks for recovery action 42", id="a newer action"),
        pytest.param(
            {"uncorrected_errors": 1}, "1 uncorrectable ECC error; needs a reset", id="an ECC error"
        ),
        pytest.param(
            {"remap_failed": True}, "row remapping failed; needs inspection or replacement", id="failed"
        ),
    ],
)
def test_readings_that_speak_against_a_device(node: Node, vitals: dict[str, object], reason: str) -> None:
    node.tell(**vitals)
    node.look(1)
    assert node.reasons == {"a": reason}


@pytest.mark.parametrize(
    ("signal", "vitals"),
    [
        (Signal.REMAP_PENDING, {"remap_pending": True}),
        (Signal.REMAP_FAILURE, {"remap_failed": True}),
        (Signal.RECOVERY_ACTION, {"recovery_action": 1}),
        (Signal.ECC, {"uncorrected_errors": 9}),
    ],
)
def test_a_reading_that_a_site_does_not_count(signal: Signal, vitals: dict[str, object]) -> None:
    node = Node(replace(POLICY, signals=frozenset(Signal) - {signal}))
    node.tell(**vitals)
    node.look(1)
    assert not node.reasons
    node.policy = POLICY
    node.tell(uncorrected_errors=10)
    node.look(1)
    assert node.reasons
    node.policy = HealthPolicy(signals=frozenset())
    node.look(1)
    assert not node.reasons


def test_a_failed_remapping_stays_through_a_reboot(node: Node) -> None:
    node.tell(remap_failed=True)
    node.look(1)
    node.tell(remap_failed=None)
    node.incarnation = "boot-2"
    node.look(DAY_S)
    assert node.reasons.keys() == {"a"}


def test_errors_that_were_there_before_the_first_look_are_no_news() -> None:
    node = Node()
    node.devices["c"] = Device("c", 2, "x", 1)
    node.vitals["c"] = Vitals("c", uncorrected_errors=7)
    node.look(1)
    assert not node.reasons


def test_errors_counted_since_a_boot_are_news(node: Node) -> None:
    node.tell(uncorrected_errors=3)
    node.state = HealthState()
    node.look(1)
    node.incarnation = "boot-2"
    node.look(1)
    assert node.reasons == {"a": "3 uncorrectable ECC errors; needs a reset"}


def test_a_count_that_cannot_be_read_for_once_changes_nothing(node: Node) -> None:
    node.tell(uncorrected_errors=3)
    node.look(1)
    node.looks(301)
    assert not node.reasons
    for count in (None, 3):
        node.tell(uncorrected_errors=count)
        node.look(1)
        assert not node.reasons


def test_a_link_to_the_switches_that_went_down(node: Node) -> None:
    node.links = (Link("a", NVSWITCH, 18),)
    node.tell(nvlinks_up=18)
    node.look(1)
    node.tell(nvlinks_up=17)
    node.look(1)
    assert node.reasons == {"a": "17 of 18 NVLinks are up; needs a reset"}
    node.tell(nvlinks_up=18)
    node.look(1)
    node.looks(5)
    assert not node.reasons


def test_a_link_to_another_device_may_be_down_for_that_ones_fault(node: Node) -> None:
    node.links = (Link("a", "b", 4), Link("a", NVSWITCH, 2))
    node.tell(nvlinks_up=6)
    node.look(1)
    node.tell(nvlinks_up=2)
    node.look(1)
    assert not node.reasons


@pytest.mark.parametrize(
    ("more", "seconds", "faulty"), [(1000, 10, True), (990, 10, False), (500, 0.1, False)]
)
def test_a_flood_of_link_errors(node: Node, more: int, seconds: float, faulty: bool) -> None:
    node.tell(nvlink_errors=50)
    node.look(10)
    node.tell(nvlink_errors=50 + more)
    node.look(seconds)
    assert bool(node.reasons) is faulty


# ---- the rest ----


def test_unreadable_devices_may_not_be_given_out_nor_their_parts(node: Node) -> None:
    left = unreadable(node.scanned, "no driver")
    assert {(d.healthy, d.reason) for d in left.devices} == {(False, "no driver")}
    assert {(m.healthy, m.reason) for d in left.devices for m in d.migs} == {(False, "no driver")}
    assert left.problems == ("no driver",)


def test_a_time_without_looks_does_not_count_as_doing_well(node: Node) -> None:
    node.strike(xid(95))
    node.look()
    node.state = interrupted(node.state)
    node.look(400)
    assert node.reasons
    node.looks(300)
    assert not node.reasons


def test_looks_are_frequent_only_while_something_may_change(node: Node) -> None:
    def pause() -> float:
        return next_look_s(node.state, node.policy, now=node.now)

    assert pause() == CALM_S
    node.change("a", healthy=False)
    node.look(1)
    assert pause() == 2
    node.look(60)
    assert pause() == CALM_S
    node.change("a", healthy=True)
    node.look(1)
    assert pause() == 5
    node.look(4.5)
    assert pause() == 1
    node.look(1)
    assert pause() == CALM_S


def test_what_is_offered_carries_no_vitals(node: Node) -> None:
    assert offered_inventory(node.scanned, node.state).vitals == ()
