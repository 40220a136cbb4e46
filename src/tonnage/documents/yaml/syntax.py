"""What is wrong with a text that is no YAML or nested too deeply, and what to write instead."""

from __future__ import annotations

from typing import Final

import yaml

from tonnage.model.errors import Problem

MAX_DEPTH: Final = 64
NO_YAML: Final = "the text is not valid YAML"
_SYNTAX_REMEDIES: Final = (
    ("could not find expected ':'", "write key: value, with a colon and a blank"),
    ("any token", "indent with spaces, never tabs; put a text that begins with @ or ` in quotes"),
    ("did not find expected key", "give the keys of one mapping the same indentation"),
    ("did not find expected '-' indicator", "give the items of one list the same indentation"),
    ("mapping values are not allowed", "put a text with a colon in it in quotes"),
    ("did not find expected ',' or ']'", "close the list with ]"),
    ("did not find expected ',' or '}'", "close the mapping with }"),
)


def syntax_problem(error: Exception, source: str) -> Problem:
    """Where a reader of YAML stopped, why, and what may help."""
    if isinstance(error, RecursionError):
        return Problem("nested too deeply", source, f"deeper than {MAX_DEPTH} levels")
    if isinstance(error, UnicodeEncodeError) and "\udc80" <= error.object[error.start] <= "\udcff":
        number = len(error.object[: error.start].encode("utf-8", "surrogateescape")) + 1
        why = f"byte {number} is {ord(error.object[error.start]) - 0xDC00:#04x}"
        return Problem("the text is not UTF-8", source, why)
    if not isinstance(error, yaml.MarkedYAMLError):
        return Problem("the text cannot be read", source, str(error).splitlines()[0][:200])
    unfinished = "could not find expected ':'" in str(error.problem)
    mark = error.context_mark if unfinished and error.context_mark else error.problem_mark
    mark = mark or error.context_mark
    where = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
    why = " ".join(part for part in (error.context, error.problem) if part)
    remedy = next((remedy for words, remedy in _SYNTAX_REMEDIES if words in why), "")
    return Problem(NO_YAML, where, why, remedy)
