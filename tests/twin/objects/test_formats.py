"""Texts of the formats that schemas of custom kinds name."""

from __future__ import annotations

import pytest

from tonnage.twin.apiserver.objects.formats import has_format, span_of

HOUR = 3600 * 10**9


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("-1.5h", -3 * HOUR // 2),
        ("2 days", 48 * HOUR),
        ("1 week 2 Hours", 170 * HOUR),
        ("about 3hrs, perhaps", None),
        ("about 3hr, perhaps", 3 * HOUR),
        ("5 years", None),
        ("soon", None),
    ],
)
def test_a_span_is_written_as_in_go_or_in_words(text: str, expected: int | None) -> None:
    assert has_format(text, "duration") is (expected is not None)
    if expected is not None:
        assert span_of(text) == expected
