"""The rules, judged by the genuine promtool: each alert fires, and does not at a near miss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from scripts.generate_monitoring import counters_csv, files
from support.promtool import promtool
from tonnage.diagnose.monitoring.rules import prometheus_rule, rules_file
from tonnage.documents.exporter_counters import read_counters
from tonnage.model.catalog.alerts import Alert, rule_table

DATA: Final = Path(__file__).resolve().parents[2] / "data"
CASES: Final[Mapping[str, Any]] = yaml.load((DATA / "alert-cases.yaml").read_text(), yaml.CSafeLoader)
ALERTS: Final = {alert.name: alert for alert in rule_table().alerts}
DOCUMENTS: Final = {
    "GPUHighTemperature": ("DCGM_FI_DEV_GPU_TEMP > 85", "5m", "warning"),
    "GPUMemoryNearFull": (
        "(DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)) > 0.95",
        "10m",
        "warning",
    ),
    "GPUXidError": ("DCGM_FI_DEV_XID_ERRORS != 0", "1m", "critical"),
    "GPUUnderutilized": ("DCGM_FI_DEV_GPU_UTIL < 10", "30m", "info"),
}


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(rules_file()))
    return path


def test_promtool_reads_the_rules(rules: Path) -> None:
    count = len(ALERTS) + len(rule_table().recordings)
    assert f"SUCCESS: {count} rules found" in promtool("check", "rules", rules.name, folder=rules.parent)


def test_every_alert_has_a_case_that_fires_and_a_near_miss() -> None:
    assert [*CASES] == [*ALERTS]
    assert {frozenset(case) - {"also"} for case in CASES.values()} == {frozenset({"fires", "near"})}


def test_alerts_fire_and_do_not_at_a_near_miss(tmp_path: Path) -> None:
    """One run of promtool, which names what is wrong by the title. Each alert is alone in its file."""
    written: Any = rules_file()
    alone = {rule["alert"]: rule for group in written["groups"][1:] for rule in group["rules"]}
    for name, case in CASES.items():
        rule = {"groups": [{"name": "one", "rules": [alone[name]]}]}
        (tmp_path / f"{name}.rule.yaml").write_text(yaml.safe_dump(rule))
        write_suite(tmp_path / f"{name}.test.yaml", f"{name}.rule.yaml", [*of_alert(ALERTS[name], case)])
    suites = [path.name for path in sorted(tmp_path.glob("*.test.yaml"))]
    assert promtool("test", "rules", *suites, folder=tmp_path).count("SUCCESS") == len(ALERTS)


def write_suite(path: Path, rules: str, tests: list[dict[str, Any]]) -> None:
    path.write_text(yaml.safe_dump({"rule_files": [rules], "evaluation_interval": "1m", "tests": tests}))


def of_alert(alert: Alert, case: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield unit_test(alert, "fires", case["fires"])
    yield unit_test(alert, "near miss", case["near"])
    for other in case.get("also", ()):
        yield unit_test(alert, other["title"], other)


def unit_test(alert: Alert, title: str, case: Mapping[str, Any]) -> dict[str, Any]:
    expected: list[dict[str, Any]] = []
    if "labels" in case:
        page = f"docs/reference/alerts.md#{alert.name.lower()}"
        labels = {"severity": alert.severity, **case["labels"]}
        expected = [
            {"exp_labels": labels, "exp_annotations": {"summary": case["summary"], "runbook": page}},
        ]
    return {
        "name": f"{alert.name}: {title}",
        "interval": "1m",
        "input_series": [{"series": name, "values": str(text)} for name, text in case["series"].items()],
        "alert_rule_test": [{"alertname": alert.name, "eval_time": case["at"], "exp_alerts": expected}],
    }


def test_alerts_link_to_their_runbook_where_that_is_published() -> None:
    url = "https://docs.example.com/alerts.html"
    page = (Path(__file__).parents[3] / "docs/reference/alerts.md").read_text()
    written: Any = rules_file(url)
    alerts = [rule for group in written["groups"] for rule in group["rules"] if "alert" in rule]
    assert len(alerts) == len(rule_table().alerts)
    for rule in alerts:
        section = f"#{rule['alert'].lower()}"
        assert rule["annotations"]["runbook_url"] == url + section
        assert rule["annotations"]["runbook"] == f"docs/reference/alerts.md{section}"
        assert f"\n### {rule['alert']}\n" in page
    assert prometheus_rule("tonnage", runbooks=url)["spec"] == written


@pytest.mark.parametrize("name", [pytest.param(name, id=f"TEL-3: {name}") for name in DOCUMENTS])
def test_the_rules_of_the_documents_stand_as_they_are(name: str) -> None:
    alert = ALERTS[name]
    assert (alert.expr, alert.pause, alert.severity) == DOCUMENTS[name]


def test_the_operators_object_has_the_same_rules() -> None:
    made = prometheus_rule("tonnage", "monitoring")
    assert made["spec"] == rules_file()
    assert made["metadata"] == {"name": "tonnage", "namespace": "monitoring"}


def test_a_case_that_ought_to_fire_and_does_not_is_seen(rules: Path) -> None:
    """Otherwise a promtool that judges nothing would pass everything above."""
    near = unit_test(ALERTS["GPUHighTemperature"], "wrong", CASES["GPUHighTemperature"]["near"])
    fires = CASES["GPUHighTemperature"]["fires"]
    wrong = {**near, "input_series": [{"series": name, "values": "99x9"} for name in fires["series"]]}
    write_suite(rules.parent / "tests.yaml", rules.name, [wrong])
    with pytest.raises(AssertionError, match="FAILED"):
        promtool("test", "rules", "tests.yaml", folder=rules.parent)


def test_the_files_that_ship_are_those_of_the_table() -> None:
    stale = [path.name for path, text in files().items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "run make monitoring"


def test_an_exporter_takes_the_counters_that_alerts_need() -> None:
    read = read_counters(counters_csv().encode(), "counters.csv")
    assert read.problems == ()
    served = {counter.name for counter in read.counters}
    assert {name for alert in ALERTS.values() for name in alert.series if name.startswith("DCGM_")} <= served
