"""How a lab reads: each step's command, what was expected, what was seen; and the same as JSON. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.cli.lab.checks import Check
from tonnage.cli.terminal.output import SafeText, indented, line, lines, printable, styled
from tonnage.documents.lab.steps import Lab, LabStep
from tonnage.model.json import JsonObject

_LONGEST_LINES: Final = 32
_LONGEST_JSON: Final = 8
_MARGIN: Final = "  "


@dataclass(frozen=True, slots=True)
class StepReport:
    """One step as it went. `attempts` is 0 for a step that was not run because an earlier one failed."""

    title: str
    command: str
    exit_status: int | None = None
    stdout: str = ""
    stderr: str = ""
    attempts: int = 0
    duration_s: float = 0.0
    checks: tuple[Check, ...] = ()

    @property
    def skipped(self) -> bool:
        """Whether the step was not run."""
        return self.attempts == 0

    @property
    def passed(self) -> bool:
        """Whether it was run and everything came true."""
        return not self.skipped and all(check.passed for check in self.checks)


@dataclass(frozen=True, slots=True)
class LabReport:
    """A whole run. A failed clean-up fails the lab: it left something behind."""

    name: str
    title: str
    covers: tuple[str, ...]
    server: str
    kubectl: str
    steps: tuple[StepReport, ...]
    cleanup: tuple[StepReport, ...]
    duration_s: float

    @property
    def passed(self) -> bool:
        """Whether every step and every clean-up step passed."""
        return all(step.passed for step in (*self.steps, *self.cleanup))

    def as_json(self) -> JsonObject:
        """The report for scripts."""
        return {
            "lab": self.name,
            "title": self.title,
            "covers": list(self.covers),
            "passed": self.passed,
            "kubectl": self.kubectl,
            "server": self.server,
            "durationS": round(self.duration_s, 3),
            "steps": [_step_json(step) for step in self.steps],
            "cleanup": [_step_json(step) for step in self.cleanup],
        }


def _step_json(step: StepReport) -> JsonObject:
    return {
        "title": step.title,
        "command": step.command,
        "passed": step.passed,
        "skipped": step.skipped,
        "exitStatus": step.exit_status,
        "stdout": step.stdout,
        "stderr": step.stderr,
        "attempts": step.attempts,
        "durationS": round(step.duration_s, 3),
        "checks": [dataclasses.asdict(check) for check in step.checks],
    }


def _prose(text: str, width: int | None) -> list[str]:
    """A text by its lines; where a terminal is too narrow for them by its paragraphs."""
    rows = text.strip().splitlines()
    if width is not None and any(len(_MARGIN + row) > width for row in rows) and not _is_laid_out(rows):
        rows = [" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n")]
    return [_MARGIN + row for row in rows]


def _is_laid_out(rows: Sequence[str]) -> bool:
    """Whether its lines are more than wrapped: a list or an example."""
    return any(row.startswith((" ", "-", "*")) for row in rows)


def render_head(lab: Lab, folder: str, where: str, width: int | None = None) -> SafeText:
    """What stands above the steps. `width`: the terminal's columns."""
    rows = [
        styled(f"Lab {lab.name}: {lab.title}", bold=True),
        *_prose(lab.description, width),
        f"  covers {', '.join(lab.covers)}" if lab.covers else "",
        line("  ", where),
        line("  cd ", folder),
    ]
    return lines(row for row in rows if row)


def render_command(step: LabStep, number: int, total: int, width: int | None = None) -> SafeText:
    """What stands above a step while it runs: title, reason, and the command to paste."""
    title = styled(f"[{number}/{total}] {step.title}".rstrip(), bold=True)
    reason = _prose(step.explain, width)
    command = "\n    ".join(row.strip() for row in step.run.strip().splitlines())
    acting = [f"  as user {step.user}: --as {step.user}"] if step.user else []
    return lines(["", title, *reason, *acting, line("  $ ", styled(printable(command), fg="cyan"))])


def render_outcome(report: StepReport, *, whole: bool = False) -> SafeText:
    """What stands below a step once it has run: what was seen, then each expectation with ✓ or ✗."""
    shown = _printed(report) if whole else trimmed(report)
    return lines([*(f"    {row}" for row in shown), *_marks(report)])


def _marks(report: StepReport) -> Iterator[str]:
    for check in report.checks:
        if check.passed:
            yield line("  ", styled("✓", fg="green"), f" {check.expected}")
        else:
            yield line("  ", styled("✗", fg="red", bold=True), f" {check.expected}")
            yield line("      seen: ", indented(check.seen, 12))
    if report.attempts > 1:
        yield f"    (after {report.duration_s:.1f} s, {report.attempts} tries)"


def _printed(report: StepReport) -> tuple[str, ...]:
    return (*report.stdout.rstrip().splitlines(), *report.stderr.rstrip().splitlines())


def trimmed(report: StepReport) -> tuple[str, ...]:
    """The output without its middle when long; of long JSON its length: the checks say what matters."""
    shown = _printed(report)
    if len(shown) > _LONGEST_JSON and not report.stderr and (shown[0][:1], shown[-1]) == ("{", "}"):
        return (f"{{... {len(shown)} lines of JSON ...}}",)
    if len(shown) <= _LONGEST_LINES:
        return shown
    head, tail = shown[: _LONGEST_LINES - 9], shown[-8:]
    return (*head, f"... {len(shown) - len(head) - len(tail)} lines ...", *tail)


def render_summary(report: LabReport) -> SafeText:
    """The last line."""
    total = len(report.steps)
    passed = sum(step.passed for step in report.steps)
    took = f"{report.duration_s:.1f} s"
    if report.passed:
        summary = f"Lab {report.name} passed: {passed} of {total} steps in {took}."
        return lines(["", styled(summary, fg="green")])
    failed = next((step for step in (*report.steps, *report.cleanup) if not step.passed), None)
    where = f" First failure: {failed.title or failed.command}." if failed else ""
    summary = f"Lab {report.name} failed: {passed} of {total} steps passed in {took}.{where}"
    return lines(["", styled(summary, fg="red")])
