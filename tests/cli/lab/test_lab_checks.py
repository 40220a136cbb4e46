"""Expectations of lab steps against what was seen."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tonnage.cli.lab.checks import Absent, Observation, checks_of, value_at
from tonnage.cli.lab.pattern_words import pattern_words
from tonnage.cli.locations.labs_and_scenarios import labs_folder
from tonnage.documents.lab.steps import Expectation

JSON = '{"status": {"phase": "Running", "n": 4, "on": true, "nothing": null}, "labels": {"a.b/c": "d"}}'


@pytest.mark.parametrize(
    ("expect", "seen", "passed"),
    [
        pytest.param({}, Observation(0), True, id="success by default"),
        pytest.param({}, Observation(1), False, id="failure by default"),
        pytest.param({"status": 1}, Observation(1), True, id="a wanted status"),
        pytest.param({"status": 1}, Observation(2), False, id="another status"),
        pytest.param({"status": "nonzero"}, Observation(2), True, id="any refusal"),
        pytest.param({"status": "nonzero"}, Observation(0), False, id="no refusal"),
        pytest.param({"contains": ["b"]}, Observation(0, "abc"), True, id="text on stdout"),
        pytest.param({"contains": ["b"]}, Observation(0, "", "abc"), True, id="text on stderr"),
        pytest.param({"contains": ["b", "x"]}, Observation(0, "abc"), False, id="one of two texts"),
        pytest.param({"lacks": ["b"]}, Observation(0, "abc"), False, id="unwanted text"),
        pytest.param({"lacks": ["x"]}, Observation(0, "abc"), True, id="no unwanted text"),
        pytest.param({"matches": ["^b.$"]}, Observation(0, "a\nbc\n"), True, id="a line matches"),
        pytest.param({"matches": ["^c"]}, Observation(0, "a\nbc\n"), False, id="no line matches"),
        pytest.param(
            {"equals": "a\nb\n"}, Observation(0, "a  \nb\n\n"), True, id="blanks at ends do not count"
        ),
        pytest.param({"equals": "a"}, Observation(0, "a\nb"), False, id="a line too many"),
        pytest.param({"equals": ""}, Observation(0, "\n"), True, id="nothing"),
        pytest.param({"lines": 2}, Observation(0, "a\na\n"), True, id="lines"),
        pytest.param({"lines": 1}, Observation(0, ""), False, id="no line is not one line"),
        pytest.param({"distinctLines": 1}, Observation(0, "a\na\n"), True, id="distinct lines"),
        pytest.param({"distinctLines": 1}, Observation(0, "a\nb\n"), False, id="too many distinct lines"),
        pytest.param(
            {"distinctLines": 1}, Observation(0, "", "a"), False, id="stderr does not count as lines"
        ),
        pytest.param({"json": {"status.phase": "Running"}}, Observation(0, JSON), True, id="a value"),
        pytest.param({"json": {'labels["a.b/c"]': "d"}}, Observation(0, JSON), True, id="an odd key"),
        pytest.param({"json": {"status.n": "4"}}, Observation(0, JSON), False, id="a string is no number"),
        pytest.param({"json": {"status.on": 1}}, Observation(0, JSON), False, id="true is not one"),
        pytest.param({"json": {"status.nothing": None}}, Observation(0, JSON), True, id="null"),
        pytest.param({"json": {"status.absent": None}}, Observation(0, JSON), False, id="absent is not null"),
        pytest.param({"json": {"status.phase": "x"}}, Observation(0, "no JSON"), False, id="no JSON at all"),
    ],
)
def test_an_expectation_holds_or_not(expect: dict[str, Any], seen: Observation, passed: bool) -> None:
    checks = checks_of(Expectation.model_validate(expect, strict=False), seen)
    assert all(check.passed for check in checks) is passed


def test_a_failed_check_says_what_was_seen_and_a_passed_one_does_not() -> None:
    status, text = checks_of(Expectation(contains=("four",)), Observation(3, "", "first\nlast words\n"))
    assert (status.expected, status.seen) == ("succeeds", "exit status 3: last words")
    assert (text.expected, text.seen) == ("shows four", "first ⏎ last words")
    assert checks_of(Expectation(), Observation(0, "text"))[0].seen == ""


@pytest.mark.parametrize("path", [("status", 0), ("labels", "x"), (0,), ("status", "n", "deeper")])
def test_a_path_that_leads_nowhere_is_absent(path: tuple[str | int, ...]) -> None:
    assert isinstance(value_at({"status": {"n": 4}, "labels": {}}, path), Absent)


def test_a_pattern_that_was_not_seen_is_told_in_words() -> None:
    expect = Expectation(matches=(r"^gpu-[0-3] +nvidia\.com/gpu$",))
    (_, check) = checks_of(expect, Observation(0, "none"))
    assert check.expected == "has the line gpu-… nvidia.com/gpu"


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        pytest.param(r"^(8|16)$", "has the line 8 or 16", id="alternatives"),
        pytest.param(r"^1\ warning$|^2 warnings$", "has the line 1 warning or 2 warnings", id="whole lines"),
        pytest.param(r"(?i)x (a(b|c)+|d) y", "shows x … y", id="groups within groups"),
        pytest.param(r"a{2}[^,]+\d\b", "shows …", id="repetitions"),
        pytest.param(r"1g.10gb [(]\w+[)]", "shows 1g.10gb (…)", id="a dot that the author left bare"),
        pytest.param(r" +12 *$", "has a line that ends with 12", id="blanks at the ends"),
        pytest.param(r"^$", "has the line (nothing)", id="an empty line"),
        pytest.param(r"costs \$", "shows costs $", id="a dollar sign"),
        pytest.param(r"[\])]x\Qy", "shows …x…y", id="a bracket within a class"),
    ],
)
def test_patterns_in_words(pattern: str, words: str) -> None:
    assert pattern_words(pattern) == words


def _patterns(value: object) -> list[str]:
    if isinstance(value, dict):
        own = value.get("matches", [])
        return [*own, *(pattern for other in value.values() for pattern in _patterns(other))]
    return [pattern for other in value for pattern in _patterns(other)] if isinstance(value, list) else []


def test_no_lab_shows_a_regular_expression_to_its_reader() -> None:
    labs = [yaml.load(file.read_text(), yaml.CSafeLoader) for file in labs_folder().glob("*/lab.yaml")]
    words = [pattern_words(pattern) for pattern in _patterns(labs)]
    assert len(words) > 50
    assert [text for text in words if any(sign in text for sign in ("\\", "^", "+)", ".*", "[0-9"))] == []
