"""What `tonnage up` was asked for, in this process or in one of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tonnage.cli.state import EngineName


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What was asked for."""

    scenario: str
    nodes: int | None
    port: int | None
    """None: the one that a kept cluster had, else any that is free."""
    state: Path
    lab: str | None = None
    engine: EngineName = "twin"
    light_nodes: int | None = None
    keeps: bool = False
    """Whether the state folder keeps the cluster for the next start."""
