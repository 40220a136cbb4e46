"""Dashboards, out of `dashboards.toml`: what stands on each, before anything is written for Grafana."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True, slots=True)
class DashboardVariable:
    """What a person chooses at the top; `query` gives the choices, of which `regex` takes a part."""

    name: str
    label: str
    query: str
    regex: str = ""


@dataclass(frozen=True, slots=True)
class PanelQuery:
    """PromQL, and what a series of the answer is called."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A picture of some queries. `red`: values from here on are bad. `width` is of 24."""

    title: str
    kind: str
    queries: tuple[PanelQuery, ...]
    unit: str = "short"
    width: int = 12
    description: str = ""
    red: float | None = None


@dataclass(frozen=True, slots=True)
class Dashboard:
    """Panels that belong together, from left to right and down."""

    name: str
    title: str
    description: str
    variables: tuple[DashboardVariable, ...]
    panels: tuple[Panel, ...]


@cache
def dashboards() -> tuple[Dashboard, ...]:
    """Every dashboard in the file's order; read once.

    >>> [dashboard.name for dashboard in dashboards()]
    ['fleet', 'node', 'device', 'tenant']
    """
    text = resources.files(__package__).joinpath("dashboards.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    variables = {name: DashboardVariable(name, **row) for name, row in table["variable"].items()}
    return tuple(
        Dashboard(
            name=name,
            title=row["title"],
            description=row["description"],
            variables=tuple(variables[variable] for variable in row["variables"]),
            panels=tuple(map(_panel, row["panel"])),
        )
        for name, row in table["dashboard"].items()
    )


def _panel(row: dict[str, Any]) -> Panel:
    queries = tuple(PanelQuery(expr, legend) for expr, legend in row["queries"])
    return Panel(**{**row, "queries": queries})
