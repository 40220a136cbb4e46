"""Sets of fields obey the laws of sets, and entries stand in the order in which upstream writes them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.ownership.comparison import compare, everything
from tonnage.twin.apiserver.ownership.fieldsets import (
    FieldSet,
    difference,
    intersection,
    ordered,
    paths,
    read_fields,
    union,
    without,
)
from tonnage.twin.apiserver.ownership.managed_fields import (
    ANCIENT,
    MOST_UPDATERS,
    UPDATE,
    Manager,
    Managers,
    Owned,
    capped,
    read_entries,
    written_entries,
)
from tonnage.twin.apiserver.ownership.merge import merge, taken_out
from tonnage.twin.apiserver.ownership.type_structures import BuiltIn, deduced
from tonnage.wire.schema import load_schema

_KEYS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', "v:1", 'v:"s"', "i:2"])
_INNER: st.SearchStrategy[FieldSet] = st.recursive(
    st.just({}),
    lambda inner: st.dictionaries(_KEYS, inner, min_size=1, max_size=3).flatmap(
        lambda held: st.sampled_from([held, {".": {}, **held}])
    ),
    max_leaves=12,
)
SETS: st.SearchStrategy[FieldSet] = st.dictionaries(_KEYS, _INNER, max_size=4)
_SCALARS = st.sampled_from(["x", "y", 1, True, None])
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)
OBJECTS: st.SearchStrategy[JsonObject] = st.dictionaries(st.sampled_from("abc"), _VALUES, max_size=3)


def members(fields: FieldSet) -> set[tuple[str, ...]]:
    return set(paths(fields))


@given(SETS, SETS)
def test_trees_are_sets_of_their_paths(one: FieldSet, other: FieldSet) -> None:
    ours, theirs = members(one), members(other)
    assert members(union(one, other)) == ours | theirs
    assert members(difference(one, other)) == ours - theirs
    assert members(intersection(one, other)) == ours & theirs


@given(SETS, SETS)
def test_without_takes_what_is_inside_too(one: FieldSet, other: FieldSet) -> None:
    gone = members(other)
    kept = {path for path in members(one) if not any(path[:end] in gone for end in range(1, len(path) + 1))}
    assert members(without(one, other)) == kept


@given(SETS)
def test_what_was_written_is_read_as_the_same(fields: FieldSet) -> None:
    written = ordered(fields)
    assert written == fields
    assert read_fields(written) == fields  # type: ignore[arg-type]


def test_numbers_are_ordered_as_numbers_and_names_stand_first() -> None:
    found = ordered({'k:{"port":100}': {}, 'k:{"port":20}': {}, 'v:"a"': {}, "v:3": {}, "f:z": {}, ".": {}})
    assert list(found) == [".", "f:z", 'k:{"port":20}', 'k:{"port":100}', "v:3", 'v:"a"']


@given(OBJECTS, OBJECTS)
def test_who_changes_an_object_owns_what_differs(old: JsonObject, new: JsonObject) -> None:
    change = compare(deduced(), old, new)
    assert not members(change.removed) & members(change.written)
    if not (change.removed or change.modified or change.added):
        assert old == new


@given(OBJECTS, OBJECTS)
def test_applying_twice_is_applying_once(live: JsonObject, config: JsonObject) -> None:
    merged = merge(deduced(), live, config)
    assert merge(deduced(), merged, config) == merged


@given(OBJECTS)
def test_an_object_without_all_of_its_fields_is_empty(value: JsonObject) -> None:
    fields = {key: held for key, held in everything(deduced(), value).items() if key != "."}
    assert not taken_out(deduced(), value, fields)


def test_list_elements_are_told_apart_by_keys_and_their_defaults() -> None:
    shape = BuiltIn(load_schema()).type("core/v1.Container")
    change = compare(
        shape,
        {"ports": [{"containerPort": 80, "protocol": "TCP"}]},
        {"ports": [{"containerPort": 80, "name": "http"}]},
    )
    assert members(change.removed) == {("f:ports", 'k:{"containerPort":80,"protocol":"TCP"}', "f:protocol")}
    assert members(change.added) == {("f:ports", 'k:{"containerPort":80,"protocol":"TCP"}', "f:name")}


def test_entries_stand_by_operation_then_time_then_name() -> None:
    rows = [("b", "Update", 1), ("a", "Update", 2), ("c", "Apply", 3), ("a", "Update", 1)]
    managers: Managers = {
        Manager(name, operation, "" if operation == "Apply" else "v1", str(index)): Owned(
            {"f:a": {}}, "v1", f"2026-01-01T00:00:0{second}Z"
        )
        for index, (name, operation, second) in enumerate(rows)
    }
    entries = written_entries(managers)
    told = [(entry["manager"], entry["time"][-2]) for entry in entries if isinstance(entry, dict)]  # type: ignore[index]
    assert told == [("c", "3"), ("a", "1"), ("b", "1"), ("a", "2")]
    assert read_entries(entries).keys() == managers.keys()


def test_the_oldest_of_too_many_writers_become_one() -> None:
    managers: Managers = {
        Manager(f"w{number:02}", UPDATE, "v1"): Owned(
            {f"f:{number}": {}}, "v1", f"2026-01-01T00:00:{number:02}Z"
        )
        for number in range(MOST_UPDATERS + 3)
    }
    left = capped(managers)
    assert len(left) == MOST_UPDATERS
    ancient = left[Manager(ANCIENT, UPDATE, "v1")]
    assert ancient.fields.keys() == {"f:0", "f:1", "f:2", "f:3"}
    assert ancient.time == "2026-01-01T00:00:03Z"
