"""Changes of the control daemons of MPS: what `MpsDaemons` does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from tonnage.model.actions.retry import Retry
from tonnage.model.devices.mps import MpsDaemon


@dataclass(frozen=True, slots=True)
class StartDaemon:
    """Start it, after whatever an earlier one left is gone."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    daemon: MpsDaemon


@dataclass(frozen=True, slots=True)
class StopDaemon:
    """End it, and whatever is left of it.

    `over`: its folder goes, too, which no container has mounted any more, nor ever will.
    """

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    daemon: MpsDaemon
    over: bool = False


@dataclass(frozen=True, slots=True)
class MarkReady:
    """Say in the folder of MPS whether every daemon there serves."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    root: str
    ready: bool


MpsAction: TypeAlias = StartDaemon | StopDaemon | MarkReady
