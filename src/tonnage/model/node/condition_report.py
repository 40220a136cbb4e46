"""What the agent says in a condition of its Node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HEALTHY: Final = "GPUsHealthy"
CONFIGURED: Final = "GPUConfigApplied"
MPS_READY: Final = "MPSReady"
MIG_APPLIED: Final = "MIGConfigApplied"
AGENT_CONDITIONS: Final = (HEALTHY, CONFIGURED, MPS_READY, MIG_APPLIED)
"""The types of those that agents write."""


@dataclass(frozen=True, slots=True)
class ConditionReport:
    """A NodeCondition without its type and times; `status` is True, False or Unknown.

    One that is Unknown is not written. `quiet`: only where this agent, or one before it, has said something
    else there.
    """

    status: str
    reason: str
    message: str = ""
    quiet: bool = False
