"""What containers have used so far, counted up, kept as JSON for the next start of the agent."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple, dataclass, field
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.node.pod_usage import Amount, Certainty, DeviceUse, DeviceUser, UsageCounter

_VERSION: Final = 1
MOST_USERS: Final = 20_000
_FIELDS: Final = 8
_LONGEST: Final = 512

CounterKey = tuple[UsageCounter, Certainty]


@dataclass(frozen=True, slots=True)
class UsageCounters:
    """By container and device. `since_s`, in seconds since 1970, is when counting began."""

    since_s: float
    counts: Mapping[DeviceUser, Mapping[CounterKey, float]] = field(default_factory=dict)

    def plus(self, uses: Iterable[DeviceUse]) -> UsageCounters:
        """These and what was used since."""
        counts = dict(self.counts)
        for use in uses:
            if use.user not in counts and len(counts) >= MOST_USERS:
                continue
            counted = dict(counts.get(use.user, {}))
            for counter, amount in _amounts(use):
                if amount is not None:
                    key = counter, amount.certainty
                    counted[key] = counted.get(key, 0.0) + amount.value
            counts[use.user] = counted
        return UsageCounters(self.since_s, counts)

    def of(self, users: Collection[DeviceUser]) -> UsageCounters:
        """Those of these users alone: nothing is kept of a pod that ended."""
        return UsageCounters(
            self.since_s, {user: counted for user, counted in self.counts.items() if user in users}
        )


def _amounts(use: DeviceUse) -> tuple[tuple[UsageCounter, Amount | None], ...]:
    return (
        (UsageCounter.SECONDS, use.seconds),
        (UsageCounter.COMPUTE, use.compute),
        (UsageCounter.ENERGY, use.energy),
    )


def counters_json(counters: UsageCounters) -> JsonObject:
    """What `counters_from_json` takes."""
    return {
        "version": _VERSION,
        "since": counters.since_s,
        "users": [
            [*astuple(user), [[*map(str, key), count] for key, count in counted.items()]]
            for user, counted in counters.counts.items()
        ],
    }


def counters_from_json(memory: JsonValue) -> UsageCounters:
    """What was counted. Raises ValueError: not what `counters_json` makes."""
    try:
        if not isinstance(memory, dict) or memory["version"] != _VERSION:
            raise ValueError("unknown version")
        rows = _rows(memory["users"])
        if len(rows) > MOST_USERS:
            raise ValueError(f"more than {MOST_USERS} users")
        return UsageCounters(_number(memory["since"]), dict(_user_row(_rows(row)) for row in rows))
    except (KeyError, TypeError) as error:
        raise ValueError(f"no counters: {error}") from None


def _user_row(row: list[JsonValue]) -> tuple[DeviceUser, Mapping[CounterKey, float]]:
    *texts, counted = row
    if len(texts) != _FIELDS or not all(isinstance(text, str) and len(text) <= _LONGEST for text in texts):
        raise ValueError("a user has eight texts")
    counts: dict[CounterKey, float] = {}
    for entry in _rows(counted):
        counter, certainty, count = _rows(entry)
        counts[UsageCounter(str(counter)), Certainty(str(certainty))] = _number(count)
    return DeviceUser(*map(str, texts)), counts


def _rows(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _number(value: JsonValue) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError("not a count")
    return float(value)
