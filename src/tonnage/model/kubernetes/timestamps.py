"""Kubernetes' two spellings of a moment: `Time` in whole seconds, `MicroTime` in microseconds, both UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp(moment: datetime) -> str:
    """A moment as `metav1.Time`; parts of a second are dropped.

    >>> timestamp(datetime(2026, 5, 1, 12, 30, 0, 999_999, tzinfo=UTC))
    '2026-05-01T12:30:00Z'
    """
    return moment.astimezone(UTC).isoformat(timespec="seconds")[:-6] + "Z"


def micro_timestamp(moment: datetime) -> str:
    """A moment as `metav1.MicroTime`.

    >>> micro_timestamp(datetime(2026, 5, 1, 12, 30, 0, 5, tzinfo=UTC))
    '2026-05-01T12:30:00.000005Z'
    """
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def moment_of(text: str) -> datetime:
    """The moment that either spelling names. Raises ValueError on anything else.

    >>> moment_of("2026-05-01T12:30:00Z").isoformat()
    '2026-05-01T12:30:00+00:00'
    """
    return datetime.fromisoformat(text)
