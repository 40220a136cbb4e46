"""Repairs made until none is left, each result read again before it counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.diagnose.lint.fix import Repair, repaired, repairs
from tonnage.diagnose.lint.lint import LintContext, LintReport, lint
from tonnage.diagnose.lint.sheet import Sheet

_MOST_ROUNDS: Final = 4
"""One repair may bring another to light."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """The texts that change, by their names, and what is found before and after."""

    sheets: Mapping[str, Sheet]
    before: LintReport
    after: LintReport


def repaired_texts(sheets: Sequence[Sheet], context: LintContext) -> Repaired:
    """What repairs make of texts. A file that is no better for it stays as it was."""
    now = {sheet.name: sheet for sheet in sheets}
    before = report = lint(sheets, context)
    spoilt: set[str] = set()
    for _ in range(_MOST_ROUNDS):
        by_file: dict[str, list[Repair]] = {}
        for repair in repairs(report):
            if repair.file not in spoilt:
                by_file.setdefault(repair.file, []).append(repair)
        if not by_file:
            break
        tried = {name: Sheet(name, repaired(now[name].text, edits)) for name, edits in by_file.items()}
        worse = {name for name, new in tried.items() if len(new.problems) > len(now[name].problems)}
        spoilt |= worse
        now |= {name: new for name, new in tried.items() if name not in worse}
        report = lint(now.values(), context)
    changed = {sheet.name: now[sheet.name] for sheet in sheets if now[sheet.name].text != sheet.text}
    return Repaired(changed, before, report)
