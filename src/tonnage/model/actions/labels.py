"""Labels as lines for node feature discovery: what `LabelLines` does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tonnage.model.actions.retry import Retry


@dataclass(frozen=True, slots=True)
class WriteLabels:
    """Have these labels in that file, and no file without any; an empty name: on standard output."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    file: str
    labels: tuple[tuple[str, str], ...]
