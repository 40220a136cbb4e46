"""Dashboards as Grafana reads them (schema 39, of Grafana 10 and later)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tonnage.model.catalog.dashboards import Dashboard, DashboardVariable, Panel
from tonnage.model.json import JsonObject, JsonValue

_COLUMNS: Final = 24
_SOURCE: Final[JsonObject] = {"type": "prometheus", "uid": "${datasource}"}
_HEIGHTS: Final = {"stat": 4, "gauge": 6}
_HEIGHT: Final = 8
_REDUCED: Final[JsonObject] = {"values": False, "calcs": ["lastNotNull"], "fields": ""}
_ON_CHANGE: Final = 2
"""Variables are read again when the range of time changes."""
_BY_NAME: Final = 1


def dashboard_json(dashboard: Dashboard) -> JsonObject:
    """The dashboard; `uid` is the same wherever it is installed, so that links to it stay right."""
    return {
        "uid": f"tonnage-{dashboard.name}",
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": ["tonnage", "gpu"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_source_variable(), *map(_variable, dashboard.variables)]},
        "panels": [*_panels(dashboard.panels)],
    }


def _source_variable() -> JsonObject:
    return {"type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus"}


def _variable(variable: DashboardVariable) -> JsonObject:
    return {
        "type": "query",
        "name": variable.name,
        "label": variable.label,
        "datasource": _SOURCE,
        "query": variable.query,
        "regex": variable.regex,
        "refresh": _ON_CHANGE,
        "sort": _BY_NAME,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
    }


def _panels(panels: Iterable[Panel]) -> Iterator[JsonValue]:
    """From left to right; a panel that does not fit begins a row below the highest of this one."""
    x = y = highest = 0
    for number, panel in enumerate(panels, start=1):
        height = _HEIGHTS.get(panel.kind, _HEIGHT)
        if x + panel.width > _COLUMNS:
            x, y, highest = 0, y + highest, 0
        yield _panel(panel, number, {"x": x, "y": y, "w": panel.width, "h": height})
        x, highest = x + panel.width, max(highest, height)


def _panel(panel: Panel, number: int, place: JsonObject) -> JsonObject:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "gridPos": place,
        "targets": [*_targets(panel)],
        "fieldConfig": {"defaults": _field(panel), "overrides": []},
        "options": _options(panel.kind),
    }


def _targets(panel: Panel) -> Iterator[JsonValue]:
    is_table = panel.kind == "table"
    for number, query in enumerate(panel.queries):
        yield {
            "refId": chr(ord("A") + number),
            "datasource": _SOURCE,
            "expr": query.expr,
            "legendFormat": query.legend,
            "range": panel.kind == "timeseries",
            "instant": panel.kind != "timeseries",
            "format": "table" if is_table else "time_series",
        }


def _field(panel: Panel) -> JsonObject:
    steps: list[JsonValue] = [{"color": "green", "value": None}]
    if panel.red is not None:
        steps.append({"color": "red", "value": panel.red})
    field: JsonObject = {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.unit in ("percent", "percentunit"):
        field |= {"min": 0, "max": 100 if panel.unit == "percent" else 1}
    if panel.kind == "timeseries":
        field["custom"] = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never"}
    return field


def _options(kind: str) -> JsonObject:
    match kind:
        case "timeseries":
            legend: JsonObject = {
                "displayMode": "list",
                "placement": "bottom",
                "showLegend": True,
                "calcs": [],
            }
            return {"legend": {**legend, "calcs": []}, "tooltip": {"mode": "multi", "sort": "desc"}}
        case "stat":
            return {
                "reduceOptions": _REDUCED,
                "colorMode": "value",
                "graphMode": "area",
                "justifyMode": "auto",
                "orientation": "auto",
                "textMode": "auto",
            }
        case "gauge":
            return {
                "reduceOptions": _REDUCED,
                "orientation": "auto",
                "showThresholdLabels": False,
                "showThresholdMarkers": True,
            }
        case "bargauge":
            return {
                "reduceOptions": _REDUCED,
                "displayMode": "gradient",
                "orientation": "horizontal",
                "showUnfilled": True,
            }
        case _:
            return {"showHeader": True, "cellHeight": "sm"}
