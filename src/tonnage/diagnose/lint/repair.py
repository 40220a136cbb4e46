"""Repairs made until none is left, each result read again before it counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tonnage.diagnose.lint.fix import Repair, repaired, repairs
from tonnage.diagnose.lint.lint import Given, lint
from tonnage.diagnose.lint.sheet import Sheet

_MOST_ROUNDS: Final = 4
"""One repair may bring another to light."""


def repaired_texts(texts: Sequence[tuple[str, str]], given: Given) -> dict[str, str]:
    """The texts that change, by their names. A file that is no better for it stays as it was."""
    now = dict(texts)
    spoilt: set[str] = set()
    for _ in range(_MOST_ROUNDS):
        report = lint(now.items(), given)
        found: dict[str, list[Repair]] = {}
        for repair in repairs(report):
            if repair.file not in spoilt:
                found.setdefault(repair.file, []).append(repair)
        if not found:
            break
        tried = {name: repaired(now[name], edits) for name, edits in found.items()}
        worse = {name for name, text in tried.items() if _problems(name, text) > _problems(name, now[name])}
        spoilt |= worse
        now |= {name: text for name, text in tried.items() if name not in worse}
    return {name: text for name, text in now.items() if text != dict(texts)[name]}


def _problems(name: str, text: str) -> int:
    return len(Sheet(name, text).problems())
