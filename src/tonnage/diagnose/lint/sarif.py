"""Findings as SARIF, for code review and editors.

Source: OASIS Static Analysis Results Interchange Format (SARIF) Version 2.1.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from tonnage.diagnose.lint.codes import FACTS
from tonnage.diagnose.lint.finding import Finding, LintCode
from tonnage.diagnose.lint.fix import Repair
from tonnage.documents.yaml.reader import field_path
from tonnage.model.errors import Problem
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.severity import Severity

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
_BRACKET: Final = re.compile(r"(\\*)([\[\]])")
"""With the backslashes before it, which stand for themselves."""
_LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def sarif(
    findings: Sequence[Finding],
    unreadable: Iterable[Problem],
    version: str,
    repairs: Mapping[int, Repair] | None = None,
) -> JsonObject:
    """One log with one run. `repairs` by the index of their finding, where the text is still as it was."""
    problems = [*unreadable]
    codes = [*FACTS]
    results: list[JsonValue] = [
        _result(finding, codes.index(finding.code), (repairs or {}).get(index))
        for index, finding in enumerate(findings)
    ]
    invocation: JsonObject = {"executionSuccessful": not problems}
    if problems:
        invocation["toolExecutionNotifications"] = [_notification(problem) for problem in problems]
    driver: JsonObject = {
        "name": "tonnage",
        "semanticVersion": version,
        "rules": [_rule(code) for code in codes],
    }
    run: JsonObject = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [invocation],
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: LintCode) -> JsonObject:
    facts = FACTS[code]
    return {
        "id": code.value,
        "shortDescription": {"text": facts.summary},
        "defaultConfiguration": {"level": _LEVELS[facts.severity]},
        "properties": {"layer": facts.layer.value, "source": facts.source},
    }


def _result(finding: Finding, rule: int, repair: Repair | None) -> JsonObject:
    text = "\n".join(
        part
        for part in (
            finding.message,
            f"Why: {finding.why}" if finding.why else "",
            f"Remedy: {finding.remedy}" if finding.remedy else "",
        )
        if part
    )
    location: JsonObject = {"physicalLocation": _physical(finding.file, finding.line, finding.column)}
    name = " ".join(part for part in (finding.subject, field_path(finding.path)) if part)
    if name:
        location["logicalLocations"] = [{"fullyQualifiedName": name}]
    result: JsonObject = {
        "ruleId": finding.code.value,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": plain(text)},
        "locations": [location],
    }
    if repair is not None:
        result["fixes"] = [_fix(finding, repair)]
    return result


def _physical(file: str, line: int, column: int) -> JsonObject:
    return {
        "artifactLocation": {"uri": uri(file)},
        "region": {"startLine": line, "startColumn": column},
    }


def _fix(finding: Finding, repair: Repair) -> JsonObject:
    replacements: list[JsonValue] = [
        {
            "deletedRegion": {"charOffset": edit.start, "charLength": edit.end - edit.start},
            "insertedContent": {"text": edit.new},
        }
        for edit in repair.edits
    ]
    change: JsonObject = {"artifactLocation": {"uri": uri(repair.file)}, "replacements": replacements}
    return {"description": {"text": plain(finding.remedy or finding.message)}, "artifactChanges": [change]}


def _notification(problem: Problem) -> JsonObject:
    return {"level": "error", "message": {"text": plain(str(problem))}}


def plain(text: str) -> str:
    r"""A message without embedded links: what the documents that were read say becomes none.

    Brackets of other messages, such as those of field paths, stay as they are: not every reader takes out
    the backslash.

    >>> plain("spec.containers[0]"), plain("see [docs](https://evil.example)")
    ('spec.containers[0]', 'see \\[docs\\](https://evil.example)')

    Source: SARIF 2.1.0, 3.11.6 "Messages with embedded links".
    """
    return _BRACKET.sub(r"\1\1\\\2", text) if "](" in text else text


def uri(file: str) -> str:
    """A file's name as a URI reference.

    >>> uri("a b/pod.yaml"), uri("/tmp/pod.yaml")
    ('a%20b/pod.yaml', 'file:///tmp/pod.yaml')
    """
    path = quote(file.removeprefix("./").encode("utf-8", "surrogateescape"))
    return f"file://{path}" if path.startswith("/") else path
