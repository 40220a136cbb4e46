"""Which driver errors make a device unusable, and when it may be used again."""

from __future__ import annotations

import pytest

from tonnage.decide.node.health import judged, marked, unreadable
from tonnage.model.devices import Device, Inventory, RawEvent, RawEventKind

TWO = Inventory((Device("a", 0, "x", 1), Device("b", 1, "x", 1)))


def xid(code: int, uuid: str = "a") -> RawEvent:
    return RawEvent(RawEventKind.XID, uuid, code)


@pytest.mark.parametrize("code", [13, 31, 43, 45, 68, 109])
def test_errors_of_a_program_leave_the_device_usable(code: int) -> None:
    assert not marked({}, xid(code), TWO)


def test_other_errors_mark_their_device_and_no_other() -> None:
    inventory, marks = judged(TWO, marked({}, xid(79), TWO))
    assert [(d.healthy, d.reason) for d in inventory.devices] == [(False, "Xid 79"), (True, "")]
    assert marks == {"a": "Xid 79"}


def test_the_first_error_stays_the_reason() -> None:
    assert marked(marked({}, xid(79), TWO), xid(48), TWO) == {"a": "Xid 79"}


def test_an_error_without_a_device_is_charged_to_all() -> None:
    assert marked({}, xid(79, ""), TWO).keys() == {"a", "b"}


def test_a_device_that_left_comes_back_unmarked() -> None:
    _, marks = judged(Inventory(TWO.devices[1:]), {"a": "Xid 79"})
    assert not marks


def test_unreadable_devices_may_not_be_given_out() -> None:
    left = unreadable(TWO, "no driver")
    assert [(d.uuid, d.healthy, d.reason) for d in left.devices] == [
        ("a", False, "no driver"),
        ("b", False, "no driver"),
    ]
    assert left.problems == ("no driver",)
