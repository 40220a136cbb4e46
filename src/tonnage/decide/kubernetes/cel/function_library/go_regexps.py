"""Regular expressions as Go's package has them, and its words on those that are none.

RE2, of which Go's package is a port, does both: no pattern takes it longer than the text is long.
Source: Go's regexp/syntax (parse.go).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_MOST_BYTES: Final = 16 << 20
_WORDS: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""What Go says for what RE2 says; the rest is said alike."""
_ONE_BYTE: Final = r"(?s)\A(?:\\Q.*?(?:\\E|\z)|\\[^CQ]|[^\\])*?\\C"
"""What RE2 has and Go has not."""


def regexp_problem(pattern: str) -> str:
    """Why Go cannot compile a pattern; empty where it can.

    >>> regexp_problem(r"\\p{Foo}"), regexp_problem("a{1001}")[25:]
    ('error parsing regexp: invalid character class range: `\\\\p{Foo}`', 'alid repeat count: `{1001}`')
    """
    import re2

    if compiled(_ONE_BYTE).search(pattern):
        return r"error parsing regexp: invalid escape sequence: `\C`"
    try:
        compiled(pattern)
    except re2.error as error:
        message, _, where = _text(error).partition(": ")
        if where in ("(?<=", "(?<!"):  # To Go the name of a group begins here.
            message, where = "invalid named capture group", pattern[pattern.index(where) :]
            where = where[: where.find(">") + 1] or where
        return f"error parsing regexp: {_WORDS.get(message, message)}: `{where}`"
    return ""


@lru_cache(maxsize=128)
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern that Go can compile, with the methods of a Python one.

    >>> bool(compiled(r"^[[:alpha:]]\\p{L}$").search("a\u00e9")), compiled("^a$").search("a\\n")
    (True, None)
    """
    import re2  # a megabyte, which a cluster without patterns does without

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_BYTES
    made: re.Pattern[str] = re2.compile(pattern, options)
    return made


def _text(error: Exception) -> str:
    message = error.args[0]
    return message.decode() if isinstance(message, bytes) else str(message)
