"""No word of the library that reads a model reaches a person: each code of it is said in our own."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import pytest
from pydantic import Field

from tonnage.documents.yaml.source import Document, parse_document
from tonnage.model.errors import ConfigError


class _Colour(StrEnum):
    GREEN = "green"
    BLUE = "blue"


class _Inner(Document):
    a: int = 0


class _Fields(Document):
    text: Annotated[str, Field(max_length=3)] = ""
    name: Annotated[str, Field(min_length=1)] = "a"
    whole: Annotated[int, Field(ge=1, le=5)] = 1
    index: Annotated[int, Field(gt=0, lt=8)] = 1
    part: float = 0
    enabled: bool = False
    kind: Literal["Pod"] = "Pod"
    strategy: Literal["none", "single", "mixed"] = "none"
    colour: _Colour = _Colour.GREEN
    names: Annotated[tuple[str, ...], Field(max_length=1)] = ()
    some: Annotated[tuple[str, ...], Field(min_length=1)] = ("a",)
    inner: _Inner = _Inner()
    by_name: dict[str, int] = Field(default_factory=dict)


CASES = [
    ("text: 5", "a string is expected, not 5", "put it in quotes"),
    ("text: [a]", "a string is expected", ""),
    ("text: null", "a string is expected, not null", ""),
    ("text: long", '"long" cannot be used: it has more than 3 characters', ""),
    ("name: ''", "the string is empty", ""),
    ("whole: '1'", 'a whole number is expected, not "1"', ""),
    ("whole: 1.5", "a whole number is expected, not 1.5", ""),
    ("whole: 0", "0 cannot be used: the least is 1", ""),
    ("whole: 6", "6 cannot be used: the most is 5", ""),
    ("index: 0", "0 cannot be used: it must be more than 0", ""),
    ("index: 8", "8 cannot be used: it must be less than 8", ""),
    ("part: x", 'a number is expected, not "x"', ""),
    ("enabled: 'yes'", 'true or false is expected, not "yes"', ""),
    ("kind: Job", 'Pod is expected, not "Job"', "write Pod"),
    (
        "strategy: singel",
        'one of none, single, mixed is expected, not "singel"',
        "use single if you meant that",
    ),
    ("colour: 7", "one of green, blue is expected, not 7", ""),
    ("names: a", 'a list is expected, not "a"', ""),
    ("names: [a, b]", "the list has more than 1 entries", ""),
    ("some: []", "the list has fewer than 1 entries", ""),
    ("inner: a", 'a mapping is expected, not "a"', ""),
    ("byName: []", "a mapping is expected", ""),
]


@pytest.mark.parametrize(("text", "what", "remedy"), CASES, ids=[case[0] for case in CASES])
def test_what_is_wrong_is_said_in_plain_words(text: str, what: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_document(text, _Fields, source="f")
    [problem] = refused.value.problems
    assert (problem.what, problem.remedy) == (what, remedy)
    assert problem.where.endswith(text.partition(":")[0])
