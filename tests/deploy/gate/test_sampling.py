"""What a sample of a recording is: the same for a seed, never under a fifth, and in some days everything."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.sampling import LEAST, Sampler, sampler_of, share_of

ROOT = Path(__file__).resolve().parents[3]
ROWS = [f"row {number}" for number in range(23)]
DAYS = [(datetime(2026, 11, 26, tzinfo=UTC) + timedelta(days)).date().isoformat() for days in range(5)]


def test_a_seed_names_one_sample_whatever_the_order_of_the_rows() -> None:
    chosen = share_of(ROWS, "rows", DAYS[0])
    assert share_of(reversed(ROWS), "rows", DAYS[0]) == chosen
    assert share_of(ROWS, "rows", DAYS[1]) != chosen
    assert share_of(ROWS, "others", DAYS[0]) != chosen


@given(
    count=st.integers(0, 60),
    share=st.fractions(LEAST, 1),
    first=st.dates(max_value=date(9999, 12, 1)),
)
def test_a_share_is_never_less_than_it_says_and_days_in_a_row_take_everything(
    count: int, share: Fraction, first: date
) -> None:
    keys = [str(number) for number in range(count)]
    days = [first + timedelta(number) for number in range(5)]
    samples = [share_of(keys, "rows", day.isoformat(), share) for day in days]
    assert all(len(sample) >= count * share for sample in samples)
    assert set().union(*samples) == set(keys)


@pytest.mark.parametrize("seed", ["20261126", "any words", "7"])
def test_any_text_is_a_seed(seed: str) -> None:
    chosen = share_of(ROWS, "rows", seed)
    assert chosen == share_of(ROWS, "rows", seed)
    assert len(chosen) == 5


def test_a_share_below_a_fifth_is_refused() -> None:
    with pytest.raises(ValueError, match="a share of 1/6 of rows: it must be from 1/5 to 1"):
        share_of(ROWS, "rows", DAYS[0], Fraction(1, 6))


def test_the_seed_is_the_day_in_utc_and_is_handed_on() -> None:
    environment = {"TONNAGE_SAMPLE": "day"}
    late = datetime(2026, 11, 26, 23, 30, tzinfo=timezone(timedelta(hours=-5)))
    sampler = sampler_of(environment, late)
    assert (sampler.seed, sampler.everything) == ("2026-11-27", False)
    assert sampler_of(environment, late + timedelta(days=1)).seed == "2026-11-27"


@pytest.mark.parametrize("mode", ["", "all"])
def test_who_does_not_ask_for_a_sample_gets_everything(mode: str) -> None:
    sampler = sampler_of({"TONNAGE_SAMPLE": mode}, datetime.now(UTC))
    assert sampler.items("rows", ROWS) == ROWS
    assert sampler.taken == {}


def test_another_mode_is_refused() -> None:
    with pytest.raises(pytest.UsageError, match="TONNAGE_SAMPLE is 'some': it must be 'day' or 'all'"):
        sampler_of({"TONNAGE_SAMPLE": "some"}, datetime.now(UTC))


def test_rows_that_a_test_takes_keep_their_order_and_the_rest_is_counted_and_listed() -> None:
    sampler = Sampler("2026-11-26", everything=False)
    taken = sampler.items("rows", ROWS)
    assert taken == [row for row in ROWS if row in taken]
    assert sampler.summary() == "sampled with TONNAGE_SEED=2026-11-26: 5 of 23 rows"
    assert set(sampler.listing().splitlines()) >= set(ROWS) - set(taken)
    assert not set(sampler.listing().splitlines()) & set(taken)


PYTEST = (sys.executable, "-m", "pytest")
"""Without plugins of others: they take most of its time to start."""
CONFIG = """\
[pytest]
pythonpath = {tests}
markers = sampled: a row
filterwarnings = error
"""
MODULE = """\
import pytest


@pytest.mark.sampled("rows of a table")
@pytest.mark.parametrize("row", range(10))
def test_row(row):
    assert row < 10


def test_rows(sample):
    assert len(sample.items("rows of a loop", range(10))) == (2 if sample.seed == "2026-11-26" else 10)


def test_other():
    pass
"""


@pytest.mark.parametrize("workers", ["1", "2"], ids=["in one process", "with two workers"])
@pytest.mark.parametrize(("sample", "passed"), [("day", 4), ("all", 12)])
def test_a_run_says_what_it_samples_and_lists_the_rest(
    tmp_path: Path, workers: str, sample: str, passed: int
) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_rows.py").write_text(MODULE)
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    left_out = tmp_path / "left-out.txt"
    config = CONFIG.format(tests=ROOT / "tests")
    (tmp_path / "pytest.ini").write_text(config)
    done = subprocess.run(
        [*PYTEST, "-q", "--workers", workers, "--left-out", left_out, folder],
        cwd=tmp_path,
        env={
            "PATH": "",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "TONNAGE_SAMPLE": sample,
            "TONNAGE_SEED": "2026-11-26" if sample == "day" else "1",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{passed} passed" in done.stdout
    line = "sampled with TONNAGE_SEED=2026-11-26: 2 of 10 rows of a loop, 2 of 10 rows of a table; left out: "
    assert (line in done.stdout) is (sample == "day")
    assert left_out.exists() is (sample == "day")
    if sample == "day":
        assert len(left_out.read_text().splitlines()) == 1 + 2 * (2 + 8)


def test_every_other_scene_runs_and_every_kill_and_recording(tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "controller"
    folder.mkdir(parents=True)
    scenes = "import pytest\n\n\n@pytest.mark.parametrize('row', range(10))\ndef test_row(row):\n    pass\n"
    for name in ("test_scenes.py", "test_crash.py", "test_recorded_answers.py"):
        (folder / name).write_text(scenes)
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text(CONFIG.format(tests=ROOT / "tests"))
    environment = {"PATH": "", "TONNAGE_SAMPLE": "day", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [*PYTEST, "-q"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert "25 passed, 5 deselected" in done.stdout, done.stdout + done.stderr
    assert "5 of 10 scenes of the controller" in done.stdout
