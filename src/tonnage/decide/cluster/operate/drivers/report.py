"""What is to be said of drivers: conditions of their policies, and a line for each node that waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from tonnage.decide.cluster.operate.drivers.node_upgrade import UpgradingNode
from tonnage.decide.cluster.operate.drivers.states import UNDER_WAY, UpgradeState
from tonnage.decide.cluster.operate.policy_status import of_fields, stamped
from tonnage.model.drivers.policy import DriverPolicy
from tonnage.model.json import JsonObject
from tonnage.model.json_access import mappings, text
from tonnage.model.reasons.cluster.drivers import (
    DriverImageUnknown,
    DriverReason,
    HostDriverConflict,
    PreflightReason,
)

PREFLIGHT: Final = "tonnage.dev/DriverPreflight"
UPGRADE: Final = "tonnage.dev/DriverUpgrade"
_MOST_NODES: Final = 20
_LONGEST: Final = 32_768
_STANDS: Final = (UpgradeState.FAILED, *UNDER_WAY, UpgradeState.REQUIRED)


@dataclass(frozen=True, slots=True)
class DriverReport:
    """One policy's drivers: its nodes, what stands against them, and for whom each waits."""

    members: tuple[UpgradingNode, ...] = ()
    problems: tuple[PreflightReason, ...] = ()
    waits: Mapping[str, str] = field(default_factory=dict)
    refusal: DriverReason | None = None
    """Of the policy itself."""

    @property
    def done(self) -> int:
        """Nodes whose driver is the one that the policy names, and runs."""
        return sum(member.current and member.pod is not None and member.pod.ready for member in self.members)

    @property
    def expected(self) -> int:
        """Nodes that are to have a driver container."""
        return sum(not self._is_blocked(member.node.name) for member in self.members)

    def _is_blocked(self, node: str) -> bool:
        return any(problem.blocks and problem.node == node for problem in self.problems)


def conditions_of(report: DriverReport) -> list[JsonObject]:
    """The preflight's condition and the upgrade's, without times."""
    return [_preflight(report), _upgrade(report)]


def conditions_without_drivers(status: JsonObject) -> list[JsonObject]:
    """What takes the place of those that a status still has, where a policy asks for no driver any more."""
    standing = {text(condition, "type") for condition in mappings(status, "conditions")}
    message = "the controller installs no driver for this policy"
    kinds = [kind for kind in (PREFLIGHT, UPGRADE) if kind in standing]
    return [_condition(kind, "Unknown", "NoDrivers", message) for kind in kinds]


def _preflight(report: DriverReport) -> JsonObject:
    """A line for each check that fails and each node of it, the blocking ones first, the policy's last."""
    ordered = sorted(
        report.problems, key=lambda problem: (not problem.blocks, not problem.node, problem.node)
    )
    if not ordered and report.refusal is not None:
        return _condition(PREFLIGHT, "Unknown", "InvalidPolicy", report.refusal.message)
    if not ordered:
        return _condition(
            PREFLIGHT, "True", "Passed", "nothing stands against the drivers that are asked for"
        )
    message = _lines([str(problem) for problem in ordered])
    status = "False" if any(p.blocks and not isinstance(p, HostDriverConflict) for p in ordered) else "True"
    if all(isinstance(problem, DriverImageUnknown) for problem in ordered):
        status = "Unknown"
    return _condition(PREFLIGHT, status, ordered[0].condition, message)


def _upgrade(report: DriverReport) -> JsonObject:
    if report.refusal is not None:
        stay = "the drivers of those nodes stay" if report.members else "drivers stay"
        message = f"{report.refusal.message}; {stay} as they are"
        return _condition(UPGRADE, "False", "InvalidPolicy", message)
    head = f"{report.done} of {report.expected} nodes run the driver that is asked for"
    states = {member.state for member in report.members}
    reason = next((state for state in _STANDS if state in states), None)
    lines = [f"{node}: {_state(report, node)}{wait}" for node, wait in sorted(report.waits.items()) if wait]
    message = _lines([head, *lines])
    if reason is None and report.done == report.expected:
        return _condition(UPGRADE, "True", "UpToDate", message)
    words = {UpgradeState.FAILED: "UpgradeFailed", UpgradeState.REQUIRED: "UpgradeWaits", None: "Waiting"}
    return _condition(UPGRADE, "False", words.get(reason, "UnderWay"), message)


def _state(report: DriverReport, node: str) -> str:
    member = next((member for member in report.members if member.node.name == node), None)
    return f"{member.state}, waits " if member is not None and member.state else "waits "


def _lines(lines: Sequence[str]) -> str:
    shown = list(lines[: _MOST_NODES + 1])
    more = len(lines) - len(shown)
    message = "\n".join([*shown, *([f"and {more} more"] if more else [])])
    return message if len(message) <= _LONGEST else f"{message[: _LONGEST - 1]}…"


def _condition(kind: str, status: str, reason: str, message: str) -> JsonObject:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def driver_status(
    policy: DriverPolicy, report: DriverReport, namespace: str, now: datetime, *, disabled: str = ""
) -> JsonObject | None:
    """The status of an NVIDIADriver to write; None where it stands. `disabled`: why it is unused."""
    problem = report.refusal.message if report.refusal is not None else ""
    ready = not disabled and not problem and report.done == report.expected
    state = "disabled" if disabled else "ready" if ready else "notReady"
    upgrade = conditions_of(report)
    why = disabled or problem or str(upgrade[1]["message"])
    reason = "Disabled" if disabled else "ConflictingNodeSelector" if problem else "DriverNotReady"
    conditions = [
        _condition("Ready", "True" if ready else "False", "Ready" if ready else reason, why),
        _condition(
            "Error",
            "True" if problem else "False",
            reason if problem else "Ready",
            problem,
        ),
        of_fields(policy.without_effect),
        *upgrade,
    ]
    status: JsonObject = {
        "state": state,
        "namespace": namespace,
        "conditions": stamped(policy.status, conditions, policy.generation, now),
    }
    return None if all(policy.status.get(key) == value for key, value in status.items()) else status
