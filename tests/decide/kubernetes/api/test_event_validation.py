"""Events under their second name are held to more than those of the core."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.decide.kubernetes.api.problems import invalid_status
from tonnage.decide.kubernetes.api.validate import validate_create, validate_update
from tonnage.twin.apiserver.versions.events import renamed_event, stored_event
from tonnage.wire.schema import KindRow, load_schema

_MOMENT = "2026-01-01T00:00:00.000000Z"
GOOD: dict[str, Any] = {
    "metadata": {"name": "e", "namespace": "lab", "resourceVersion": "1"},
    "eventTime": _MOMENT,
    "reportingComponent": "example.com/c",
    "reportingInstance": "i",
    "action": "Act",
    "reason": "Why",
    "type": "Normal",
    "message": "hello",
    "involvedObject": {"kind": "Pod", "namespace": "lab", "name": "p"},
}


def _row(group: str) -> KindRow:
    kind_type = load_schema().kind(group, "v1", "Event")
    assert kind_type is not None
    return kind_type


CORE, RENAMED = _row(""), _row("events.k8s.io")


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        pytest.param({}, (), id="a good one"),
        pytest.param({"eventTime": None}, ("eventTime: Required value",), id="without its time"),
        pytest.param(
            {"type": "Odd"}, ('type: Invalid value: "": has invalid value: Odd',), id="of an odd type"
        ),
        pytest.param(
            {"count": 2, "firstTimestamp": "2026-01-01T00:00:00Z", "source": {"host": "h"}},
            tuple(
                f'{key}: Invalid value: "": needs to be unset'
                for key in ("firstTimestamp", "count", "source")
            ),
            id="with what only old ones have",
        ),
        pytest.param(
            {"series": {"count": 1}},
            (
                'series.count: Invalid value: "": should be at least 2',
                "series.lastObservedTime: Required value",
            ),
            id="with a series of one",
        ),
        pytest.param(
            {"reportingComponent": "a b"},
            ("reportingController: Invalid value",),
            id="whose reporter is named badly",
        ),
        pytest.param({"involvedObject": {"namespace": "other"}}, (), id="about another namespace"),
        pytest.param(
            {"involvedObject": {}},
            ('involvedObject.namespace: Invalid value: "": does not match event.namespace',),
            id="about no namespace",
        ),
    ],
)
def test_a_new_renamed_event(change: dict[str, Any], refused: tuple[str, ...]) -> None:
    errors = validate_create(RENAMED, {**GOOD, **change})
    assert len(errors) == len(refused)
    for error, words in zip(errors, refused, strict=True):
        assert str(error).startswith(words)


def test_a_core_event_takes_what_a_renamed_one_does_not() -> None:
    body = {**GOOD, "type": "Odd", "count": 2, "series": {"count": 1}}
    assert validate_create(CORE, body) == ()
    assert [str(one) for one in validate_create(CORE, {"metadata": {"namespace": "default"}})] == [
        "metadata.name: Required value: name or generateName is required"
    ]


def test_of_a_renamed_event_only_the_series_goes_on() -> None:
    series = {**GOOD, "series": {"count": 2, "lastObservedTime": _MOMENT}}
    assert validate_update(RENAMED, series, GOOD) == ()
    other = {**GOOD, "reason": "R", "related": {"name": "n"}, "eventTime": None}
    shown = (
        '{"Kind":"","Namespace":"","Name":"n","UID":"","APIVersion":"","ResourceVersion":"","FieldPath":""}'
    )
    assert [str(one) for one in validate_update(RENAMED, other, GOOD)] == [
        'reason: Invalid value: "R": field is immutable',
        'reason: Invalid value: "R": field is immutable',
        "eventTime: Invalid value: null: field is immutable",
        f"related: Invalid value: {shown}: field is immutable",
    ]
    assert validate_update(CORE, other, GOOD) == ()


def test_refusals_name_the_kind_of_the_core() -> None:
    message = str(invalid_status(RENAMED, "e", validate_create(RENAMED, {**GOOD, "type": ""}))["message"])
    assert message.startswith('Event "e" is invalid: ')


def test_the_second_name_leaves_out_what_nobody_said() -> None:
    shown = renamed_event({"apiVersion": "v1", "reportingComponent": "", "reportingInstance": ""})
    assert shown == {"apiVersion": "events.k8s.io/v1", "eventTime": None}
    event = stored_event({"apiVersion": "events.k8s.io/v1", "note": "n"})
    assert event == {"apiVersion": "v1", "message": "n", "reportingComponent": "", "reportingInstance": ""}
