"""Writes rules, counters and the page of alerts out of the table in the package; `--check` only compares."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import yaml

from tonnage.diagnose.monitoring.dashboards import dashboard_json
from tonnage.diagnose.monitoring.rules import prometheus_rule, rules_file
from tonnage.documents.exporter_counters import default_counters
from tonnage.model.catalog.alerts import Alert, extra_counters, rule_table
from tonnage.model.catalog.dashboards import dashboards
from tonnage.model.catalog.metrics import device_fields
from tonnage.model.json import JsonObject

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "deploy" / "monitoring"
CHART: Final = ROOT / "deploy" / "helm" / "tonnage" / "files" / "monitoring"
PAGE: Final = ROOT / "docs" / "reference" / "alerts.md"
_PAGE_HEAD: Final = """\
# Alerts

For people whom an alert woke: what it means and what to do. Its annotation `runbook` names its section, and
`runbook_url` links to it where the rules were
[made with an address](../how-to/metrics-on-a-cluster.md#rules-and-alerts).
Written by `make monitoring` out of [`alerts.toml`](../../src/tonnage/model/catalog/alerts.toml);
[Metrics on a cluster](../how-to/metrics-on-a-cluster.md) sets the alerts up.

The rules are in [`deploy/monitoring`](../../deploy/monitoring): `rules.yaml` for Prometheus,
`prometheusrule.yaml` for its operator, and `counters.csv`, which an exporter needs as `--collectors` for the
alerts that say so. Each alert has a case in which it fires and a near miss in which it does not; tests give
both to promtool.

| alert | severity | for | group |
|---|---|---|---|
"""
_HEAD: Final = "# Written by `make monitoring` out of src/tonnage/model/catalog/alerts.toml.\n"


def files() -> Mapping[Path, str]:
    """Every file that is written, by path."""
    rules = _HEAD + _yaml(rules_file())
    boards = {f"{board.name}.json": _json(dashboard_json(board)) for board in dashboards()}
    return {
        **{FOLDER / "dashboards" / name: text for name, text in boards.items()},
        **{CHART / "dashboards" / name: text for name, text in boards.items()},
        FOLDER / "rules.yaml": rules,
        FOLDER / "prometheusrule.yaml": _HEAD + _yaml(prometheus_rule("tonnage")),
        FOLDER / "counters.csv": counters_csv(),
        CHART / "rules.yaml": rules,
        PAGE: "\n".join(page_lines()) + "\n",
    }


def counters_csv() -> str:
    """dcgm-exporter's default counters and those that alerts read beside them."""
    by_dcgm = {name: field for field in device_fields().values() for name in field.dcgm}
    rows = [f"{counter.name}, {counter.type.value}, {counter.help}" for counter in default_counters()]
    rows.append("# Read by alerts alone.")
    rows += [f"{name}, {by_dcgm[name].kind.value}, {by_dcgm[name].help}" for name in extra_counters()]
    return (
        _HEAD + "# Counters of --collectors: dcgm-exporter's default ones first.\n" + "\n".join(rows) + "\n"
    )


def page_lines() -> Iterator[str]:
    """The reference page, which is the runbook of every alert."""
    table = rule_table()
    yield from _PAGE_HEAD.splitlines()
    yield from (
        f"| [{alert.name}](#{alert.name.lower()}) | {alert.severity} | {alert.pause} | `{alert.group}` |"
        for alert in table.alerts
    )
    for name, text in table.groups.items():
        yield from ("", f"## {name}", "", text)
        for alert in table.alerts:
            if alert.group == name:
                yield from _section(alert)
    yield from ("", "## Recording rules", "", "| series | is | expression |", "|---|---|---|")
    yield from (f"| `{rule.name}` | {rule.meaning} | `{rule.expr}` |" for rule in table.recordings)


def _section(alert: Alert) -> Iterator[str]:
    yield from ("", f"### {alert.name}", "", alert.meaning, "", f"*What to do:* {alert.action}", "")
    yield from ("```promql", _short(alert.expr), "```", "")
    facts = f"Severity {alert.severity}, for {alert.pause}. Source: {alert.source}."
    counters = ", ".join(f"`{name}`" for name in alert.counters)
    yield facts + (f" Needs the counters {counters} of `counters.csv`." if counters else "")


def _short(expr: str) -> str:
    """The expression with long lists of Xids cut."""
    return re.sub(r"((?:\d+\|){12})[\d|]+", r"\1…", expr)


def _json(body: JsonObject) -> str:
    return json.dumps(body, indent=1, ensure_ascii=False) + "\n"


def _yaml(body: JsonObject) -> str:
    return yaml.safe_dump(body, sort_keys=False, width=110, allow_unicode=True)


def main() -> int:
    """Write the files, or with `--check` say which differ."""
    wanted = files()
    stale = [path for path, text in wanted.items() if not path.is_file() or path.read_text("utf-8") != text]
    extra = [
        path
        for folder in (FOLDER, CHART)
        for path in folder.rglob("*")
        if path.is_file() and path not in wanted
    ]
    if "--check" in sys.argv[1:]:
        for path in (*stale, *extra):
            print(f"{path} differs from the table; run make monitoring", file=sys.stderr)
        return 1 if stale or extra else 0
    for path in extra:
        path.unlink()
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
