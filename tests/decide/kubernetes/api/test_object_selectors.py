"""Label and field selectors."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.kubernetes.api.field_selectors import parse_fields
from tonnage.decide.kubernetes.api.selectors import (
    SelectorError,
    label_requirements,
    matches_labels,
    parse_labels,
)
from tonnage.wire.schema import KindRow, load_schema


def row(group: str, version: str, kind: str) -> KindRow:
    kind_type = load_schema().kind(group, version, kind)
    assert kind_type is not None
    return kind_type


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        pytest.param("", True, id="everything"),
        pytest.param("app=web", True, id="equal"),
        pytest.param("app==web,tier", True, id="equal and there"),
        pytest.param("app!=web", False, id="unequal"),
        pytest.param("zone!=a", True, id="unequal to what is not there"),
        pytest.param("app in (db, web)", True, id="one of"),
        pytest.param("app notin (db)", True, id="none of"),
        pytest.param("!zone", True, id="not there"),
        pytest.param("!app", False, id="there after all"),
        pytest.param("tier>1", True, id="more than"),
        pytest.param("tier<1", False, id="less than"),
    ],
)
def test_labels_match(selector: str, matches: bool) -> None:
    assert matches_labels(parse_labels(selector), {"app": "web", "tier": "2"}) is matches


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        pytest.param("a,,b", "found ',', expected: identifier after ','", id="two commas"),
        pytest.param("a in b", "unable to parse requirement: found 'b' expected: '('", id="no bracket"),
        pytest.param("=b", "found '=', expected: !, identifier, or 'end of string'", id="no key"),
    ],
)
def test_bad_label_selectors_are_a_bad_request(selector: str, text: str) -> None:
    with pytest.raises(SelectorError) as refusal:
        parse_labels(selector)
    assert (refusal.value.code, refusal.value.message) == (400, text)


@given(st.text(alphabet="ab=!(),<> inot/", max_size=20))
def test_any_text_is_a_selector_or_is_refused(text: str) -> None:
    with suppress(SelectorError):
        matches_labels(parse_labels(text), {"a": "b"})
    with suppress(SelectorError):
        assert all(
            parse_field.path == "metadata.name" for parse_field in parse_fields(row("", "v1", "Pod"), text)
        )


@given(
    st.dictionaries(st.sampled_from("abc"), st.sampled_from(["1", "2"])),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from(["1", "2"])),
)
def test_a_selector_object_matches_what_holds_all_its_labels(
    wanted: dict[str, str], labels: dict[str, str]
) -> None:
    selector: dict[str, Any] = {"matchLabels": wanted}
    assert matches_labels(label_requirements(selector), labels) is (wanted.items() <= labels.items())


POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "ml"},
    "spec": {"nodeName": "a100-0"},
    "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]},
}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        pytest.param("metadata.name=p", True, id="its name"),
        pytest.param("spec.nodeName=a100-0,status.phase!=Pending", True, id="its node and phase"),
        pytest.param("spec.nodeName=", False, id="unscheduled"),
        pytest.param("spec.hostNetwork=false", True, id="a flag that is not set"),
        pytest.param("status.podIP=10.0.0.1", True, id="its address"),
        pytest.param("status.podIPs=10.0.0.1", False, id="all its addresses, which nobody looks at"),
    ],
)
def test_fields_match(selector: str, matches: bool) -> None:
    fields = parse_fields(row("", "v1", "Pod"), selector)
    assert all(requirement.matches(POD) for requirement in fields) is matches


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        pytest.param(("", "v1", "Pod"), "field label not supported: spec.image", id="a pod's image"),
        pytest.param(
            ("apps", "v1", "Deployment"),
            '"spec.image" is not a known field selector: only "metadata.name", "metadata.namespace"',
            id="a kind without labels of its own",
        ),
    ],
)
def test_unknown_fields_are_refused(kind: tuple[str, str, str], text: str) -> None:
    with pytest.raises(SelectorError) as refusal:
        parse_fields(row(*kind), "spec.image=x")
    assert refusal.value.message == text


def test_events_are_selected_by_what_they_are_about() -> None:
    event: dict[str, Any] = {
        "involvedObject": {"kind": "Pod", "name": "p"},
        "type": "Warning",
        "reason": "Failed",
    }
    fields = parse_fields(row("", "v1", "Event"), "involvedObject.name=p,type=Warning,reason=Failed")
    assert all(requirement.matches(event) for requirement in fields)


@pytest.mark.parametrize(
    ("event", "source"),
    [
        pytest.param({"source": {"component": "a"}, "reportingComponent": "b"}, "a", id="the older field"),
        pytest.param({"reportingComponent": "b"}, "b", id="the newer one, where the older is not set"),
        pytest.param({"source": {}}, "", id="neither"),
    ],
)
def test_events_are_selected_by_their_source(event: dict[str, Any], source: str) -> None:
    (field,) = parse_fields(row("", "v1", "Event"), f"source={source}")
    assert field.matches(event)
