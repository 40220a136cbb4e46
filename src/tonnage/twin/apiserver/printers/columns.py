"""What tables are made of: columns, and values as people read them.

Source: k8s.io/apimachinery util/duration, pkg/printers (v1.35).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mappings, text

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
UNSET: Final = "<unset>"


@dataclass(frozen=True, slots=True)
class Column:
    """A column; those of priority 1 are shown by `-o wide`."""

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""

    def definition(self) -> JsonObject:
        """The column as a Table describes it."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description or self.name,
            "priority": self.priority,
        }


Cells = Callable[[JsonObject, datetime], list[JsonValue]]


@dataclass(frozen=True, slots=True)
class Printer:
    """Columns, and what fills them from an object."""

    columns: tuple[Column, ...]
    cells: Cells


NAME: Final = Column("Name", format="name", description="Name must be unique within a namespace.")


def age_column(kind: str = "string") -> Column:
    """The column of ages."""
    return Column("Age", kind, description="Time since the object was created.")


def named_columns(names: str) -> tuple[Column, ...]:
    """The column of names, and others: `Schedule|Suspend:boolean|Age`."""
    others = (entry.partition(":") for entry in names.split("|"))
    plain = (age_column() if name == "Age" else Column(name, kind or "string") for name, _, kind in others)
    return (NAME, *plain)


def wide(*names: str) -> tuple[Column, ...]:
    """Columns that only `-o wide` shows."""
    return tuple(Column(name, priority=1) for name in names)


def moment(value: str) -> datetime | None:
    """An object's timestamp, or None."""
    try:
        parsed = datetime.fromisoformat(value) if value else None
    except ValueError:
        return None
    return parsed if parsed is None or parsed.tzinfo else parsed.replace(tzinfo=UTC)


def since(value: str, now: datetime) -> str:
    """How long ago a timestamp was."""
    then = moment(value)
    return UNKNOWN if then is None else duration((now - then).total_seconds())


def name_of(obj: JsonObject) -> str:
    """What an object is called."""
    return text(obj, "metadata", "name")


def created(obj: JsonObject, _now: datetime) -> list[JsonValue]:
    """What an object is called and when it was made, as cells."""
    return [name_of(obj), text(obj, "metadata", "creationTimestamp")]


def age(obj: JsonObject, now: datetime) -> str:
    """How long ago an object was created."""
    return since(text(obj, "metadata", "creationTimestamp"), now)


def duration(seconds: float) -> str:
    """A time span, coarser the longer it is.

    >>> [duration(s) for s in (5, 119, 125, 3600, 8 * 3600, 49 * 3600, 20 * 86400)]
    ['5s', '119s', '2m5s', '60m', '8h', '2d1h', '20d']
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 120:
        return f"{max(whole, 0)}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    years = days // 365
    return _two(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _two(big: int, big_unit: str, small: int, small_unit: str) -> str:
    return f"{big}{big_unit}{small}{small_unit}" if small else f"{big}{big_unit}"


def containers(pod_spec: JsonObject) -> list[JsonValue]:
    """Names and images of a template's containers, as two cells."""
    entries = mappings(pod_spec, "containers")
    return [
        ",".join(text(entry, "name") for entry in entries),
        ",".join(text(entry, "image") for entry in entries),
    ]


def labels_text(labels: JsonObject) -> str:
    """`a=b,c=d`, sorted; `<none>` for no label."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE
