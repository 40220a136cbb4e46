"""Findings for a person: a line each as compilers write them, what to do below it, the sum at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tonnage.cli.terminal.output import SafeText, indented, line, lines, styled
from tonnage.diagnose.doctor.finding import counted
from tonnage.diagnose.lint.coverage import UnjudgedPart, unread_of
from tonnage.diagnose.lint.finding import LintFinding
from tonnage.diagnose.lint.lint import LintReport
from tonnage.diagnose.lint.rule_inputs import LintCluster
from tonnage.documents.yaml.reader import field_path
from tonnage.model.errors import Problem
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.severity import Severity

_MARGIN: Final = 9
_MOST_UNJUDGED: Final = 10
_COLOURS: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def answer(
    report: LintReport,
    problems: Sequence[Problem],
    counts: tuple[int, int],
    cluster: LintCluster | None = None,
) -> JsonObject:
    """The whole answer for programs. `counts`: files read, files repaired."""
    files, repaired = counts
    return {
        **(_unread(cluster.ground.view.snapshot) if cluster is not None else {}),
        "findings": [finding.to_json() for finding in report.located],
        "notJudged": [part.to_json() for part in report.unjudged],
        "unreadable": [
            {"what": problem.what, "where": problem.where, "why": problem.why, "remedy": problem.remedy}
            for problem in problems
        ],
        "summary": {
            "files": files,
            "objects": report.objects,
            "judged": report.judged,
            "judgedPartly": sum(part.partly for part in report.unjudged),
            "notJudged": report.objects - report.judged,
            "errors": report.count(Severity.ERROR),
            "warnings": report.count(Severity.WARNING),
            "notes": report.count(Severity.NOTE),
            "fixable": sum(finding.fixable for finding in report.located),
            "repairedFiles": repaired,
        },
    }


def _unread(snapshot: Snapshot) -> JsonObject:
    """The kinds that were not read: all objects, or those outside a namespace."""
    entries: list[JsonValue] = [kind.to_json() for kind in unread_of(snapshot)]
    return {"unread": entries} if entries else {}


def rendered(
    report: LintReport, problems: Sequence[Problem], counts: tuple[int, int], *, verbose: bool, colour: bool
) -> SafeText:
    """The whole answer; notes are counted, and shown when `verbose`. `counts`: files read, files repaired."""
    rows: list[str] = []
    for finding in report.findings:
        if verbose or finding.severity is not Severity.NOTE:
            rows += _finding(finding, colour=colour)
    rows += _unjudged(report.unjudged, verbose=verbose)
    rows.append(_sum(report, problems, counts, verbose=verbose))
    return lines(rows)


def _unjudged(parts: Sequence[UnjudgedPart], *, verbose: bool) -> Iterator[SafeText]:
    """What no rule looks at; of many the first, and of those of which some rules do all when `verbose`."""
    shown = [part for part in parts if verbose or not part.partly]
    most = len(shown) if verbose else _MOST_UNJUDGED
    for part in shown[:most]:
        where = f"{part.place.file}:{part.place.line}:{part.place.column}"
        words = "judged in part" if part.partly else "not judged"
        subject = f"{part.subject}: " if part.subject else ""
        yield line(where, f": {words}: ", subject, indented(part.message, 4))
        if part.remedy:
            yield line("    do   ", indented(part.remedy, _MARGIN))
    if len(shown) > most:
        yield line(f"{len(shown) - most} more not judged: -v")


def _finding(finding: LintFinding, *, colour: bool) -> Iterator[SafeText]:
    word = finding.severity.value
    if colour:
        word = styled(word, fg=_COLOURS[finding.severity], bold=True)
    reason, place = finding.reason, finding.place
    where = f"{place.file}:{place.line}:{place.column}"
    yield line(where, ": ", word, ": ", indented(reason.message, 4), f"  [{finding.code}]")
    about = " ".join(part for part in (reason.subject, field_path(place.path)) if part)
    for label, text in (("in", about), ("why", finding.why), ("do", reason.remedy)):
        if text:
            yield line(f"    {label:<5}", indented(text, _MARGIN))


def _sum(report: LintReport, problems: Sequence[Problem], counts: tuple[int, int], *, verbose: bool) -> str:
    files, repaired = counts
    looked_at = f"{counted(report.objects, 'object')} in {counted(files, 'file')}"
    bad = {severity: report.count(severity) for severity in Severity}
    counts_by_severity = [counted(number, severity.value) for severity, number in bad.items() if number]
    if not verbose and bad[Severity.NOTE]:
        counts_by_severity[-1] += " (-v)"
    unread = [f"{counted(len(problems), 'problem')} in unreadable parts"] if problems else []
    nothing = "nothing else wrong" if problems else "nothing wrong" if report.judged else "nothing judged"
    parts = (
        [f"{', '.join(counts_by_severity)} in {looked_at}"]
        if counts_by_severity
        else [*unread, f"{nothing} in {looked_at}"]
    )
    partly, none = sum(part.partly for part in report.unjudged), report.objects - report.judged
    if partly:
        parts.append(f"{partly} judged in part{'' if verbose else ' (-v)'}")
    if none and (report.judged or counts_by_severity):
        parts.append(f"{none} not judged")
    if repaired:
        parts.append(f"{counted(repaired, 'file')} repaired")
    fixable = sum(finding.fixable for finding in report.located)
    if fixable:
        parts.append(f"{fixable} can be repaired: --fix")
    if counts_by_severity:
        parts += unread
    return "; ".join(parts)
