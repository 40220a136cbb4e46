"""What a vendor can read of a device, field by field, out of `metrics.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

from tonnage.model.errors import Bug, Problem

_HEADER: Final = re.compile(r"^\[", re.MULTILINE)
MOST_LINKS: Final = 18
"""NVLinks of a GPU that have counters of their own names."""


class FieldKind(StrEnum):
    """How Prometheus takes the reading. A LABEL is text, which stands on the device's other metrics."""

    GAUGE = "gauge"
    COUNTER = "counter"
    LABEL = "label"


class FieldOrigin(StrEnum):
    """READ: a vendor's `sample` gives it. EVENT: a vendor's events do. RATE: it follows from two readings."""

    READ = "read"
    EVENT = "event"
    RATE = "rate"


@dataclass(frozen=True, slots=True)
class DeviceField:
    """A field of a device (DCGM: field); `dcgm` are its names there, the newest last, `dcgm_id` its number.

    `mig` is whether a MIG device has a reading of its own, `link` whether each NVLink has one, `peer`
    whether each pair of GPUs has one. NVML gives it by `call` with `arguments`, of whose answer it is the
    `part`, or as the field value `field_id` of `scope`, or as the metric `gpm`; the reading is that times
    `factor` by `divisor`, whole unless `double`, and none above `most`. Of a number that stands for a text it
    is the one of `words`, the first for all that have none. `lacks` says which devices have none.
    """

    name: str
    unit: str
    kind: FieldKind
    help: str
    source: str
    mig: bool = False
    link: bool = False
    peer: bool = False
    dcgm: tuple[str, ...] = ()
    dcgm_id: int | None = None
    origin: FieldOrigin = FieldOrigin.READ
    call: str = ""
    arguments: tuple[int, ...] = ()
    part: str = ""
    field_id: int | None = None
    scope: int = 0
    gpm: int | None = None
    factor: int = 1
    divisor: int = 1
    double: bool = False
    most: int | None = None
    words: tuple[str, ...] = ()
    lacks: str = ""

    @property
    def is_sampled(self) -> bool:
        """Whether a vendor's `sample` gives it."""
        return self.origin is FieldOrigin.READ

    @property
    def is_text(self) -> bool:
        """Whether the reading is a text, not a number."""
        return self.kind is FieldKind.LABEL


@cache
def device_fields() -> Mapping[str, DeviceField]:
    """Every known field by name, in the file's order; read once.

    >>> device_fields()["power_w"].dcgm
    ('DCGM_FI_DEV_POWER_USAGE', 'DCGM_FI_DEV_BOARD_POWER_WATTS')
    """
    rows = (named for name, row in tomllib.loads(_text()).items() for named in _by_link(name, row))
    fields = {name: DeviceField(name=name, **_typed(row)) for name, row in rows}
    names = [name for field in fields.values() for name in field.dcgm]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"listed twice: {', '.join(twice)}")
    return MappingProxyType(fields)


def fields_named(names: Sequence[str]) -> tuple[DeviceField, ...]:
    """The fields of these names, in that order. Raises Bug: there is no field of one.

    Only their tables are parsed: an agent's report needs a few, and all take 25 ms and a megabyte.
    """
    tables = _tables()
    if all(name in tables for name in names):
        return tuple(_field(name) for name in names)
    by_name = device_fields()
    if unknown := [name for name in names if name not in by_name]:
        raise Bug(Problem(f"no device has a field {unknown[0]}", why="it is not in metrics.toml"))
    return tuple(by_name[name] for name in names)


def _text() -> str:
    return resources.files(__package__).joinpath("metrics.toml").read_text(encoding="utf-8")


@cache
def _tables() -> Mapping[str, str]:
    """The text of each table by its name; a row of several NVLinks has no name of a field."""
    text = _text()
    begins = [header.start() for header in _HEADER.finditer(text)]
    tables = (text[begin:end] for begin, end in pairwise([*begins, len(text)]))
    return {table[1 : table.index("]")]: table for table in tables}


@cache
def _field(name: str) -> DeviceField:
    (row,) = tomllib.loads(_tables()[name]).values()
    return DeviceField(name=name, **_typed(row))


def _by_link(name: str, row: dict[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The row, or one for each NVLink where it has values by its number."""
    values = row.pop("by_link", None)
    if values is None:
        yield name, row
        return
    for link in range(MOST_LINKS):
        own = {key: of_links[link] for key, of_links in values.items()}
        dcgm = [text.format(link) for text in row.get("dcgm", ())]
        yield name.format(link), {**row, **own, "dcgm": dcgm, "help": row["help"].format(link)}


def _typed(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its words and lists in their types."""
    types: dict[str, Any] = {"kind": FieldKind, "origin": FieldOrigin, "dcgm": tuple}
    types |= dict.fromkeys(("arguments", "words"), tuple)
    return {key: types[key](value) if key in types else value for key, value in row.items()}
