"""Which of a pod's labels rows carry: those whose name has a match of one of the patterns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from tonnage.decide.kubernetes.cel.function_library.go_regexps import compiled, regexp_problem
from tonnage.model.errors import Problem

MOST_PATTERNS: Final = 64
_LONGEST: Final = 1024


def pattern_problems(patterns: Iterable[str]) -> Iterator[Problem]:
    """What is wrong with each pattern that does not count."""
    for place, pattern in enumerate(patterns):
        if problem := _problem(place, pattern):
            remedy = "write an expression of RE2; the other expressions count"
            yield Problem(f"label pattern {pattern[:60]!r} is ignored", why=problem, remedy=remedy)


def usable_patterns(patterns: Iterable[str]) -> tuple[str, ...]:
    """Those that count. dcgm-exporter leaves out the others, too."""
    return tuple(pattern for place, pattern in enumerate(patterns) if not _problem(place, pattern))


def _problem(place: int, pattern: str) -> str:
    if place >= MOST_PATTERNS:
        return f"there are more than {MOST_PATTERNS}"
    if len(pattern) > _LONGEST:
        return f"it is longer than {_LONGEST} characters"
    return regexp_problem(pattern)


def chosen_labels(labels: Mapping[str, str], patterns: tuple[str, ...]) -> Mapping[str, str]:
    """Those whose name has a match anywhere. RE2 does not backtrack: no name or pattern holds it up.

    >>> chosen_labels({"app": "vllm", "batch.kubernetes.io/job-name": "a"}, ("^batch",))
    {'batch.kubernetes.io/job-name': 'a'}
    """
    return {name: value for name, value in labels.items() if _is_chosen(name, patterns)}


@lru_cache(maxsize=4096)
def _is_chosen(name: str, patterns: tuple[str, ...]) -> bool:
    return any(compiled(pattern).search(name) for pattern in patterns)
