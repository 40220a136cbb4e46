"""EventCorrelator: repeated Events are counted, many alike are combined, too many are held back.

Source: k8s.io/client-go/tools/record/events_cache.go (v0.35).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_REMEMBERED: Final = 4096
_ALIKE: Final = 10
_ALIKE_WITHIN_S: Final = 600.0
_BURST: Final = 25
_REFILLED_IN_S: Final = 300.0
_COMBINED: Final = "(combined from similar events): "


@dataclass(slots=True)
class EventSighting:
    """The Event of one thing told: its name, how often that was told, and when first."""

    name: str
    first: datetime
    message: str
    combined: bool
    count: int = 0

    def rename(self, name: str) -> None:
        """Stand for the Event of that name: another component's has the one before."""
        self.name = name


@dataclass(slots=True)
class _Alike:
    """Messages that differ in nothing else, the oldest first, and when the last of them came."""

    last: datetime
    messages: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class _Bucket:
    """What may still be told about one object."""

    left: float
    at: datetime


class _Remembered(Generic[T]):
    """The values that were asked for last, a bounded number of them."""

    def __init__(self) -> None:
        self._values: OrderedDict[Hashable, T] = OrderedDict()

    def of(self, key: Hashable, made: Callable[[], T]) -> T:
        """The value of a key, made if it is not remembered."""
        if key not in self._values:
            self._values[key] = made()
        self._values.move_to_end(key)
        while len(self._values) > _REMEMBERED:
            self._values.popitem(last=False)
        return self._values[key]


class Correlator:
    """Takes in what one component tells.

    The tenth message about one subject that differs from the others in its text alone, none later than ten
    minutes after the one before, is written into one Event with all that follow. About an object 25 Events of
    a type are written at once, and one more every five minutes. `sparing=False` only counts.
    """

    def __init__(self, *, sparing: bool = True) -> None:
        self._sparing = sparing
        self._sightings: _Remembered[EventSighting] = _Remembered()
        self._alike: _Remembered[_Alike] = _Remembered()
        self._buckets: _Remembered[_Bucket] = _Remembered()

    def observe(
        self, about: Hashable, subject: Hashable, message: str, now: datetime, name: Callable[[], str]
    ) -> EventSighting | None:
        """The Event to write, None when there are too many. With a count above one it should stand already.

        `about` is the object and the type, `subject` all but the message; `name` is for an Event that is new.
        """
        combined = self._sparing and self._is_one_of_many(subject, message, now)
        key = (subject, None) if combined else (subject, message)
        sighting = self._sightings.of(key, lambda: EventSighting(name(), now, message, combined))
        sighting.count += 1
        sighting.message = _COMBINED + message if combined else message
        return sighting if not self._sparing or self._may_tell(about, now) else None

    def _is_one_of_many(self, subject: Hashable, message: str, now: datetime) -> bool:
        alike = self._alike.of(subject, lambda: _Alike(now))
        if (now - alike.last).total_seconds() > _ALIKE_WITHIN_S:
            alike.messages.clear()
        alike.last = now
        alike.messages[message] = None
        if len(alike.messages) < _ALIKE:
            return False
        del alike.messages[next(iter(alike.messages))]
        return True

    def _may_tell(self, about: Hashable, now: datetime) -> bool:
        bucket = self._buckets.of(about, lambda: _Bucket(_BURST, now))
        bucket.left = min(bucket.left + (now - bucket.at).total_seconds() / _REFILLED_IN_S, _BURST)
        bucket.at = now
        if bucket.left < 1:
            return False
        bucket.left -= 1
        return True
