"""What doctor says: findings, each a reason with a stable code, and a judgement of every layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias

from tonnage.model.finding import Finding
from tonnage.model.json import JsonObject
from tonnage.model.layer import NodeLayer
from tonnage.model.reasons.reason import NodeReason
from tonnage.model.severity import Severity

AGENT_PODS: Final = "-n tonnage-system -l app.kubernetes.io/name=tonnage-agent"
"""Options of kubectl that name the agents' pods."""
NodeFinding: TypeAlias = Finding[NodeReason, str]
"""What is wrong on a node; its place is a file and line, or an object."""


def finding(
    reason: NodeReason, where: str = "", why: str = "", severity: Severity | None = None
) -> NodeFinding:
    """The reason at its place, as bad as its class says where no severity is given."""
    return Finding(reason, severity or reason.severity, where, why)


class State(StrEnum):
    """How a layer is. UNKNOWN: not judged, or only in part and nothing wrong was found."""

    OK = "ok"
    FAILS = "fails"
    WARNS = "warns"
    UNKNOWN = "unknown"


_ORDER: Final = tuple(Severity)
_THIS_HOST: Final = "$(hostname)"
"""In commands of remedies, where a shell on the node puts its name."""
_FORBIDDEN: Final = "objects were not read (forbidden)"


def unseen_kind(kind: str) -> str:
    """Why a layer is unknown that hangs on objects which the API server refuses to list."""
    return f"{kind} {_FORBIDDEN}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """One layer: what was found, what is there in a few words, and why it was not judged (in full)."""

    layer: NodeLayer
    findings: tuple[NodeFinding, ...] = ()
    summary: str = ""
    because: str = ""

    @property
    def state(self) -> State:
        """The worst of what was found."""
        severities = {finding.severity for finding in self.findings}
        if Severity.ERROR in severities:
            return State.FAILS
        if Severity.WARNING in severities:
            return State.WARNS
        return State.UNKNOWN if self.because else State.OK

    @property
    def unseen(self) -> bool:
        """Whether it is unknown because the API server refuses what would tell."""
        return self.state is State.UNKNOWN and self.because.endswith(_FORBIDDEN)

    def on(self, node: str) -> Judgement:
        """The same with reasons and commands that are about that node; empty: about this machine."""
        subject = f"Node {node}" if node else "this machine"
        reasons = [
            replace(
                finding.reason,
                subject=subject,
                remedy=finding.reason.remedy.replace(_THIS_HOST, node) if node else finding.reason.remedy,
            )
            for finding in self.findings
        ]
        findings = zip(self.findings, reasons, strict=True)
        return replace(self, findings=tuple(replace(finding, reason=reason) for finding, reason in findings))

    def to_json(self) -> JsonObject:
        """The layer as `doctor -o json` prints it."""
        return {
            "layer": self.layer.value,
            "state": self.state.value,
            "summary": self.summary,
            "because": self.because,
        }


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """Every layer that was looked at, in their order."""

    node: str
    layers: tuple[Judgement, ...]

    @property
    def findings(self) -> tuple[NodeFinding, ...]:
        """All of them: by layer, in one layer the worst first."""
        return tuple(
            finding
            for layer in self.layers
            for finding in sorted(layer.findings, key=lambda finding: _ORDER.index(finding.severity))
        )

    @property
    def first(self) -> Judgement | None:
        """The first layer that fails; of those that only warn the first, where none fails."""
        for state in (State.FAILS, State.WARNS):
            layer_found = next((layer for layer in self.layers if layer.state is state), None)
            if layer_found is not None:
                return layer_found
        return None

    @property
    def healthy(self) -> bool:
        """Whether nothing wrong was found; what could not be judged counts as neither."""
        return self.first is None

    def to_json(self) -> JsonObject:
        """The whole answer."""
        return {
            "node": self.node,
            "healthy": self.healthy,
            "first": self.first.layer.value if self.first else None,
            "layers": [layer.to_json() for layer in self.layers],
            "findings": [_finding_json(finding) for finding in self.findings],
        }


def _finding_json(finding: NodeFinding) -> JsonObject:
    """The finding as `doctor -o json` prints it."""
    return {
        "code": finding.code,
        "layer": finding.reason.node_layer.value,
        "severity": finding.severity.value,
        "what": finding.reason.message,
        "where": finding.place,
        "why": finding.why,
        "remedy": finding.reason.remedy,
    }


def counted(number: int, singular: str, many: str = "") -> str:
    """A number with its noun.

    >>> counted(1, "GPU"), counted(3, "GPU"), counted(2, "library", "libraries")
    ('1 GPU', '3 GPUs', '2 libraries')
    """
    return f"{number} {singular if number == 1 else many or f'{singular}s'}"


def listed(names: tuple[str, ...] | list[str], most: int = 4) -> str:
    """The first few, and how many more.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
