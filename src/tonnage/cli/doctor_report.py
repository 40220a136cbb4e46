"""Doctor's report for a tired person: what fails first and what to type, then a line for each layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from tonnage.cli.output import printable, table
from tonnage.diagnose.doctor.finding import Finding, Judgement, Report, State, counted
from tonnage.model.severity import Severity

_WORDS: Final = {State.OK: "ok", State.FAILS: "FAILS", State.WARNS: "warns", State.UNKNOWN: "not judged"}
_COLOURS: Final = {State.OK: "green", State.FAILS: "red", State.WARNS: "yellow", State.UNKNOWN: "magenta"}
_MARKS: Final = {Severity.ERROR: "✗", Severity.WARNING: "!", Severity.NOTE: "·"}
_MARK_COLOURS: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def rendered(report: Report, *, verbose: bool = False, colour: bool = False) -> str:
    """The whole answer. Notes are counted, and shown when `verbose`."""
    lines = [_headline(report), ""]
    shown = [each for each in report.findings if verbose or each.severity is not Severity.NOTE]
    first = report.first
    ordered = sorted(shown, key=lambda each: first is None or each.layer is not first.layer)
    for finding in ordered:
        lines += [*_finding(finding, colour=colour), ""]
    lines.append(_layers(report, colour=colour))
    hidden = len(report.findings) - len(shown)
    if hidden:
        lines += ["", f"{counted(hidden, 'note')} not shown: -v"]
    return "\n".join(lines)


def _headline(report: Report) -> str:
    node = printable(report.node) or "this machine"
    unjudged = [layer.layer.value for layer in report.layers if layer.state is State.UNKNOWN]
    first = report.first
    if first is not None:
        more = len([each for each in report.findings if each.severity is not Severity.NOTE]) - 1
        verb = "fails" if first.state is State.FAILS else "warns"
        others = f"; {counted(more, 'more finding')} below" if more else ""
        return f"{node}: the {first.layer.value} layer {verb} first{others}"
    if unjudged:
        return f"{node}: nothing wrong was found; not judged: {', '.join(unjudged)}"
    return f"{node}: healthy"


def _finding(finding: Finding, *, colour: bool) -> Iterator[str]:
    mark = _MARKS[finding.severity]
    if colour:
        mark = click.style(mark, fg=_MARK_COLOURS[finding.severity], bold=True)
    yield f"{mark} {finding.layer.value}: {printable(finding.what)}  [{finding.code.value}]"
    for label, text in (("where", finding.where), ("why", finding.why), ("do", finding.remedy)):
        if text:
            yield f"    {label:<6}{_indented(text)}"


def _indented(text: str) -> str:
    return printable(text).replace("\n", "\n          ")


def _layers(report: Report, *, colour: bool) -> str:
    rows = [(layer.layer.value, _WORDS[layer.state], _words(layer)) for layer in report.layers]
    text = table(("LAYER", "STATE", "WHAT"), rows)
    if not colour:
        return text
    head, *lines = text.split("\n")
    width = head.index("WHAT")
    start = head.index("STATE")
    styled = [
        line[:start] + click.style(line[start:width], fg=_COLOURS[layer.state]) + line[width:]
        for line, layer in zip(lines, report.layers, strict=True)
    ]
    return "\n".join([head, *styled])


def _words(layer: Judgement) -> str:
    text = f"because {layer.because}" if layer.because else layer.summary
    return printable(text).replace("\n", " ")
