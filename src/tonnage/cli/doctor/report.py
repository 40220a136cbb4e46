"""Doctor's report for a tired person: what fails first and what to type, then a line for each layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.cli.terminal.output import SafeText, indented, line, lines, styled
from tonnage.cli.terminal.tables import columns
from tonnage.diagnose.doctor.finding import DoctorReport, Judgement, NodeFinding, State, counted
from tonnage.model.severity import Severity

_WORDS: Final = {State.OK: "ok", State.FAILS: "FAILS", State.WARNS: "warns", State.UNKNOWN: "not judged"}
_COLOURS: Final = {State.OK: "green", State.FAILS: "red", State.WARNS: "yellow", State.UNKNOWN: "magenta"}
_MARGIN: Final = 10
_MARKS: Final = {Severity.ERROR: "✗", Severity.WARNING: "!", Severity.NOTE: "·"}
_MARK_COLOURS: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def rendered(report: DoctorReport, *, verbose: bool = False, colour: bool = False) -> SafeText:
    """The whole answer. Notes are counted, and shown when `verbose`."""
    rows = [_headline(report), ""]
    shown = [entry for entry in report.findings if verbose or entry.severity is not Severity.NOTE]
    first = report.first
    ordered = sorted(shown, key=lambda entry: first is None or entry.reason.node_layer is not first.layer)
    for finding in ordered:
        rows += [*_finding(finding, colour=colour), ""]
    rows.append(_layers(report, colour=colour))
    hidden = len(report.findings) - len(shown)
    if hidden:
        rows += ["", f"{counted(hidden, 'note')} not shown: -v"]
    return lines(rows)


def _headline(report: DoctorReport) -> str:
    node = report.node or "this machine"
    unjudged = [layer.layer.value for layer in report.layers if layer.state is State.UNKNOWN]
    first = report.first
    if first is not None:
        more = len([finding for finding in report.findings if finding.severity is not Severity.NOTE]) - 1
        verb = "fails" if first.state is State.FAILS else "warns"
        others = f"; {counted(more, 'more finding')} below" if more else ""
        return f"{node}: the {first.layer.value} layer {verb} first{others}"
    if unjudged:
        return f"{node}: found nothing wrong; not judged: {', '.join(unjudged)}"
    return f"{node}: healthy"


def _finding(finding: NodeFinding, *, colour: bool) -> Iterator[str]:
    mark = _MARKS[finding.severity]
    if colour:
        mark = styled(mark, fg=_MARK_COLOURS[finding.severity], bold=True)
    yield line(
        *(mark, f" {finding.reason.node_layer.value}: ", indented(finding.reason.message, 4)),
        f"  [{finding.code}]",
    )
    for label, text in (("where", finding.place), ("why", finding.why), ("do", finding.reason.remedy)):
        if text:
            yield line(f"    {label:<6}", indented(text, _MARGIN))


def _layers(report: DoctorReport, *, colour: bool) -> SafeText:
    rows = [(layer.layer.value, _word(layer), _words(layer)) for layer in report.layers]
    text = columns(("LAYER", "STATE", "WHAT"), rows)
    if not colour:
        return text
    head, *below = text.split("\n")
    width = head.index("WHAT")
    start = head.index("STATE")
    coloured = [
        line(row[:start], styled(row[start:width], fg=_COLOURS[layer.state]), row[width:])
        for row, layer in zip(below, report.layers, strict=True)
    ]
    return lines([head, *coloured])


def _word(layer: Judgement) -> str:
    """How it is; UNKNOWN where it would be judged if what tells were allowed to be read."""
    return "UNKNOWN" if layer.unseen else _WORDS[layer.state]


def _words(layer: Judgement) -> str:
    text = f"because {layer.because}" if layer.because else layer.summary
    return text.replace("\n", " ")
