"""Which errors and readings take a device out of scheduling, whom they concern, and what brings it back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tonnage.decide.node.faults import HealthState, interrupted
from tonnage.decide.node.health import CALM_S, judged, looked, next_look_s, unreadable
from tonnage.decide.node.xid_faults import struck
from tonnage.model.catalog.xids import xids
from tonnage.model.devices import Device, Inventory, MigDevice, RawEvent, RawEventKind, Vitals
from tonnage.model.health import FaultClass, HealthPolicy, RecoveryAction, Signal
from tonnage.model.links import NVSWITCH, Link

POLICY = HealthPolicy(steady_s=5, recover_after_s=300)
DAY_S = 86_400


def mig(uuid: str, gi: int, ci: int = 0) -> MigDevice:
    return MigDevice(uuid, gi, "1g.10gb", gi, ci, 9728)


def xid(code: int, uuid: str = "a", gi: int | None = None, ci: int | None = None) -> RawEvent:
    return RawEvent(RawEventKind.XID, uuid, code, gi, ci)


class Node:
    """Two devices, `b` divided, and what is remembered of them while time goes by."""

    def __init__(self, policy: HealthPolicy = POLICY) -> None:
        self.policy = policy
        self.now = 1000.0
        self.state = HealthState()
        migs = (mig("b-1", 1), mig("b-2", 2), mig("b-2x", 2, 1))
        self.devices = {
            "a": Device("a", 0, "x", 1),
            "b": Device("b", 1, "x", 1, mig_enabled=True, migs=migs),
        }
        self.vitals = {"a": Vitals("a", uncorrected_errors=0), "b": Vitals("b")}
        self.links: tuple[Link, ...] = ()
        self.incarnation = "boot-1"
        self.look()

    @property
    def scanned(self) -> Inventory:
        vitals = tuple(self.vitals.values())
        return Inventory(
            tuple(self.devices.values()), links=self.links, vitals=vitals, incarnation=self.incarnation
        )

    def look(self, after: float = 0.0) -> None:
        self.now += after
        self.state = looked(self.state, self.scanned, self.policy, now=self.now)

    def looks(self, seconds: float) -> None:
        """Look every second for so long."""
        for _ in range(round(seconds)):
            self.look(1)

    def strike(self, event: RawEvent) -> None:
        self.state = struck(self.state, event, self.scanned, self.policy, now=self.now)

    def change(self, uuid: str, **facts: object) -> None:
        self.devices[uuid] = replace(self.devices[uuid], **facts)  # type: ignore[arg-type]

    def tell(self, **vitals: object) -> None:
        """What `a` says of itself from now on."""
        self.vitals["a"] = replace(self.vitals["a"], **vitals)  # type: ignore[arg-type]

    @property
    def reasons(self) -> dict[str, str]:
        """Why what is unhealthy is: devices and MIG devices by uuid."""
        found: dict[str, str] = {}
        for device in judged(self.scanned, self.state).devices:
            parts: tuple[Device | MigDevice, ...] = (device, *device.migs)
            found |= {each.uuid: each.reason for each in parts if not each.healthy}
        return found


@pytest.fixture
def node() -> Node:
    return Node()


# ---- Xids ----


@pytest.mark.parametrize("code", sorted(code for code, row in xids().items() if row.fault_class.harmless))
def test_errors_of_a_program_and_mere_information_leave_the_device_usable(node: Node, code: int) -> None:
    node.strike(xid(code))
    assert not node.reasons


@pytest.mark.parametrize("code", [13, 31, 43, 45, 68, 109])
def test_what_nvidia_ignores_is_ignored(code: int) -> None:
    assert xids()[code].fault_class.harmless


def test_other_errors_mark_their_device_and_no_other(node: Node) -> None:
    node.strike(xid(79))
    assert node.reasons == {"a": "Xid 79: GPU has fallen off the bus; needs a reboot of the node"}


def test_an_error_of_a_device_marks_all_its_parts(node: Node) -> None:
    node.strike(xid(48, "b"))
    assert node.reasons.keys() == {"b", "b-1", "b-2", "b-2x"}


@pytest.mark.parametrize(
    ("gi", "ci", "marked"),
    [
        pytest.param(1, 0, {"b-1"}, id="that one"),
        pytest.param(2, 1, {"b-2x"}, id="one of two compute instances"),
        pytest.param(2, None, {"b-2", "b-2x"}, id="all of a GPU instance"),
        pytest.param(7, None, {"b", "b-1", "b-2", "b-2x"}, id="an instance that is not known: the device"),
    ],
)
def test_an_error_of_a_mig_device_marks_it_alone(
    node: Node, gi: int, ci: int | None, marked: set[str]
) -> None:
    node.strike(xid(95, "b", gi, ci))
    assert node.reasons.keys() == marked


def test_an_error_of_nobody_known_is_charged_to_nobody(node: Node) -> None:
    node.strike(xid(79, ""))
    node.strike(xid(79, "gone"))
    assert not node.reasons


def test_an_unlisted_error_asks_for_a_reset(node: Node) -> None:
    node.strike(xid(999))
    assert node.reasons == {"a": "Xid 999; needs a reset"}
    node.looks(301)
    assert not node.reasons


def test_the_worst_error_is_the_reason(node: Node) -> None:
    node.strike(xid(48))
    node.strike(xid(79))
    node.strike(xid(95))
    assert node.reasons["a"].startswith("Xid 79")


def test_some_harmless_errors_count_when_they_come_again_within_a_day(node: Node) -> None:
    node.strike(xid(109))
    node.now += 0.5
    node.strike(xid(109))
    assert not node.reasons, "heard twice, it is one"
    node.now += DAY_S
    node.strike(xid(109))
    assert node.reasons == {"a": "Xid 109: context switch timeout; needs a reset"}


def test_after_more_than_a_day_it_is_the_first_again(node: Node) -> None:
    node.strike(xid(109))
    node.look(DAY_S + 1)
    node.strike(xid(109))
    assert not node.reasons


def test_what_comes_again_may_ask_for_more(node: Node) -> None:
    node.strike(xid(119))
    assert node.reasons["a"].endswith("needs a reset")
    node.now += 10
    node.strike(xid(119))
    assert node.reasons["a"].endswith("needs a reboot of the node")


@pytest.mark.parametrize(
    ("policy", "code", "usable"),
    [
        pytest.param(HealthPolicy(xids={79: FaultClass.APPLICATION}), 79, True, id="ignored by the site"),
        pytest.param(HealthPolicy(xids={13: FaultClass.RESET}), 13, False, id="heeded by the site"),
        pytest.param(HealthPolicy(signals=frozenset()), 79, True, id="no Xid counts"),
        pytest.param(HealthPolicy(every_xid=True), 13, False, id="every Xid counts"),
        pytest.param(
            HealthPolicy(signals=frozenset(), xids={79: FaultClass.RESET}), 79, False, id="but this one"
        ),
    ],
)
def test_a_site_decides_otherwise(policy: HealthPolicy, code: int, usable: bool) -> None:
    node = Node(policy)
    node.strike(xid(code))
    assert bool(node.reasons) is not usable


def test_a_site_that_thinks_again_frees_a_device(node: Node) -> None:
    node.strike(xid(81))
    assert node.reasons
    node.policy = HealthPolicy(xids={81: FaultClass.INFORMATION})
    node.look()
    assert not node.reasons


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
    assert judged(node.scanned, node.state).vitals == ()
