"""Findings as SARIF, for code review and editors.

Source: OASIS Static Analysis Results Interchange Format (SARIF) Version 2.1.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from tonnage.diagnose.lint.coverage import UnjudgedPart, UnreadKind
from tonnage.diagnose.lint.finding import LintFinding
from tonnage.diagnose.lint.fix import Repair
from tonnage.documents.yaml.reader import field_path
from tonnage.model.errors import Problem
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.reasons.reason import ManifestReason
from tonnage.model.reasons.registry import manifest_reasons
from tonnage.model.severity import Severity

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
_BRACKET: Final = re.compile(r"(\\*)([\[\]])")
"""With the backslashes before it, which stand for themselves."""
_FIRST: Final = (
    "api-warning", "claim-invalid", "claim-name-unknown", "device-class-missing", "comparison-not-integer",
    "config-map-unknown", "device-annotation", "field-unknown", "pod-field-invalid", "fits-nowhere",
    "gpu-config-invalid", "limit-missing", "limit-range-invalid", "limit-range-gives-devices",
    "mig-config-invalid", "mig-layout-impossible", "mig-profile-unknown", "node-affinity-invalid",
    "quantity-negative", "resource-not-advertised", "resource-not-integer", "request-not-in-exactly",
    "object-refused", "object-unreadable", "pod-placement-invalid", "pod-level-resource",
    "cluster-policy-deprecated", "cluster-policy-incomplete", "cluster-policy-key-unknown",
    "cluster-policy-value-invalid", "priority-class-unknown", "product-not-the-label",
    "quantity-unreadable", "quota-leaves-gap", "quota-key-invalid", "quota-key-without-effect",
    "request-limit-unequal", "resource-name-unknown", "runtime-class-missing", "selector-doubtful",
    "selector-refused", "selects-no-node", "service-account-missing", "sharing-without-rename",
    "single-node", "taint-not-tolerated", "toleration-matches-nothing", "toleration-invalid",
    "value-of-wrong-type", "volume-claim-unknown", "whole-and-shared",
)  # fmt: skip
"""The rules of the first releases, at the index by which results refer to them. What is new comes after."""
_LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def sarif(
    findings: Sequence[LintFinding],
    unreadable: Iterable[Problem],
    version: str,
    repairs: Mapping[int, Repair] | None = None,
    unjudged: Iterable[UnjudgedPart] = (),
    unread: Iterable[UnreadKind] = (),
) -> JsonObject:
    """One log with one run. `repairs` by the index of their finding, where the text is still as it was.

    What no rule looked at, and what was not read of the cluster, are notifications, since SARIF has results
    for rules alone.
    """
    problems = [*unreadable]
    rules = _rules()
    places = {rule: place for place, rule in enumerate(rules)}
    results: list[JsonValue] = [
        _sarif_result(finding, places[type(finding.reason)], (repairs or {}).get(index))
        for index, finding in enumerate(findings)
    ]
    invocation: JsonObject = {"executionSuccessful": not problems}
    notifications = [
        *map(_notification, problems),
        *map(_unread_notification, unread),
        *map(_unjudged_notification, unjudged),
    ]
    if notifications:
        invocation["toolExecutionNotifications"] = [*notifications]
    driver: JsonObject = {
        "name": "tonnage",
        "semanticVersion": version,
        "rules": [_rule(cls) for cls in rules],
    }
    run: JsonObject = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [invocation],
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rules() -> list[type[ManifestReason]]:
    """Every reason that lint can find, those of the first releases in their order."""
    places = {code: place for place, code in enumerate(_FIRST)}
    return sorted(manifest_reasons(), key=lambda cls: places.get(cls.code, len(places)))


def _rule(cls: type[ManifestReason]) -> JsonObject:
    return {
        "id": cls.alias or cls.code,
        "shortDescription": {"text": cls.rule.summary},
        "defaultConfiguration": {"level": _LEVELS[cls.severity]},
        "properties": {"layer": cls.usual_layer().value, "source": cls.rule.source},
    }


def _sarif_result(finding: LintFinding, rule: int, repair: Repair | None) -> JsonObject:
    reason, place = finding.reason, finding.place
    text = "\n".join(
        part
        for part in (
            reason.message,
            f"Why: {finding.why}" if finding.why else "",
            f"Remedy: {reason.remedy}" if reason.remedy else "",
        )
        if part
    )
    location: JsonObject = {"physicalLocation": _physical(place.file, place.line, place.column)}
    name = " ".join(part for part in (reason.subject, field_path(place.path)) if part)
    if name:
        location["logicalLocations"] = [{"fullyQualifiedName": name}]
    sarif: JsonObject = {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": plain(text)},
        "locations": [location],
    }
    if repair is not None:
        sarif["fixes"] = [_fix(finding, repair)]
    return sarif


def _physical(file: str, line: int, column: int) -> JsonObject:
    return {
        "artifactLocation": {"uri": uri(file)},
        "region": {"startLine": line, "startColumn": column},
    }


def _fix(finding: LintFinding, repair: Repair) -> JsonObject:
    replacements: list[JsonValue] = [
        {
            "deletedRegion": {"charOffset": edit.start, "charLength": edit.end - edit.start},
            "insertedContent": {"text": edit.new},
        }
        for edit in repair.edits
    ]
    change: JsonObject = {"artifactLocation": {"uri": uri(repair.file)}, "replacements": replacements}
    return {
        "description": {"text": plain(finding.reason.remedy or finding.reason.message)},
        "artifactChanges": [change],
    }


def _notification(problem: Problem) -> JsonObject:
    return {"level": "error", "message": {"text": plain(str(problem))}}


def _unread_notification(kind: UnreadKind) -> JsonObject:
    return {"level": "warning", "message": {"text": plain(kind.text)}}


def _unjudged_notification(part: UnjudgedPart) -> JsonObject:
    place = part.place
    words = ": ".join(text for text in (part.subject, part.message) if text)
    return {
        "level": "note",
        "message": {"text": plain(f"{'judged in part' if part.partly else 'not judged'}: {words}")},
        "locations": [{"physicalLocation": _physical(place.file, place.line, place.column)}],
    }


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
