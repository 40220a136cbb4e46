"""Spans of YAML: the characters of every value, wherever it stands."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tonnage.documents.yaml.spans import Parts

TEXT = """\
# über 😀
plain: 1
'quoted': "two"
list:
  - item   # said
  - {flow: [a, b]}
block: |
  text
nested:
  deep: &a {x: 1}
  same: *a
  merged: {<<: *a, y: 2}
---
second: true
"""


@pytest.mark.parametrize(
    ("path", "text", "place"),
    [
        (("plain",), "1", (2, 8)),
        (("quoted",), '"two"', (3, 11)),
        (("list", 0), "item", (5, 5)),
        (("list", 1, "flow"), "[a, b]", (6, 12)),
        (("list", 1, "flow", 1), "b", (6, 16)),
        (("block",), "|\n  text\n", (7, 8)),
        (("nested", "merged", "y"), "2", (12, 23)),
    ],
    ids=str,
)
def test_a_value_is_where_it_stands(path: tuple[str | int, ...], text: str, place: tuple[int, int]) -> None:
    part = Parts(TEXT).part(0, path)
    assert part is not None
    assert TEXT[part.value.start : part.value.end] == text
    assert (part.place.line, part.place.column) == place
    assert not part.shared


def test_what_goes_on_below_is_placed_at_its_key_and_ends_with_its_last_value() -> None:
    part = Parts(TEXT).part(0, ("list",))
    assert part is not None
    assert (part.place.line, part.place.column) == (4, 1)
    assert TEXT[part.value.start : part.value.end].endswith("{flow: [a, b]}")


@pytest.mark.parametrize(
    "path", [("nested", "deep", "x"), ("nested", "same"), ("nested", "merged", "x")], ids=str
)
def test_what_two_places_have_is_shared(path: tuple[str, ...]) -> None:
    part = Parts(TEXT).part(0, path)
    assert part is not None
    assert part.shared


def test_what_is_absent_is_placed_at_its_nearest_parent() -> None:
    parts = Parts(TEXT)
    assert parts.part(0, ("nested", "absent")) is None
    assert parts.place(0, ("nested", "absent", "more")).line == 9
    assert (parts.place(1, ("second",)).line, parts.place(7, ()).line) == (14, 1)


@given(st.dictionaries(st.text("abcü😀 -", max_size=5), st.text("abcü😀:# '\"\n", max_size=12), max_size=4))
def test_every_key_and_value_can_be_cut_out(value: dict[str, str]) -> None:
    text = yaml.safe_dump(value, allow_unicode=True)
    parts = Parts(text)
    for key, words in value.items():
        part = parts.part(0, (key,))
        if part is not None and part.style in ("", "'", '"'):
            assert yaml.load(text[part.value.start : part.value.end], yaml.CSafeLoader) == words or not words
