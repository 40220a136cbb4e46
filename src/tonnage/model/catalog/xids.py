"""The driver's errors by number, out of `xids.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType

from tonnage.model.devices.health import FaultClass


@dataclass(frozen=True, slots=True)
class Xid:
    """An error that the driver reports. `again` is what it asks for when it comes twice within a day."""

    code: int
    name: str
    origin: str
    fault_class: FaultClass
    again: FaultClass
    action: str
    source: str


@cache
def xids() -> Mapping[int, Xid]:
    """Every known error by number; read once.

    >>> xids()[79].fault_class, xids()[13].fault_class.harmless
    (<FaultClass.REBOOT: 'reboot'>, True)
    """
    text = resources.files(__package__).joinpath("xids.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    by_code: dict[int, Xid] = {}
    for row in table["xid"]:
        fault_class = FaultClass(row["class"])
        for code in row["codes"]:
            if code in by_code:
                raise ValueError(f"Xid {code} is listed twice")
            by_code[code] = Xid(
                code=code,
                name=row["name"],
                origin=row["origin"],
                fault_class=fault_class,
                again=FaultClass(row.get("again", fault_class)),
                action=row["action"],
                source=row.get("source", table["source"]),
            )
    return MappingProxyType(by_code)
