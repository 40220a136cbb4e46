"""Which errors and readings take a device out of scheduling, and whom they concern."""

from __future__ import annotations

import pytest

from support.watched_node import DAY_S, Node, xid
from tonnage.model.catalog.xids import xids
from tonnage.model.devices.health import FaultClass, HealthPolicy


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
