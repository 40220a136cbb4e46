"""The grammar of CronJob schedules, in the words of the server's library."""

from __future__ import annotations

import pytest

from tonnage.decide.kubernetes.api.validation.workloads.cron_schedules import schedule_problem


@pytest.mark.parametrize(
    "schedule",
    [
        "*/5 * * * *",
        "0 22 * * 1-5",
        "0,30 8-18/2 1 jan,JUL sun",
        "@hourly",
        "@every 1h30m",
        "TZ=UTC 0 0 * * ?",
        "5/15 * * * *",
    ],
)
def test_good_schedules(schedule: str) -> None:
    assert schedule_problem(schedule) == ""


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        ("every day", "expected exactly 5 fields, found 2: [every day]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("*/2/3 * * * *", "too many slashes: */2/3"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("@often", "unrecognized descriptor: @often"),
        ("@every soon", 'failed to parse duration @every soon: time: invalid duration "soon"'),
        ("@every 5d", 'failed to parse duration @every 5d: time: unknown unit "d" in duration "5d"'),
        ("@every 5", 'failed to parse duration @every 5: time: missing unit in duration "5"'),
    ],
)
def test_bad_schedules(schedule: str, why: str) -> None:
    assert schedule_problem(schedule) == why
