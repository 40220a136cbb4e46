"""Patterns as Go reads them."""

from __future__ import annotations

import pytest

from tonnage.decide.kubernetes.cel.function_library.go_regexps import compiled, regexp_problem


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^[a-z]+$", "abc", True),
        ("^[a-z]+$", "abc\n", False),
        ("(?m)^a$", "b\na\nc", True),
        (r"\d", "\u0663", False),
        (r"^\p{L}+$", "\u00e9", True),
        (r"^\PL$", "\u00e9", False),
        (r"^[^\p{Lu}]$", "A", False),
        (r"^\p{Greek}$", "\u03b1", True),
        ("[]a]", "]", True),
        ("[a[]b]", "[b]", True),
        (r"a\$[$]", "a$$", True),
        (r"^\Qa.b\E$", "axb", False),
        (r"^[[:alpha:]_-]+$", "a-_", True),
        ("^[[:^digit:]]$", "1", False),
        (r"^\x{41}\z", "A", True),
        ("^(?<name>a)$", "a", True),
        ("^(?i)(abort|warn)?$", "WARN", True),
        ("^((?i)mon|tues)day$", "MONday", True),
        ("^((?i)mon|tues)day$", "monDAY", False),
        (r"^\Q\C\E$", r"\C", True),
        (r"^(a|aa)+$", "a" * 5000 + "b", False),
    ],
)
def test_patterns_find_what_they_find_in_go(pattern: str, text: str, found: bool) -> None:
    assert regexp_problem(pattern) == ""
    assert (compiled(pattern).search(text) is not None) is found


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{3,2}", "invalid repeat count: `{3,2}`"),
        ("a++", "invalid nested repetition operator: `++`"),
        ("a**", "invalid nested repetition operator: `**`"),
        (r"\p{Foo}", r"invalid character class range: `\p{Foo}`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        ("[", "missing closing ]: `[`"),
        (r"a\C", r"invalid escape sequence: `\C`"),
        ("a(?<=b)>c", "invalid named capture: `(?<=b)>`"),
        ("(?<!b)", "invalid named capture: `(?<!b)`"),
        ("(?z)", "invalid or unsupported Perl syntax: `(?z`"),
        ("(?P<n-", "invalid named capture: `(?P<n-`"),
        ("+", "missing argument to repetition operator: `+`"),
        ("a)", "unexpected ): `a)`"),
        ("(a", "missing closing ): `(a`"),
        ("\\", "trailing backslash at end of expression: ``"),
    ],
)
def test_patterns_that_are_none_are_refused_in_gos_words(pattern: str, words: str) -> None:
    assert regexp_problem(pattern) == f"error parsing regexp: {words}"
