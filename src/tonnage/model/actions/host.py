"""What the node's host is told to do around a MIG change: what `HostPrograms` runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from tonnage.model.actions.retry import LooksFirst, Retry
from tonnage.model.actions.subjects import service_subject
from tonnage.model.mig.hooks import MigHook


@dataclass(frozen=True, slots=True)
class RunHook:
    """Run the hook at that place among those of a name, such as `apply-start`, with `variables` besides."""

    retry: ClassVar[Retry] = Retry.NEVER

    name: str
    place: int
    hook: MigHook = field(repr=False)
    variables: tuple[tuple[str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class StopService(LooksFirst):
    """Stop a unit of systemd that was seen to run, and is to run again."""

    unit: str

    @property
    def subject(self) -> str:
        """The unit, which was seen to run."""
        return service_subject(self.unit)


@dataclass(frozen=True, slots=True)
class StartService:
    """Start a unit of systemd."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    unit: str


@dataclass(frozen=True, slots=True)
class RestartNode:
    """Restart the node, which ends this process; `boot` is the one that ends."""

    retry: ClassVar[Retry] = Retry.NEVER

    boot: str


HostAction: TypeAlias = RunHook | StopService | StartService | RestartNode
