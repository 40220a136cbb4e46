"""The validation of a node: its stages, each after what it needs, and what came of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

PASSED: Final = 0
"""Exit status of the workload: it used its device."""
FAILED: Final = 1
INJECTED: Final = 3
"""The device is in the container; there was nothing to use it with."""


class NodeStage(StrEnum):
    """In the order in which one needs the one before."""

    DRIVER = "driver"
    RUNTIME = "runtime"
    PLUGIN = "plugin"
    WORKLOAD = "workload"


class Outcome(StrEnum):
    """How a stage stands. SKIPPED: nothing could be tried, and nothing speaks against the node."""

    PASSED = "passed"
    FAILED = "failed"
    WAITING = "waiting"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class StageResult:
    """A stage, how it stands, and a sentence about it."""

    stage: NodeStage
    outcome: Outcome
    message: str = ""


@dataclass(frozen=True, slots=True)
class NodeValidation:
    """What was validated, by what it depends on, and when the workload ran last; None: it never did."""

    subject: str = ""
    stages: tuple[StageResult, ...] = ()
    ran_at: datetime | None = None

    def of(self, stage: NodeStage) -> StageResult:
        """How a stage stands; one that nobody tried is waited for."""
        waiting = StageResult(stage, Outcome.WAITING)
        return next((stage_result for stage_result in self.stages if stage_result.stage is stage), waiting)
