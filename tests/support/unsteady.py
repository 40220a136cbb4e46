"""A test that fails among many is tried once more, alone; if it passes then, the run says so and goes on.

Sixteen thousand tests with real processes, sockets and clocks share a machine: what fails once there is a
defect to mend, but no reason to throw away what all the others have shown. Where more than a few fail, every
failure counts, and nothing is tried again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Reports = list[Any]
"""What pytest says of one test: serialized reports of its set-up, call and tear-down."""


@dataclass
class SecondTries:
    """First failures, kept back until their second try; `limit` 0: none is tried again."""

    limit: int = 0
    _kept: dict[int, Reports] = field(default_factory=dict)
    _tried: dict[int, Reports] = field(default_factory=dict)

    def keep(self, place: int, reports: Reports) -> list[tuple[int, Reports]]:
        """What is to be reported now: this test's reports, nothing, or those of all that were kept back."""
        if place in self._tried or not has_failed(reports) or not self.limit:
            return [(place, reports)]
        self._kept[place] = reports
        if len(self._kept) <= self.limit:
            return []
        self.limit = 0
        return list(self._flush())

    def due(self) -> list[int]:
        """Places of the tests whose second try it is time for; they are asked for once."""
        self._tried = self._kept
        self._kept = {}
        return list(self._tried)

    def unsteady(self, place: int, reports: Reports) -> str | None:
        """What the first try of a test said that has passed now; None: no second try, or failed again."""
        if place not in self._tried or has_failed(reports):
            return None
        return "\n".join(str(text) for text in _complaints(self._tried[place]))

    def _flush(self) -> Iterable[tuple[int, Reports]]:
        kept, self._kept = self._kept, {}
        return kept.items()


def has_failed(reports: Reports) -> bool:
    """Whether one of a test's parts failed."""
    return any(report.get("outcome") == "failed" for report in reports)


def _complaints(reports: Reports) -> Iterable[object]:
    for report in reports:
        if report.get("outcome") == "failed":
            text = report.get("longrepr")
            crash = text.get("reprcrash") if isinstance(text, dict) else None
            yield f"{crash['path']}:{crash['lineno']}: {crash['message']}" if crash else text
