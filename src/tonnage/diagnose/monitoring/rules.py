"""The rules of the table as Prometheus and its operator read them."""

from __future__ import annotations

from typing import Final

from tonnage.model.catalog.alerts import Alert, rule_table
from tonnage.model.json import JsonObject, JsonValue

RECORDINGS: Final = "tonnage-recordings"
"""The group of the recording rules."""
_PAGE: Final = "docs/reference/alerts.md"


def rules_file() -> JsonObject:
    """A rules file of Prometheus.

    >>> rules_file()["groups"][0]["name"]
    'tonnage-recordings'
    """
    table = rule_table()
    recordings: list[JsonValue] = [{"record": rule.name, "expr": rule.expr} for rule in table.recordings]
    groups: list[JsonValue] = [{"name": RECORDINGS, "rules": recordings}]
    for name in table.groups:
        alerts: list[JsonValue] = [_rule(alert) for alert in table.alerts if alert.group == name]
        groups.append({"name": name, "rules": alerts})
    return {"groups": groups}


def prometheus_rule(name: str, namespace: str = "") -> JsonObject:
    """The same as an object of the Prometheus operator."""
    metadata: JsonObject = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": metadata,
        "spec": rules_file(),
    }


def _rule(alert: Alert) -> JsonObject:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.pause,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "runbook": f"{_PAGE}#{alert.name.lower()}"},
    }
