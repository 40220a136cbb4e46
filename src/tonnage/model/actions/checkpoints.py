"""Changes of what survives a crash: what `Checkpoints` does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from tonnage.model.actions.retry import Retry


@dataclass(frozen=True, slots=True)
class SaveCheckpoint:
    """Replace a checkpoint whole, `lasting` beyond a loss of power."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    name: str
    payload: bytes = field(repr=False)
    lasting: bool = True


@dataclass(frozen=True, slots=True)
class AddRow:
    """Add a row to a checkpoint. Of rows about the same subject the last counts."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    name: str
    row: bytes = field(repr=False)


CheckpointAction: TypeAlias = SaveCheckpoint | AddRow
