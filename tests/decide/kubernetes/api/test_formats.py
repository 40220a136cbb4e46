"""Texts of the formats that schemas of custom kinds name."""

from __future__ import annotations

import pytest

from tonnage.decide.kubernetes.api.custom.formats import has_format, span_of

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


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        ("bsonobjectid", ("507f1f77bcf86cd799439011",), ("x", "507f1f77bcf86cd79943901")),
        ("byte", ("YQ==", "YWJj"), ("", "a", "YQ")),
        ("cidr", ("1.2.3.4/8", "01.2.3.4/8", "::/128"), ("1.2.3.4", "1.2.3.4/33", "::/129", "1.2.3.4/x")),
        ("creditcard", ("4111111111111111", "4111-1111-1111-1111"), ("1", "4111111111111112")),
        ("date", ("2024-02-29",), ("2023-02-29", "2024-2-1", "20240201")),
        (
            "date-time",
            ("2020-01-01T00:00:00Z", "2020-01-01t23:59:59.5+01:00"),
            ("", "2020-01-01", "2020-01-01T24:00:00Z"),
        ),
        ("datetime", ("2020-01-01T00:00:00Z",), ("2020-01-01 00:00:00Z",)),
        ("email", ("a@b", "A <a@b.c>", '"A B" <a@b>'), ("a", "", "<a>", "a b@c")),
        ("hexcolor", ("#fff", "ABCDEF"), ("ff", "#ggg")),
        ("hostname", ("a", "a.bc", "9a.example"), ("", "a_b", "a..b", "a.b", "-a", "a" * 64)),
        ("ipv4", ("1.2.3.4", "01.2.3.4", "::ffff:1.2.3.4"), ("1.2.3", "::1", "")),
        ("ipv6", ("::1", "::ffff:1.2.3.4"), ("1.2.3.4", "::1%eth0", "x")),
        ("isbn", ("0321751043", "978-0321751041"), ("x", "0321751044")),
        ("isbn10", ("0321751043",), ("9780321751041",)),
        ("isbn13", ("9780321751041",), ("9780321751042",)),
        ("k8s-long-name", ("a.b",), ("A", "a..b", "a" * 254)),
        ("k8s-short-name", ("a-b",), ("A_", "a.b", "a" * 64)),
        ("mac", ("00:11:22:33:44:55", "0011.2233.4455"), ("00:11", "00:11:22:33:44:55:66")),
        ("rgbcolor", ("rgb(1,2,3)", "rgb( 1 , 2 , 255 )"), ("x", "rgb(1,2,300)")),
        ("ssn", ("111-11-1111", "111 11 1111"), ("1", "111111111")),
        ("uri", ("/a", "mailto:a", "http://a/b?c"), ("", "a", "http://a b", "http://%zz")),
        ("uuid", ("00000000-0000-0000-0000-000000000000",), ("x",)),
        ("uuid4", ("00000000-0000-4000-8000-000000000000",), ("00000000-0000-4000-0000-000000000000",)),
        ("nonsense", ("", "x"), ()),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_texts_are_of_a_format_or_not(form: str, good: tuple[str, ...], bad: tuple[str, ...]) -> None:
    assert [text for text in good if not has_format(text, form)] == []
    assert [text for text in bad if has_format(text, form)] == []
