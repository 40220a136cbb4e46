"""The rules of the table as Prometheus and its operator read them."""

from __future__ import annotations

from typing import Final

from tonnage.model.catalog.alerts import Alert, rule_table
from tonnage.model.json import JsonObject, JsonValue

RECORDINGS: Final = "tonnage-recordings"
"""The group of the recording rules."""
_PAGE: Final = "docs/reference/alerts.md"


def rules_file(runbooks: str = "") -> JsonObject:
    """A rules file of Prometheus. `runbooks` is the URL of the page of alerts, wherever it is published.

    Each alert has its section's place in `runbook`, and with that URL the link in `runbook_url`, which
    templates of Alertmanager and Prometheus' own collections of rules know (kube-prometheus).

    >>> rules_file()["groups"][0]["name"]
    'tonnage-recordings'
    """
    table = rule_table()
    recordings: list[JsonValue] = [{"record": rule.name, "expr": rule.expr} for rule in table.recordings]
    groups: list[JsonValue] = [{"name": RECORDINGS, "rules": recordings}]
    for name in table.groups:
        alerts: list[JsonValue] = [_rule(alert, runbooks) for alert in table.alerts if alert.group == name]
        groups.append({"name": name, "rules": alerts})
    return {"groups": groups}


def prometheus_rule(name: str, namespace: str = "", runbooks: str = "") -> JsonObject:
    """The same as an object of the Prometheus operator."""
    metadata: JsonObject = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": metadata,
        "spec": rules_file(runbooks),
    }


def _rule(alert: Alert, runbooks: str) -> JsonObject:
    section = f"#{alert.name.lower()}"
    link: JsonObject = {"runbook_url": f"{runbooks}{section}"} if runbooks else {}
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.pause,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "runbook": f"{_PAGE}{section}", **link},
    }
