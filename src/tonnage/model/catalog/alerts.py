"""Alerts and recording rules, out of `alerts.toml`: the table of which rules files and a page are written."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from tonnage.model.catalog.xids import xids
from tonnage.model.devices.health import FaultClass

_ANY_XID: Final = "known"
_PLACE: Final = re.compile(r"\{xid:([a-z]+)\}")
_SERIES: Final = re.compile(r"\b(?:DCGM_[A-Z0-9_]+|(?:tonnage|kube)_[a-z0-9_]+|node:[a-z0-9_:]+|up(?=\{))")


@dataclass(frozen=True, slots=True)
class Alert:
    """An alerting rule of Prometheus. `pause` is its `for`; `counters` are needed beside the default ones.

    `meaning` and `action` stand in the runbook, `summary` is a template of Prometheus.
    """

    name: str
    group: str
    expr: str
    pause: str
    severity: str
    summary: str
    meaning: str
    action: str
    source: str
    counters: tuple[str, ...] = ()

    @property
    def series(self) -> tuple[str, ...]:
        """The metrics that its expression reads, each once."""
        return series_in(self.expr)


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording rule of Prometheus."""

    name: str
    expr: str
    meaning: str


@dataclass(frozen=True, slots=True)
class RuleTable:
    """Every rule in the file's order. `groups`: of the alerts, with a sentence each."""

    groups: Mapping[str, str]
    alerts: tuple[Alert, ...]
    recordings: tuple[Recording, ...]


@cache
def rule_table() -> RuleTable:
    """The whole table; read once.

    >>> rule_table().alerts[0].name
    'GPUHighTemperature'
    """
    text = resources.files(__package__).joinpath("alerts.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    alerts = tuple(
        Alert(
            name=name,
            group=row["group"],
            expr=_PLACE.sub(lambda match: _codes(match[1]), " ".join(row["expr"].split())),
            pause=row["for"],
            severity=row["severity"],
            summary=row["summary"],
            meaning=row["meaning"],
            action=row["action"],
            source=row["source"],
            counters=tuple(row.get("counters", ())),
        )
        for name, row in table["alert"].items()
    )
    recordings = tuple(Recording(name, row["expr"], row["meaning"]) for name, row in table["record"].items())
    return RuleTable(table["groups"], alerts, recordings)


def extra_counters() -> tuple[str, ...]:
    """Counters beside dcgm-exporter's default ones without which some alert stays silent."""
    return tuple(dict.fromkeys(name for alert in rule_table().alerts for name in alert.counters))


def series_in(expr: str) -> tuple[str, ...]:
    """The metrics that an expression of ours reads, each once, in its order.

    >>> series_in('sum by (node) (DCGM_FI_DEV_GPU_UTIL) / up{job="x"}')
    ('DCGM_FI_DEV_GPU_UTIL', 'up')
    """
    return tuple(dict.fromkeys(_SERIES.findall(expr)))


def _codes(class_name: str) -> str:
    """A pattern of the Xids of a class, or of all known ones."""
    numbers = sorted(
        xid.code
        for xid in xids().values()
        if class_name == _ANY_XID or xid.fault_class is FaultClass(class_name)
    )
    return "|".join(map(str, numbers))
