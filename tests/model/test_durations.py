"""Spans of time as Go writes them."""

from __future__ import annotations

import pytest

from tonnage.model.durations import nanoseconds

LONGEST = (1 << 63) - 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("-0", 0),
        ("+0s", 0),
        ("1h30m", 5_400_000_000_000),
        ("-1.5s", -1_500_000_000),
        (".5us", 500),
        ("1.s", 1_000_000_000),
        ("1µs", 1000),
        ("1μs2ns", 1002),
        ("0000000000000000000000001ns", 1),
        ("0.3333333333333333333333h", 1_200_000_000_000),
        (f"{LONGEST}ns", LONGEST),
        (f"-{LONGEST + 1}ns", -LONGEST - 1),
    ],
)
def test_a_span_is_so_many_nanoseconds(text: str, expected: int) -> None:
    assert nanoseconds(text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 'invalid duration ""'),
        ("-", 'invalid duration "-"'),
        ("s", 'invalid duration "s"'),
        (".s", 'invalid duration ".s"'),
        ("1h x", 'unknown unit "h x" in duration "1h x"'),
        ("5", 'missing unit in duration "5"'),
        ("1s0", 'missing unit in duration "1s0"'),
        ("1.2.3s", 'missing unit in duration "1.2.3s"'),
        ("5d", 'unknown unit "d" in duration "5d"'),
        ("5µ", 'unknown unit "\\xc2\\xb5" in duration "5\\xc2\\xb5"'),
        ('5"\n\\', 'unknown unit "\\"\\x0a\\\\" in duration "5\\"\\x0a\\\\"'),
        (f"{LONGEST + 1}ns", f'invalid duration "{LONGEST + 1}ns"'),
        ("9" * 5000 + "s", f'invalid duration "{"9" * 5000}s"'),
        ("3000000h", 'invalid duration "3000000h"'),
    ],
)
def test_what_is_no_span_is_told_in_the_words_of_go(text: str, words: str) -> None:
    with pytest.raises(ValueError, match="time: ") as raised:
        nanoseconds(text)
    assert str(raised.value) == f"time: {words}"
