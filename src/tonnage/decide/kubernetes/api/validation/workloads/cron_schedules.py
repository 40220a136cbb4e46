"""The grammar of a CronJob's schedule: five fields of cron, or a word such as `@hourly`.

Source: github.com/robfig/cron v3, parser.go, as CronJob validation uses it.
"""

from __future__ import annotations

import re
from typing import Final

from tonnage.model.durations import nanoseconds

_MONTH_NAMES: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS: Final = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_DAYS: Final = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
FIELDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
"""The least and most of each field, and what its numbers are called."""
_WORDS: Final = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})


def schedule_problem(schedule: str) -> str:
    """What is wrong with a schedule, empty when nothing is.

    >>> schedule_problem("*/5 * * * mon-fri")
    ''
    >>> schedule_problem("every day")
    'expected exactly 5 fields, found 2: [every day]'
    """
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        _, _, schedule = schedule.partition(" ")
    schedule = schedule.strip()
    if schedule.startswith("@"):
        return _word_problem(schedule)
    fields = schedule.split()
    if len(fields) != len(FIELDS):
        return f"expected exactly {len(FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]"
    for written, (least, most, names) in zip(fields, FIELDS, strict=True):
        for term in written.split(","):
            if term and (wrong := _term_problem(term, least, most, names)):
                return wrong
    return ""


def _word_problem(word: str) -> str:
    if word in _WORDS:
        return ""
    if word.startswith("@every "):
        try:
            nanoseconds(word.removeprefix("@every "))
        except ValueError as error:
            return f"failed to parse duration {word}: {error}"
        return ""
    return f"unrecognized descriptor: {word}"


def _term_problem(term: str, least: int, most: int, names: dict[str, int]) -> str:
    """A range such as `*`, `5`, `1-5` or `*/2`."""
    bounds, *steps = term.split("/")
    low_high = bounds.split("-")
    if low_high[0] in ("*", "?"):
        start, end = least, most
    else:
        if len(low_high) > 2:
            return f"too many hyphens: {term}"
        numbers = [_number(part, names) for part in low_high]
        for number in numbers:
            if isinstance(number, str):
                return number
        start, end = (int(numbers[0]), int(numbers[-1]))
    if len(steps) > 1:
        return f"too many slashes: {term}"
    step = 1
    if steps:
        step_number = _number(steps[0], {})
        if isinstance(step_number, str):
            return step_number
        step = step_number
        if len(low_high) == 1:
            end = most
    return _range_problem(term, (start, end, step), (least, most))


def _range_problem(term: str, span: tuple[int, int, int], bounds: tuple[int, int]) -> str:
    (start, end, step), (least, most) = span, bounds
    if start < least:
        return f"beginning of range ({start}) below minimum ({least}): {term}"
    if end > most:
        return f"end of range ({end}) above maximum ({most}): {term}"
    if start > end:
        return f"beginning of range ({start}) beyond end of range ({end}): {term}"
    return f"step of range should be a positive number: {term}" if step == 0 else ""


def _number(written: str, names: dict[str, int]) -> int | str:
    """A number or its name; else the words of the parser that Kubernetes uses (robfig/cron)."""
    if written.lower() in names:
        return names[written.lower()]
    if not re.fullmatch(r"[-+]?[0-9]{1,18}", written):
        return f'failed to parse int from {written}: strconv.Atoi: parsing "{written}": invalid syntax'
    number = int(written)
    return f"negative number ({number}) not allowed: {written}" if number < 0 else number
