"""What a lab step showed against what it must show. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tonnage.cli.lab.pattern_words import pattern_words
from tonnage.documents.lab.steps import Expectation, json_path, line_pattern
from tonnage.model.json import JsonValue, parsed_json

_SHOWN: Final = 120


@dataclass(frozen=True, slots=True)
class Observation:
    """What one run of a command left."""

    exit_status: int
    stdout: str = ""
    stderr: str = ""

    @property
    def text(self) -> str:
        """Everything that a terminal would have shown."""
        return "\n".join(part.rstrip("\n") for part in (self.stdout, self.stderr) if part)


@dataclass(frozen=True, slots=True)
class Check:
    """One expectation: a sentence, what was seen instead (empty when it came true), and whether it did."""

    expected: str
    seen: str
    passed: bool


def checks_of(expect: Expectation, observed: Observation) -> tuple[Check, ...]:
    """Every expectation, in the order of a reader's interest."""
    texts, lines, values = _texts(expect, observed), _lines(expect, observed), _values(expect, observed)
    return (_status(expect, observed), *texts, *lines, *values)


def _check(expected: str, passed: bool, actual: object) -> Check:
    return Check(expected, "" if passed else shortened(str(actual)), passed)


def shortened(text: str, limit: int = _SHOWN) -> str:
    """The text on one line, cut in the middle when it is longer than `limit`.

    >>> shortened("0123456789", 7), shortened("a b")
    ('012…789', 'a b')
    """
    line = " ⏎ ".join(text.splitlines())
    half = (limit - 1) // 2
    return line if len(line) <= limit else f"{line[:half]}…{line[-half:]}"


def _status(expect: Expectation, observed: Observation) -> Check:
    if expect.status == "nonzero":
        return _check("is refused (exit status above 0)", observed.exit_status != 0, "exit status 0")
    outcome = "succeeds" if expect.status == 0 else f"ends with exit status {expect.status}"
    last = observed.text.splitlines()[-1:] or [""]
    failure = f"exit status {observed.exit_status}: {last[0]}"
    return _check(outcome, observed.exit_status == expect.status, failure)


def _texts(expect: Expectation, observed: Observation) -> Iterator[Check]:
    text = observed.text
    for part in expect.contains:
        yield _check(f"shows {part}", part in text, text or "(nothing)")
    for part in expect.lacks:
        yield _check(f"does not show {part}", part not in text, text)
    for pattern in expect.matches:
        matches = line_pattern(pattern).search(text) is not None
        yield _check(pattern_words(pattern), matches, text or "(nothing)")


def _lines(expect: Expectation, observed: Observation) -> Iterator[Check]:
    lines = [line.rstrip() for line in observed.stdout.rstrip().splitlines()]
    if expect.equals is not None:
        expected = [line.rstrip() for line in expect.equals.rstrip().splitlines()]
        yield _check(
            f"prints exactly {shortened(expect.equals.rstrip())}", lines == expected, "\n".join(lines)
        )
    if expect.lines is not None:
        yield _check(_counted(expect.lines, "line"), len(lines) == expect.lines, f"{len(lines)} lines")
    if expect.distinct_lines is not None:
        distinct = len(set(lines))
        yield _check(
            _counted(expect.distinct_lines, "distinct line"),
            distinct == expect.distinct_lines,
            f"{distinct} distinct lines: {' ⏎ '.join(sorted(set(lines)))}",
        )


def _counted(count: int, noun: str) -> str:
    return f"prints {count} {noun}{'' if count == 1 else 's'}"


def _values(expect: Expectation, observed: Observation) -> Iterator[Check]:
    if not expect.values:
        return
    try:
        document = parsed_json(observed.stdout)
    except ValueError as error:
        yield Check("prints JSON", shortened(str(error)), False)
        return
    for path, expected in expect.values.items():
        actual = value_at(document, json_path(path))
        same = type(actual) is type(expected) and actual == expected
        shown = "absent" if isinstance(actual, Absent) else json.dumps(actual)
        yield _check(f"{path} is {json.dumps(expected)}", same, shown)


class Absent:
    """Nothing stands at the path (null is something)."""


def value_at(document: JsonValue, path: tuple[str | int, ...]) -> JsonValue | Absent:
    """The value at a path.

    >>> value_at({"items": [{"a": 1}]}, ("items", 0, "a"))
    1
    """
    value = document
    for step in path:
        if isinstance(value, dict):
            if not isinstance(step, str) or step not in value:
                return Absent()
            value = value[step]
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return Absent()
    return value
