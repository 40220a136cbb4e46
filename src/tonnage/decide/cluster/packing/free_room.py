"""The free room of machines as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.model.trace import MOST_GPUS, WHOLE_GPU, TraceJob, TraceMachine

Rows: TypeAlias = NDArray[np.intp]
Amounts: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]


class Room:
    """What is free, a row a machine. `gpu` has a column a GPU; a GPU that is not there is never free."""

    def __init__(self, machines: Sequence[TraceMachine]) -> None:
        self.cpu: Amounts = np.array([m.cpu for m in machines], np.int64)
        self.memory: Amounts = np.array([m.memory for m in machines], np.int64)
        self.gpu: Amounts = np.array(
            [[WHOLE_GPU] * m.gpus + [0] * (MOST_GPUS - m.gpus) for m in machines], np.int64
        ).reshape(-1, MOST_GPUS)
        self.models = tuple(dict.fromkeys(m.model for m in machines))
        self.model: NDArray[np.intp] = np.array([self.models.index(m.model) for m in machines], np.intp)
        self.capacity = int(self.gpu.sum())
        self.whole_machine: Amounts = (self.gpu > 0).sum(1)
        self.kinds = np.zeros((len(machines), KINDS), np.int64)
        """How many jobs of each kind (`kind_of`) a machine has; jobs without a GPU are of none."""

    def __len__(self) -> int:
        return len(self.cpu)

    def accessible(self, job: TraceJob) -> Mask:
        """By model: whether it will do."""
        return np.array([not job.models or model in job.models for model in self.models], bool)

    def fits(self, job: TraceJob, rows: Rows) -> Mask:
        """Which of the rows have room."""
        mask = (self.cpu[rows] >= job.cpu) & (self.memory[rows] >= job.memory)
        if job.gpus:
            mask &= (self.gpu[rows] >= job.milli).sum(1) >= job.gpus
            mask &= self.accessible(job)[self.model[rows]]
        return mask

    def take(self, job: TraceJob, row: int, gpu: int) -> None:
        """Put the job there; a part of a GPU on the one given, whole ones on the first that are free."""
        self.cpu[row] -= job.cpu
        self.memory[row] -= job.memory
        if job.gpus:
            self.kinds[row, kind_of(job)] += 1
        if job.shares:
            self.gpu[row, gpu] -= job.milli
        elif job.gpus:
            self.gpu[row, np.flatnonzero(self.gpu[row] == WHOLE_GPU)[: job.gpus]] = 0


_SIZES: Final = (1, 2, 4, 8)
KINDS: Final = len(_SIZES) + 2
"""1, 2, 4, 8 GPUs, another number, a part of one."""


def kind_of(job: TraceJob) -> int:
    """The kind of a job that asks for GPUs."""
    if job.shares:
        return KINDS - 1
    return _SIZES.index(job.gpus) if job.gpus in _SIZES else KINDS - 2
