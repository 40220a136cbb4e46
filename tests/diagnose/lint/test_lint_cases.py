"""Each rule against YAML beside it: `# !code:column` at the end of a line is what must be found there.

Nothing else may be found, and nothing at all in a `good.yaml`. Covers ADM-1, ADM-2, ADM-3, ADM-9, SCH-1,
SCH-6, SHR-3, SHR-5, ADM-5, MIG-2, MIG-3, OPR-1, DRA-1, DRA-2, DRA-3, ADM-8.
"""

from __future__ import annotations

import asyncio
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tonnage.cli.lint.lint_context import given_for
from tonnage.cli.options import Common
from tonnage.diagnose.lint.lint import LintContext, LintReport, lint
from tonnage.diagnose.lint.sheet import Sheet
from tonnage.model.layer import Layer
from tonnage.model.reasons.lint.manifests import ApiWarning, ObjectUnreadable
from tonnage.model.reasons.pod.admission import ObjectRefused
from tonnage.model.reasons.registry import manifest_reasons
from tonnage.model.severity import Severity

FOLDER = Path(__file__).parent
SCHEMAS = json.loads((FOLDER.parents[2] / "docs/reference/reason-facts.schema.json").read_text())["$defs"]
CASES = sorted(
    path for path in FOLDER.glob("*/*.yaml") if path.name != "cluster.yaml" and path.parent.name != "fix"
)
_EXPECTED = re.compile(r" !([a-z-]+):([0-9]+)( four lines below)?")
_CLUSTER = re.compile(r"# cluster: (\S+)")


def expected(text: str) -> list[tuple[int, int, str]]:
    found = [
        (number + (4 if match[3] else 0), int(match[2]), match[1])
        for number, line in enumerate(text.splitlines(), 1)
        for match in _EXPECTED.finditer(line)
    ]
    return sorted(found)


@cache
def offline() -> LintContext:
    return asyncio.run(given_for(Common(), []))


@cache
def linted(path: Path) -> LintReport:
    text = path.read_text()
    cluster = _CLUSTER.match(text)
    snapshot = path.with_name(cluster[1]) if cluster else None
    sheets = [Sheet(str(path), text)]
    return lint(sheets, asyncio.run(given_for(Common(snapshot=snapshot), sheets)))


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_exactly_what_is_marked_is_found(path: Path) -> None:
    report = linted(path)
    assert not report.unreadable
    found = [(finding.place.line, finding.place.column, finding.code) for finding in report.findings]
    assert sorted(found) == expected(path.read_text())
    assert (path.stem == "good") == (not found)


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_a_finding_says_what_to_do(path: Path) -> None:
    for finding in linted(path).findings:
        assert finding.reason.message
        assert finding.reason.remedy or finding.code in ("value-of-wrong-type", "selector-refused"), finding
        assert finding.reason.source
        assert finding.severity in Severity


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_a_finding_has_the_facts_of_its_code(path: Path) -> None:
    for finding in linted(path).findings:
        schema, facts = SCHEMAS[finding.reason.code], finding.reason.facts
        assert set(schema.get("required", ())) <= facts.keys() <= schema["properties"].keys(), finding
        assert ("field" in schema["properties"]) == ("field" in facts), finding


def test_every_reason_of_lint_is_found_in_a_case() -> None:
    kinds = {type(finding.reason) for path in CASES for finding in linted(path).findings}
    of_server = (ObjectRefused, ObjectUnreadable, ApiWarning)  # tests/cli/test_refused_files.py
    assert [cls for cls in manifest_reasons() if cls not in kinds and cls not in of_server] == []


RECORDED = yaml.load((FOLDER / "recorded_refusals.yaml").read_text(), yaml.CSafeLoader)


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["about"])
def test_what_the_api_server_refuses_is_an_error_and_nothing_else(case: dict[str, Any]) -> None:
    """Held against the verdicts of a genuine 1.35.8."""
    report = lint([Sheet("f.yaml", case["text"])], offline())
    refusals = [
        finding
        for finding in report.findings
        if finding.reason.layer in (Layer.ADMISSION, Layer.QUOTA) and finding.severity is Severity.ERROR
    ]
    assert bool(refusals or report.unreadable) == case["refused"], report


def test_a_later_kubernetes_may_have_fields_that_are_not_known_here() -> None:
    text = (
        "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: c, image: x}], brandNew: 1, hostNetwork: 5}\n"
    )
    for version, severities in (("1.35", ["error", "error"]), ("1.37", ["warning", "error"])):
        known = asyncio.run(given_for(Common(server_version=version), []))
        report = lint([Sheet("f.yaml", text)], known)
        assert [finding.severity.value for finding in report.findings] == severities


@pytest.mark.parametrize(("version", "needed"), [("1.34", 3), ("1.35", 3), ("1.36", 0), (None, 0)])
def test_which_gates_are_on_is_known_by_the_version_that_is_told(version: str | None, needed: int) -> None:
    text = (FOLDER / "gates" / "good.yaml").read_text()
    context = asyncio.run(given_for(Common(server_version=version), []))
    codes = [finding.code for finding in lint([Sheet("f.yaml", text)], context).findings]
    assert codes.count("feature-gate-needed") == needed + bool(needed)


def test_every_family_has_good_and_bad() -> None:
    for folder in {path.parent for path in CASES}:
        assert {"good", "bad"} <= {path.stem for path in folder.glob("*.yaml")}, folder
