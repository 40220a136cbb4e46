"""When a CronJob's schedule comes round: five fields of cron in a time zone, a word, or `@every` so often.

Source: github.com/robfig/cron v3 (spec.go, constantdelay.go), as the CronJob controller uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from tonnage.decide.kubernetes.api.validation.workloads.cron_schedules import FIELDS
from tonnage.model.durations import nanoseconds

_WORDS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_YEARS: Final = 5
_HOUR: Final = timedelta(hours=1)
_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Every:
    """So many whole seconds after the last time."""

    pause: timedelta

    def after(self, moment: datetime) -> datetime | None:
        """The next time after a moment."""
        return moment.replace(microsecond=0) + self.pause


@dataclass(frozen=True, slots=True)
class Fields:
    """Minutes, hours, days, months and days of the week; `any_day`: one of the two kinds of days is `*`."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    zone: tzinfo

    def after(self, moment: datetime) -> datetime | None:
        """The next time after a moment; None when there is none within five years, such as a 30 February.

        An hour that the clocks skip never comes; one that they repeat comes twice.
        """
        now = moment.astimezone(self.zone).replace(second=0, microsecond=0)
        now = self._later(now, _MINUTE)
        last = now.year + _YEARS
        while now.year <= last:
            if now.month not in self.months:
                year, month = (now.year + 1, 1) if now.month == 12 else (now.year, now.month + 1)
                now = self._settled(datetime(year, month, 1, tzinfo=self.zone))
            elif not self._is_day(now):
                day = now.date() + timedelta(days=1)
                now = self._settled(datetime(day.year, day.month, day.day, tzinfo=self.zone))
            elif now.hour not in self.hours:
                now = self._later(now.replace(minute=0), _HOUR)
            elif now.minute not in self.minutes:
                now = self._later(now, _MINUTE)
            else:
                return now.astimezone(UTC)
        return None

    def _is_day(self, now: datetime) -> bool:
        day, weekday = now.day in self.days, now.isoweekday() % 7 in self.weekdays
        return day and weekday if self.any_day else day or weekday

    def _later(self, now: datetime, span: timedelta) -> datetime:
        return (now.astimezone(UTC) + span).astimezone(self.zone)

    def _settled(self, wall: datetime) -> datetime:
        """A wall time as it is: midnight may be one that the clocks skip."""
        return wall.astimezone(UTC).astimezone(self.zone)


Schedule = Every | Fields


def schedule_of(text: str, zone: tzinfo) -> Schedule:
    """A schedule that has been found to be right (`schedule_problem`).

    >>> str(schedule_of("*/15 * * * *", UTC).after(datetime(2026, 1, 1, 12, 15, tzinfo=UTC)))
    '2026-01-01 12:30:00+00:00'
    """
    if text.startswith("@every "):
        seconds = nanoseconds(text.removeprefix("@every ")) // 10**9
        return Every(timedelta(seconds=max(seconds, 1)))
    written = zip(_WORDS.get(text, text).split(), FIELDS, strict=True)
    fields = (_field(field, *bounds) for field, bounds in written)
    (minutes, _), (hours, _), (days, any_day), (months, _), (weekdays, any_weekday) = fields
    return Fields(minutes, hours, days, months, weekdays, any_day or any_weekday, zone)


def _field(text: str, least: int, most: int, names: Mapping[str, int]) -> tuple[frozenset[int], bool]:
    """The numbers that a field names, and whether it names all of them by a star."""
    numbers: set[int] = set()
    starred = False
    for term in text.split(","):
        if not term:
            continue
        span, _, step = term.partition("/")
        first, _, last = span.partition("-")
        if first in ("*", "?"):
            low, high = least, most
            starred = starred or int(step or 1) == 1
        else:
            low = _number(first, names)
            # `5/15` is every fifteenth from 5 on.
            high = _number(last, names) if last else (most if step else low)
        numbers.update(range(low, high + 1, int(step or 1)))
    return frozenset(numbers), starred


def _number(text: str, names: Mapping[str, int]) -> int:
    return names[text.lower()] if text.lower() in names else int(text)
