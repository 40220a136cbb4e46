"""Indexes of a Job as its spec writes them: `1,3-5`.

Source: validateIndexesFormat; pkg/apis/batch/validation (v1.35).
"""

from __future__ import annotations

import re

from tonnage.decide.kubernetes.api.problems import quoted

_Interval = tuple[int, int]


class IndexesError(ValueError):
    """What is wrong with a text of indexes, in the server's words."""


def number_of_indexes(text: str, completions: int) -> int:
    """How many indexes a text names.

    >>> number_of_indexes("1,3-5", 10)
    4

    Raises:
        IndexesError: it is none, or names what is beyond `completions`.
    """
    last, total = None, 0
    for part in text.split(",") if text else ():
        first, end = _interval(part, completions)
        if last is not None and last >= first:
            raise IndexesError(_falling(last, first))
        last, total = end, total + end - first + 1
    return total


def _falling(before: int, after: int) -> str:
    return f"non-increasing order, previous: {before}, current: {after}"


def _interval(part: str, completions: int) -> _Interval:
    limits = part.split("-")
    if len(limits) > 2:
        needs = "an index interval can have at most two parts separated by '-'"
        raise IndexesError(f"the fragment {quoted(part)} violates the requirement that {needs}")
    ends = []
    for limit in limits:
        if not re.fullmatch("[+]?[0-9]+", limit):
            raise IndexesError(f"cannot convert string to integer for index: {quoted(limit)}")
        if int(limit) >= completions:
            raise IndexesError(f"too large index: {quoted(limit)}")
        ends.append(int(limit))
    if len(ends) > 1 and ends[0] >= ends[1]:
        raise IndexesError(_falling(*ends))
    return ends[0], ends[-1]
