"""Files by which other programs of the node see how its parts stand: what `StatusFiles` does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from tonnage.model.actions.retry import Retry


@dataclass(frozen=True, slots=True)
class ShowStatusFiles:
    """Have these files on the host, by path, and none of `absent`."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    files: tuple[tuple[str, str], ...]
    absent: tuple[str, ...] = field(default=())
