"""Regular expressions as Go's package has them, and its words on those that are none.

Source: the syntax of RE2, as Go's regexp/syntax has it.
"""

from __future__ import annotations

import re
from typing import Final

_FOREIGN: Final = re.compile(r"(?<!\\)(?:\\\\)*(\(\?(?:=|!|<=|<!|>|#|\())")
_BACK: Final = re.compile(r"(?<!\\)(?:\\\\)*(\\[1-9])")
_WORDS: Final = (
    ("unterminated character set", "missing closing ]: `{rest}`"),
    ("missing ), unterminated subpattern", "missing closing ): `{whole}`"),
    ("unbalanced parenthesis", "unexpected ): `{whole}`"),
    ("nothing to repeat", "missing argument to repetition operator: `{one}`"),
    ("multiple repeat", "invalid nested repetition operator: `{pair}`"),
    ("bad character range", "invalid character class range: `{range}`"),
    ("bad escape (end of pattern)", "trailing backslash at end of expression: ``"),
    ("bad escape", "invalid escape sequence: `{pair}`"),
)


def regexp_problem(pattern: str) -> str:
    """Why Go cannot compile a pattern; empty where it can."""
    if found := _FOREIGN.search(pattern):
        return f"error parsing regexp: invalid or unsupported Perl syntax: `{found[1]}`"
    if found := _BACK.search(pattern):
        return f"error parsing regexp: invalid escape sequence: `{found[1]}`"
    try:
        re.compile(_in_python(pattern))
    except re.error as error:
        at = error.pos or 0
        facts = {"rest": pattern[at:], "whole": pattern, "one": pattern[at : at + 1]}
        facts |= {"pair": pattern[max(at - 1, 0) : at + 1], "range": pattern[at : at + 3]}
        if error.msg.startswith("bad escape"):
            facts["pair"] = pattern[at : at + 2]
        told = next((words for said, words in _WORDS if error.msg.startswith(said)), "")
        return f"error parsing regexp: {told.format(**facts) or error.msg}"
    return ""


def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern that Go can compile, as Python has it."""
    return re.compile(_in_python(pattern))


def _in_python(pattern: str) -> str:
    """The pattern without what Go has and Python has not: classes by name, `\\z`, lazy flags."""
    plain = re.sub(r"\[:\^?[a-z]+:\]|\\[pP](?:\{\^?\w+\}|[A-Z])", "a", pattern)
    return plain.replace(r"\z", r"\Z").replace("(?U)", "").replace(r"\Q", "").replace(r"\E", "")
