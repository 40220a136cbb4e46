"""Every problem of a document at once, each with its place; nothing that a hostile text can exhaust."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, field_validator

from tonnage.documents.yaml.reader import TextPosition, field_path, parse_yaml, parse_yaml_all
from tonnage.documents.yaml.source import Document, DocumentFieldError, parse_document
from tonnage.model.errors import ConfigError, Problem


class Item(Document):
    name: str
    replica_count: int = Field(ge=2)

    @field_validator("name")
    @classmethod
    def _no_spaces(cls, name: str) -> str:
        if " " in name:
            raise DocumentFieldError("a name has no spaces", why="it becomes a label", remedy="use a dash")
        return name


class Sample(Document):
    version: str = "v1"
    items: tuple[Item, ...] = ()
    either: Item | int | None = None
    by_name: dict[str, Item] = Field(default_factory=dict)


def problems(text: str) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        parse_document(text, Sample, source="f.yaml")
    return caught.value.problems


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a: [1, x, null, true, 1.5]", {"a": [1, "x", None, True, 1.5]}, id="plain scalars"),
        pytest.param(
            "a: yes\nb: off", {"a": True, "b": False}, id="YAML 1.1 booleans, as kubectl reads them"
        ),
        pytest.param("a: '1'\nb: \"yes\"", {"a": "1", "b": "yes"}, id="quoted scalars stay text"),
        pytest.param("a: 1:30\nb: 0:1", {"a": "1:30", "b": "0:1"}, id="no sexagesimal numbers"),
        pytest.param(
            "a: 1e3\nb: 0x10\nc: 010\nd: -3", {"a": 1000.0, "b": 16, "c": 8, "d": -3}, id="number forms"
        ),
        pytest.param("a: 2024-01-01", {"a": "2024-01-01"}, id="dates stay text"),
        pytest.param("1: a\ntrue: b", {"1": "a", "true": "b"}, id="keys become text"),
        pytest.param(
            "x: &x {a: 1, b: 2}\ny: {<<: *x, b: 3}",
            {"x": {"a": 1, "b": 2}, "y": {"a": 1, "b": 3}},
            id="merge keys",
        ),
        pytest.param("", None, id="nothing is null"),
        pytest.param('{"a": [1]}', {"a": [1]}, id="JSON is YAML"),
    ],
)
def test_values(text: str, expected: object) -> None:
    assert parse_yaml(text, source="f").value == expected


def test_marks_point_at_keys_and_items() -> None:
    located = parse_yaml("a:\n  - b: 1\n  - c: 2\n", source="f")
    assert located.marks["a", 1, "c"] == TextPosition(3, 5)
    assert located.where(("a", 1, "gone")) == "f:3:5 a[1].gone"


@pytest.mark.parametrize(
    ("text", "what", "place"),
    [
        pytest.param("a: 1\nb: 2\na: 3", "duplicate key", "f:3:1 a", id="duplicate key"),
        pytest.param("a: !!python/object:os.system x", "tag", "f:1:4 a", id="foreign tag"),
        pytest.param("a: .nan", ".nan is not a number", "f:1:4 a", id="not a number"),
        pytest.param("a: [1", "the text is not valid YAML", "f:", id="broken text"),
        pytest.param("\ta: 1", "the text is not valid YAML", "f:1:1", id="tab"),
        pytest.param("a: 1\n---\nb: 1", "more than one document", "f:3:1", id="two documents"),
        pytest.param("{[1]: 2}", "a key must be a plain word", "f:1:2", id="complex key"),
        pytest.param("a: &a [*a]", "the text is not valid YAML", "f:1:", id="recursive alias"),
        pytest.param("[" * 500 + "]" * 500, "the text is not valid YAML", "f:1:", id="nested deeply"),
        pytest.param("[" * 100_000, "", "f", id="nested absurdly in brackets"),
        pytest.param("- " * 100_000, "", "f", id="nested absurdly in dashes"),
        pytest.param("a: " + "9" * 5000, "is not a number", "f:1:4 a", id="number of 5000 digits"),
        pytest.param("x" * (5 << 20), "too large", "f", id="5 MiB"),
        pytest.param("a: \ud800", "the text cannot be read", "f", id="lone surrogate"),
    ],
)
def test_bad_text_has_a_place(text: str, what: str, place: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, source="f")
    (problem, *_) = caught.value.problems
    assert what in problem.what
    assert problem.where.startswith(place)


def test_bytes_that_are_no_text_are_named() -> None:
    """As they come out of a ConfigMap's `binaryData`."""
    text = b"\xc3\xa4: \x80".decode("utf-8", "surrogateescape")
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, source="f")
    (problem,) = caught.value.problems
    assert (problem.what, problem.why) == ("the text is not UTF-8", "byte 5 is 0x80")


def test_an_alias_bomb_ends() -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(ConfigError, match="more than 200,000 values, where an alias counts as"):
        parse_yaml("\n".join(lines), source="f")


def test_all_problems_at_once_each_with_its_line() -> None:
    text = "verson: v1\nitems:\n- name: a b\n  replicaCount: 1\n- replicacount: 3\n"
    faults = problems(text)
    assert [(p.where, p.what) for p in faults] == [
        ("f.yaml:3:3 items[0].name", "a name has no spaces"),
        ("f.yaml:4:3 items[0].replicaCount", "1 cannot be used: the least is 2"),
        ("f.yaml:5:3 items[1].name", "required field is missing"),
        ("f.yaml:5:3 items[1].replicaCount", "required field is missing"),
        ("f.yaml:5:3 items[1].replicacount", "unknown field replicacount"),
        ("f.yaml:1:1 verson", "unknown field verson"),
    ]
    assert faults[0].remedy == "use a dash"
    assert faults[4].remedy == "use replicaCount if you meant that"
    assert faults[5].remedy == "use version if you meant that"


@pytest.mark.parametrize("parent", ["either:", "byName: {x: ", "items: [", ""])
def test_nearest_key_is_found_through_unions_lists_and_mappings(parent: str) -> None:
    close = "}" if "{" in parent else "]" if "[" in parent else ""
    if not parent:
        assert problems("itms: []")[0].remedy == "use items if you meant that"
        return
    faults = problems(f"{parent} {{name: a, replicaCount: 2, nme: b}}{close}")
    assert any(p.what == "unknown field nme" and p.remedy == "use name if you meant that" for p in faults)


@pytest.mark.parametrize(
    "text", ["version: 1", "items: {}", "either: '4'", "items: [{name: a, replicaCount: 2.0}]"]
)
def test_no_silent_conversion(text: str) -> None:
    assert problems(text)


def test_a_scalar_document_is_refused() -> None:
    assert problems("just words")[0].where == "f.yaml:1:1"


def test_several_documents() -> None:
    assert [d.value for d in parse_yaml_all("a: 1\n---\n---\nb: 2\n", source="f")] == [
        {"a": 1},
        None,
        {"b": 2},
    ]


@given(st.text(max_size=200))
def test_any_text_parses_or_is_a_config_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert () in parse_yaml(text, source="f").marks


@given(st.lists(st.one_of(st.integers(0, 99), st.text(max_size=5)), max_size=5))
def test_field_path_is_never_ambiguous_about_indices(path: list[str | int]) -> None:
    assert isinstance(field_path(tuple(path)), str)


@pytest.mark.parametrize(
    ("text", "place", "remedy"),
    [
        pytest.param("a: 1\nb 2\n", "x.yaml:2:1", "with a colon", id="a colon is missing"),
        pytest.param("a:\n\t- b\n", "x.yaml:2:1", "spaces, never tabs", id="a tab"),
        pytest.param("a: 1\n b: 2\n", "x.yaml:2:", "with a colon in it in quotes", id="indented too far"),
        pytest.param("a: b: c\n", "x.yaml:1:5", "with a colon in it in quotes", id="two colons"),
        pytest.param("a: [1, 2\nb: 3\n", "x.yaml:2:", "close the list", id="an open list"),
    ],
)
def test_broken_yaml_is_placed_and_has_a_remedy(text: str, place: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, source="x.yaml")
    problem = caught.value.problems[0]
    assert problem.where.startswith(place)
    assert remedy in problem.remedy
