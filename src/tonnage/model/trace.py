"""Machines and jobs of a recorded or invented trace, for trying out policies of placement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WHOLE_GPU: Final = 1000
"""Thousandths of a GPU."""
MOST_GPUS: Final = 8


@dataclass(frozen=True, slots=True)
class TraceMachine:
    """CPU in thousandths of a core, memory in MiB, up to 8 GPUs of one model."""

    name: str
    cpu: int
    memory: int
    gpus: int
    model: str = ""


@dataclass(frozen=True, slots=True)
class TraceJob:
    """What a job asks. `milli` is of each of its `gpus`; less than a whole one only of a single GPU.

    No `models`: any will do.
    """

    cpu: int
    memory: int
    gpus: int
    milli: int
    models: frozenset[str] = frozenset()

    @property
    def gpu_total(self) -> int:
        """Thousandths of a GPU in sum."""
        return self.gpus * self.milli

    @property
    def shares(self) -> bool:
        """Whether it takes a part of a GPU."""
        return self.gpus == 1 and self.milli < WHOLE_GPU
