"""What a registry says of an image."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class TagState(Enum):
    """Whether an image exists."""

    EXISTS = "exists"
    MISSING = "missing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ImageAnswer:
    """`why` is why nothing is known."""

    state: TagState
    why: str = ""
