"""Regular expressions as Go's package has them, and its words on those that are none.

Source: the syntax of RE2, as Go's regexp/syntax has it.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from itertools import zip_longest
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
_MOST_REPEATS: Final = 1000
_LAST: Final = 0x10FFFF
_SETTLED: Final = 0x32400
"""Beyond it there are no letters, and hardly any signs."""
_NAMED: Final = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": "\\x00-\\x7f", "blank": "\\t ",
    "cntrl": "\\x00-\\x1f\\x7f", "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~",
    "punct": "!-/:-@\\[-`{-~", "space": "\\t-\\r ", "upper": "A-Z", "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_NOT_NAMED: Final = {"alnum": "\\x00-/:-@\\[-`{-\\U0010ffff", "digit": "\\D", "space": "\\S", "word": "\\W"}
_CATEGORIES: Final = re.compile("[CLMNPSZ]|C[cfos]|L[lmotu]|M[cen]|N[dlo]|P[cdefios]|S[ckmo]|Z[lps]")
_SCRIPTS: Final = {
    "Arabic": "ARABIC ", "Cyrillic": "CYRILLIC ", "Greek": "GREEK ", "Han": "CJK UNIFIED",
    "Hangul": "HANGUL ", "Hebrew": "HEBREW ", "Hiragana": "HIRAGANA ", "Katakana": "KATAKANA ",
    "Latin": "LATIN ", "Thai": "THAI ",
}  # fmt: skip
"""How the names of a script's letters begin."""
_PART: Final = re.compile(
    r"""\\Q(?P<literal>.*?)(?:\\E|\Z)
      | (?P<property>\\[pP](?:\{\^?\w*\}|[A-Z]))
      | \\x\{(?P<code>[0-9A-Fa-f]{1,8})\}
      | (?P<repeat>\{(?P<least>\d+)(?:,(?P<most>\d*))?\})
      | (?P<named>\[:(?P<no>\^?)(?P<name>[a-z]+):\]) | (?P<open>\[\^?\]?)
      | (?P<nested>[*+?]\+) | \\. | .""",
    re.VERBOSE | re.DOTALL,
)
_AS_IN_PYTHON: Final = {"\\z": r"\Z", "(?U)": "", "$": r"\Z"}


def regexp_problem(pattern: str) -> str:
    """Why Go cannot compile a pattern; empty where it can.

    >>> regexp_problem(r"\\p{Foo}"), regexp_problem("a{1001}")[25:]
    ('error parsing regexp: invalid character class range: `\\\\p{Foo}`', 'alid repeat count: `{1001}`')
    """
    if found := _FOREIGN.search(pattern):
        return f"error parsing regexp: invalid or unsupported Perl syntax: `{found[1]}`"
    if found := _BACK.search(pattern):
        return f"error parsing regexp: invalid escape sequence: `{found[1]}`"
    try:
        re.compile(_in_python(pattern))
    except _GoError as error:
        return f"error parsing regexp: {error}"
    except re.error as error:
        at = error.pos or 0
        facts = {"rest": pattern[at:], "whole": pattern, "one": pattern[at : at + 1]}
        facts |= {"pair": pattern[max(at - 1, 0) : at + 1], "range": pattern[at : at + 3]}
        if error.msg.startswith("bad escape"):
            facts["pair"] = pattern[at : at + 2]
        told = next((words for said, words in _WORDS if error.msg.startswith(said)), "")
        return f"error parsing regexp: {told.format(**facts) or error.msg}"
    return ""


@lru_cache(maxsize=512)
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern that Go can compile, as Python has it.

    >>> bool(compiled(r"^[[:alpha:]]\\p{L}$").search("a\u00e9")), compiled("^a$").search("a\\n")
    (True, None)
    """
    return re.compile(_in_python(pattern), re.ASCII)


class _GoError(Exception):
    """What Go says of a pattern that Python would take."""


def _in_python(pattern: str) -> str:
    """The pattern with what Go has and Python has not (classes by name, `\\z`, `$`) in other words."""
    made: list[str] = []
    inside, one_line = False, re.search(r"\(\?[a-z]*m", pattern) is None
    for found in _PART.finditer(pattern.replace("(?U)", "").replace("(?<", "(?P<")):
        word = found[0]
        if not inside:
            _check_repeat(found)
        if found["literal"] is not None:
            word = re.escape(found["literal"])
        elif found["property"]:
            word = _property(word, inside=inside)
        elif found["code"]:
            word = f"\\U{int(found['code'], 16):08x}"
        elif inside and found["named"]:
            word = _class_named(found)
        elif inside:
            inside = not word.endswith("]")
            word = f"\\{word}" if word.startswith("[") else word
        elif found["open"]:
            inside = True
        elif one_line or found[0] != "$":
            word = _AS_IN_PYTHON.get(word, word)
        made.append(word)
    return "".join(made)


def _check_repeat(found: re.Match[str]) -> None:
    if found["nested"]:
        raise _GoError(f"invalid nested repetition operator: `{found[0]}`")
    counts = [int(one) for one in (found["least"], found["most"]) if one]
    if counts != sorted(counts) or max(counts, default=0) > _MOST_REPEATS:
        raise _GoError(f"invalid repeat count: `{found[0]}`")


def _class_named(found: re.Match[str]) -> str:
    wanted = (_NOT_NAMED if found["no"] else _NAMED).get(found["name"])
    if wanted is None:
        raise _GoError(f"invalid character class range: `{found[0]}`")
    return wanted


def _property(word: str, *, inside: bool) -> str:
    """Letters of a category or a script: `\\p{Lu}`, `\\PL`."""
    name = word[2:].strip("{}")
    negative = (word[1] == "P") != name.startswith("^")
    ranges = _letters(name.removeprefix("^"), negative=negative)
    if not ranges:
        raise _GoError(f"invalid character class range: `{word}`")
    return ranges if inside else f"[{ranges}]"


@cache
def _letters(name: str, *, negative: bool) -> str:
    """The letters of a category or a script as ranges of a class; empty where there is no such."""
    script = _SCRIPTS.get(name)
    if script is None and not _CATEGORIES.fullmatch(name):
        return ""
    if script is not None:
        members = [unicodedata.name(chr(code), "").startswith(script) for code in range(_SETTLED)]
    else:
        members = [unicodedata.category(chr(code)).startswith(name) for code in range(_SETTLED)]
    edges = [code for code in range(1, _SETTLED) if members[code] is not members[code - 1]]
    borders = [0, *edges] if members[0] is not negative else edges
    pairs = zip_longest(borders[::2], borders[1::2], fillvalue=_LAST + 1)
    return "".join(f"\\U{first:08x}-\\U{end - 1:08x}" for first, end in pairs)
