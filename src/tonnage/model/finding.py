"""A finding: a reason at the place where it is seen. Doctor finds them on a node, lint in manifests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from tonnage.model.reasons.reason import Reason
from tonnage.model.severity import Severity

R = TypeVar("R", bound=Reason)
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Finding(Generic[R, P]):
    """What is wrong and what to do (`reason`), how bad it is there, where it is seen, and why it matters."""

    reason: R
    severity: Severity
    place: P
    why: str = ""

    @property
    def code(self) -> str:
        """The code that is printed: an alias, where scripts know the reason by that."""
        return self.reason.alias or self.reason.code
