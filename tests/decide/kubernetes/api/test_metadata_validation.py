"""Metadata of changed objects: what the server demands of all kinds, and what their own rules say again."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.decide.kubernetes.api.encoding.scalars import read_micro_time
from tonnage.decide.kubernetes.api.validate import validate_create, validate_update
from tonnage.twin.apiserver.requests import RequestNotes
from tonnage.twin.apiserver.writing.owner_references import keep_owners_once
from tonnage.wire.schema import load_schema

_KINDS = {
    "Lease": ("coordination.k8s.io", 3),
    "ConfigMap": ("", 4),
    "LimitRange": ("", 3),
    "PodDisruptionBudget": ("policy", 2),
    "CSINode": ("storage.k8s.io", 4),
}


def _changed(kind: str, **metadata: Any) -> list[str]:
    row = load_schema().kind(_KINDS[kind][0], "v1", kind)
    assert row is not None
    before: Any = {"metadata": {"name": "n", "namespace": "lab", "uid": "u", "resourceVersion": "1"}}
    after: Any = {"metadata": {**before["metadata"], **metadata}}
    errors = validate_update(row, after, before)
    return [str(error) for error in errors if error.field.startswith("metadata")]


@pytest.mark.parametrize("kind", _KINDS)
def test_a_bad_label_is_told_as_often_as_it_is_found(kind: str) -> None:
    found = _changed(kind, labels={"a b": "c"})
    assert len(found) == _KINDS[kind][1]
    assert len(set(found)) == 1


@pytest.mark.parametrize("kind", ["Lease", "ConfigMap", "LimitRange"])
def test_finalizers_of_changed_objects_have_domains_or_are_standard(kind: str) -> None:
    words = '"bad": name is neither a standard finalizer name nor is it fully qualified'
    assert f"metadata.finalizers[0]: Invalid value: {words}" in _changed(kind, finalizers=["bad"])
    assert _changed(kind, finalizers=["a.b/c", "orphan"]) == []


@pytest.mark.parametrize(
    ("prefix", "is_good"),
    [("a-", True), ("a", True), ("a.", False), ("-", False), ("a.-", True), ("A", False)],
)
def test_prefixes_of_generated_names(prefix: str, is_good: bool) -> None:
    row = load_schema().kind("", "v1", "ConfigMap")
    assert row is not None
    obj: Any = {"metadata": {"generateName": prefix, "name": "good", "namespace": "lab"}}
    assert (not validate_create(row, obj)) is is_good


def test_a_disruption_budget_may_have_any_name_that_fits_a_path() -> None:
    row = load_schema().kind("policy", "v1", "PodDisruptionBudget")
    assert row is not None
    assert validate_create(row, {"metadata": {"name": "A_b", "namespace": "lab"}, "spec": {}}) == ()
    [error] = validate_create(row, {"metadata": {"name": "a%b", "namespace": "lab"}, "spec": {}})
    assert error.field == "metadata.name"


@pytest.mark.parametrize(
    ("text", "rest", "element"),
    [
        ("2026-01-01T00:00:00Z", "Z", ".000000"),
        ("2026-01-01T00:00:00.123Z", ".123Z", ".000000"),
        ("2026-01-01T00:00:00.123456789Z", "789Z", "Z07:00"),
    ],
)
def test_micro_times_have_six_digits(text: str, rest: str, element: str) -> None:
    words = f'cannot parse "{rest}" as "{element}"$'
    with pytest.raises(ValueError, match=words):
        read_micro_time(text)


def test_micro_times_are_kept_in_utc() -> None:
    assert read_micro_time("2026-01-01T02:00:00.123456+02:00") == "2026-01-01T00:00:00.123456Z"


@pytest.mark.parametrize(("admitted", "when"), [(False, ""), (True, " after mutating admission happens")])
def test_owners_named_twice_count_once(admitted: bool, when: str) -> None:
    owner: Any = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
    other: Any = {**owner, "controller": True}
    obj: Any = {"metadata": {"ownerReferences": [owner, other, owner, other]}}
    notes = RequestNotes()
    keep_owners_once(obj, notes, admitted=admitted)
    assert obj["metadata"]["ownerReferences"] == [owner, other]
    [warning] = notes.warnings
    assert warning.startswith(
        f".metadata.ownerReferences contains duplicate entries{when}; API server dedups"
    )
    assert warning.endswith("duplicate UID(s) observed: u, u")
