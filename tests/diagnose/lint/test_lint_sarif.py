"""SARIF 2.1.0: the structure of the specification, strictly: nothing more, nothing required missing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tonnage.cli.lint.lint_context import given_for
from tonnage.cli.options import Common
from tonnage.diagnose.lint.fix import repairs
from tonnage.diagnose.lint.lint import lint
from tonnage.diagnose.lint.sarif import sarif, uri
from tonnage.diagnose.lint.sheet import Sheet
from tonnage.model.errors import Problem
from tonnage.model.reasons.registry import manifest_reasons

FILE = Path(__file__).parent / "fix" / "all.before.yaml"
NAME = "deploy/a b.yaml"
SHAPES: dict[str, tuple[set[str], set[str]]] = {  # required, allowed beside them
    "log": ({"version", "runs"}, {"$schema"}),
    "run": ({"tool"}, {"columnKind", "invocations", "results"}),
    "driver": ({"name"}, {"semanticVersion", "rules"}),
    "rule": ({"id"}, {"shortDescription", "defaultConfiguration", "properties"}),
    "invocation": ({"executionSuccessful"}, {"toolExecutionNotifications"}),
    "notification": ({"message"}, {"level"}),
    "result": ({"message"}, {"ruleId", "ruleIndex", "level", "locations", "fixes"}),
    "location": (set(), {"physicalLocation", "logicalLocations"}),
    "physical": (set(), {"artifactLocation", "region"}),
    "fix": ({"artifactChanges"}, {"description"}),
    "change": ({"artifactLocation", "replacements"}, set()),
    "replacement": ({"deletedRegion"}, {"insertedContent"}),
}


def checked(kind: str, value: dict[str, Any]) -> dict[str, Any]:
    required, allowed = SHAPES[kind]
    assert required <= value.keys() <= required | allowed, (kind, value.keys())
    return value


def log_of(text: str, *problems: Problem) -> dict[str, Any]:
    report = lint([Sheet(NAME, text)], asyncio.run(given_for(Common(), [])))
    log: Any = sarif(report.findings, problems, "1.2.3", {r.index: r for r in repairs(report)})
    return checked("log", log)


def test_the_log_has_the_structure_of_the_specification() -> None:
    log = log_of(FILE.read_text())
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    driver = checked("driver", checked("run", run)["tool"]["driver"])
    rules = [checked("rule", rule) for rule in driver["rules"]]
    assert len({rule["id"] for rule in rules}) == len(rules)
    assert {rule["defaultConfiguration"]["level"] for rule in rules} <= {"none", "note", "warning", "error"}
    assert run["columnKind"] == "unicodeCodePoints"
    assert [checked("invocation", invocation) for invocation in run["invocations"]] == [
        {"executionSuccessful": True}
    ]
    assert len(run["results"]) > 10
    for result in run["results"]:
        checked("result", result)
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("note", "warning", "error")
        assert result["message"]["text"]
        (location,) = result["locations"]
        physical = checked("physical", checked("location", location)["physicalLocation"])
        assert physical["artifactLocation"] == {"uri": "deploy/a%20b.yaml"}
        assert min(physical["region"].values()) >= 1


def test_its_rules_are_the_reasons_that_lint_can_find_each_at_its_first_place() -> None:
    (run,) = log_of("")["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert sorted(rules) == sorted(cls.alias or cls.code for cls in manifest_reasons())
    assert (rules[0], rules[1], rules[38], rules[50]) == (
        "api-warning",
        "claim-invalid",
        "runtime-class-unknown",
        "whole-and-shared",
    )


def test_its_fixes_are_those_of_the_command() -> None:
    text = FILE.read_text()
    (run,) = log_of(text)["runs"]
    replacements = []
    for result in run["results"]:
        for fix in result.get("fixes", ()):
            (change,) = checked("fix", fix)["artifactChanges"]
            replacements += [
                checked("replacement", replacement)
                for replacement in checked("change", change)["replacements"]
            ]
    for one in sorted(replacements, key=lambda one: -one["deletedRegion"]["charOffset"]):
        start = one["deletedRegion"]["charOffset"]
        end = start + one["deletedRegion"]["charLength"]
        text = text[:start] + one["insertedContent"]["text"] + text[end:]
    assert "exactly:" in text
    assert not [r for r in log_of(text)["runs"][0]["results"] if r["ruleId"] == "request-not-in-exactly"]


def test_what_cannot_be_read_is_a_notification_and_no_success() -> None:
    (run,) = log_of("a: 1", Problem("no valid YAML", "b.yaml:3:1", "why", "remedy"))["runs"]
    (invocation,) = run["invocations"]
    assert not checked("invocation", invocation)["executionSuccessful"]
    (notification,) = invocation["toolExecutionNotifications"]
    assert "b.yaml:3:1: no valid YAML" in checked("notification", notification)["message"]["text"]


def test_names_of_files_become_references() -> None:
    assert [uri("./a.yaml"), uri("ü.yaml"), uri("stdin")] == ["a.yaml", "%C3%BC.yaml", "stdin"]
