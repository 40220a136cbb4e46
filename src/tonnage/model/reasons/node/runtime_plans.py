"""Why a container runtime is not configured as is asked for."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.errors import Problem
from tonnage.model.layer import Layer
from tonnage.model.reasons.reason import Reason, reason


@reason
class RuntimeNotConfigured(Reason):
    """`tonnage runtime` leaves the container runtime's configuration as it is."""

    code: ClassVar[str] = "runtime-not-configured"
    advice: ClassVar[str] = "do what the answer says"
    layer: Layer = Layer.RUNTIME
    subject: str = "container runtime"
    where: str = ""
    why: str = ""

    @property
    def problem(self) -> Problem:
        """The refusal as a person is shown it."""
        return Problem(self.message, self.where, self.why, self.remedy)


def not_configured(text: str, where: str = "", why: str = "", remedy: str = "") -> RuntimeNotConfigured:
    """The refusal in the order in which problems are written."""
    return RuntimeNotConfigured(message=text, where=where, why=why, remedy=remedy)


def not_read(problem: Problem) -> RuntimeNotConfigured:
    """The refusal that follows from a mistake in a file of the runtime."""
    return not_configured(problem.what, problem.where, problem.why, problem.remedy)


REASONS: Final[tuple[type[Reason], ...]] = (RuntimeNotConfigured,)
