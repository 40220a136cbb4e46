"""Which of many comparisons a run makes: a share of each recording that changes with the day.

A test whose cases are rows of one recording is marked `sampled("what the rows are")`; a test that goes
through rows by itself takes those that the fixture `sample` gives it. `make` samples (TONNAGE_SAMPLE=day).
`make check-all` leaves nothing out, and neither does pytest called by hand: it runs what it is told to run.
The seed (TONNAGE_SEED) is the date in UTC. It is handed on, so that what follows takes the same share.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Final, TypeVar

import pytest

LEAST: Final = Fraction(1, 5)
MODE: Final = "TONNAGE_SAMPLE"
SEED: Final = "TONNAGE_SEED"
MARKER: Final = "sampled"
_DAY: Final = "day"
_ALL: Final = "all"
T = TypeVar("T")


def share_of(keys: Iterable[str], name: str, seed: str, share: Fraction = LEAST) -> frozenset[str]:
    """The keys whose turn it is: never fewer than the share of them.

    The keys stand in a ring, in an order that depends on the name alone. Each day takes the piece that
    follows yesterday's, so that as many days as there are pieces take everything.
    """
    if not LEAST <= share <= 1:
        raise ValueError(f"a share of {share} of {name}: it must be from {LEAST} to 1")
    ring = sorted(set(keys), key=lambda key: _number(f"{name}/{key}"))
    size = math.ceil(len(ring) * share)
    start = _turn(seed) * size
    return frozenset(ring[(start + step) % len(ring)] for step in range(size))


def _turn(seed: str) -> int:
    """The days to a date, and some number for any other text."""
    try:
        return date.fromisoformat(seed).toordinal()
    except ValueError:
        return _number(seed)


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


@dataclass
class Sampler:
    """What this process samples, and what it has left out."""

    seed: str
    everything: bool
    taken: dict[str, set[str]] = field(default_factory=dict)
    left_out: dict[str, set[str]] = field(default_factory=dict)

    def keys(self, keys: Iterable[str], name: str, share: Fraction) -> frozenset[str]:
        """Those that are to be looked at; the rest is remembered as left out."""
        all_keys = frozenset(keys)
        chosen = all_keys if self.everything else share_of(all_keys, name, self.seed, share)
        if not self.everything:
            self.taken.setdefault(name, set()).update(chosen)
            self.left_out.setdefault(name, set()).update(all_keys - chosen)
        return chosen

    def items(
        self, name: str, items: Sequence[T], *, share: Fraction = LEAST, key: Callable[[T], str] = str
    ) -> list[T]:
        """The items whose turn it is, in their order."""
        chosen = self.keys(map(key, items), name, share)
        return [item for item in items if key(item) in chosen]

    def deselect(self, config: pytest.Config, tests: list[pytest.Item]) -> None:
        """Leave marked tests out whose turn it is not."""
        groups: dict[tuple[str, Fraction], set[str]] = {}
        for test in tests:
            if marker := test.get_closest_marker(MARKER):
                groups.setdefault(_group(marker), set()).add(test.nodeid)
        chosen = {key for (name, share), keys in groups.items() for key in self.keys(keys, name, share)}
        left_out = set().union(*groups.values()) - chosen
        gone = [test for test in tests if test.nodeid in left_out]
        if gone:
            tests[:] = [test for test in tests if test.nodeid not in left_out]
            config.hook.pytest_deselected(items=gone)

    def report(self) -> dict[str, tuple[list[str], list[str]]]:
        """By name what was taken and what was left out; plain, for it travels from workers."""
        return {name: (sorted(self.taken[name]), sorted(self.left_out[name])) for name in self.taken}

    def merge(self, report: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> None:
        """Add what a worker took and left out."""
        for name, (taken, left_out) in report.items():
            self.taken.setdefault(name, set()).update(taken)
            self.left_out.setdefault(name, set()).update(left_out)

    def summary(self) -> str:
        """One line: how many of what."""
        counts = [
            f"{len(taken)} of {len(taken) + len(self.left_out[name])} {name}"
            for name, taken in sorted(self.taken.items())
        ]
        return f"sampled with {SEED}={self.seed}: {', '.join(counts)}"

    def listing(self) -> str:
        """Everything left out, a line each below its name."""
        lines = [f"# {self.summary()}"]
        for name, keys in sorted(self.left_out.items()):
            lines += ["", f"# {name}", *sorted(keys)]
        return "\n".join(lines) + "\n"


def _group(marker: pytest.Mark) -> tuple[str, Fraction]:
    (name,) = marker.args
    return name, Fraction(marker.kwargs.get("share", LEAST))


def sampler_of(environment: MutableMapping[str, str], now: datetime) -> Sampler:
    """By what the environment says; the seed is written there, for the workers to find."""
    mode = environment.get(MODE) or _ALL
    if mode not in (_DAY, _ALL):
        raise pytest.UsageError(f"{MODE} is {mode!r}: it must be {_DAY!r} or {_ALL!r}")
    seed = environment[SEED] = environment.get(SEED) or now.astimezone(UTC).date().isoformat()
    return Sampler(seed, everything=mode == _ALL)


class SamplingPlugin:
    """Tells at the end of the run what was left out."""

    def __init__(self, config: pytest.Config) -> None:
        self.sampler = sampler_of(os.environ, datetime.now(UTC))
        self._config = config

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.sampler.taken:
            return
        file = self._config.rootpath / self._config.getoption("--left-out")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.sampler.listing())
        terminalreporter.write_line(f"{self.sampler.summary()}; left out: {file}; all: make check-all")
