"""Policies: each rates machines for a job, higher is better; equals go to the first machine.

A rating is an integer. With it goes the GPU that a job that takes a part of one would get.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tonnage.decide.cluster.packing.fragments import Fragments
from tonnage.decide.cluster.packing.free_room import Amounts, Room, Rows, kind_of
from tonnage.model.trace import MOST_GPUS, WHOLE_GPU, TraceJob

_CPU: Final = 128_000
_GPU: Final = MOST_GPUS * WHOLE_GPU
_FINE: Final = 10_000


class PackingPolicy(Protocol):
    """Rates rows that have room for the job: (ratings, index of the GPU)."""

    def __call__(self, job: TraceJob, room: Room, rows: Rows, /) -> tuple[Amounts, Amounts]:
        """The arrays have an entry a row."""
        ...


def tightest(job: TraceJob, room: Room, rows: Rows) -> Amounts:
    """The GPU with the least room that is enough, of those of each row."""
    free = room.gpu[rows]
    columns: Amounts = np.where(free >= job.milli, free, WHOLE_GPU + 1).argmin(1)
    return columns


def best_fit(job: TraceJob, room: Room, rows: Rows) -> tuple[Amounts, Amounts]:
    """The less CPU and GPU is left, the better."""
    return (100 * _left(job, room, rows)).astype(np.int64), tightest(job, room, rows)


def _left(job: TraceJob, room: Room, rows: Rows) -> NDArray[np.float64]:
    cpu = (room.cpu[rows] - job.cpu) / _CPU
    gpu = (room.gpu[rows].sum(1) - job.gpu_total) / _GPU
    left: NDArray[np.float64] = 1 - cpu / 2 - gpu / 2
    return left


def dot_product(job: TraceJob, room: Room, rows: Rows) -> tuple[Amounts, Amounts]:
    """The less what is free resembles what is asked, the better."""
    cpu = room.cpu[rows] / _CPU * (job.cpu / _CPU)
    gpu = room.gpu[rows].sum(1) / _GPU * (job.gpu_total / _GPU)
    return (100 * (1 - (cpu + gpu) / 2)).astype(np.int64), tightest(job, room, rows)


def gpu_packing(job: TraceJob, room: Room, rows: Rows) -> tuple[Amounts, Amounts]:
    """A GPU that is shared already, then a machine in use, then an idle one."""
    free = room.gpu[rows]
    if not job.gpus:
        return np.zeros(len(rows), np.int64), tightest(job, room, rows)
    unused = (free == WHOLE_GPU).sum(1)
    idle = unused == room.whole_machine[rows]
    ratings = np.where(idle, 33 - unused, 50 - unused)
    if job.shares:
        shared = np.where((free < WHOLE_GPU) & (free >= job.milli), free, WHOLE_GPU + 1)
        least = shared.min(1)
        ratings = np.where(least <= WHOLE_GPU, 100 - least // 10, ratings)
    return ratings, tightest(job, room, rows)


def gpu_clustering(job: TraceJob, room: Room, rows: Rows) -> tuple[Amounts, Amounts]:
    """Machines whose jobs ask for as many GPUs as this one, then empty ones."""
    if not job.gpus:
        return np.zeros(len(rows), np.int64), tightest(job, room, rows)
    kinds = room.kinds[rows] > 0
    ratings = np.where(kinds[:, kind_of(job)], 100, np.where(kinds.any(1), 0, 50))
    return ratings, tightest(job, room, rows)


class FragmentGradient:
    """Fragmentation gradient descent (FGD): the less fragmentation grows, the better.

    Steps a thousand thousandths of growth are squeezed into `levels` by a sigmoid: what differs by less is
    equal, and equals go to the first machine, so that machines fill up one after the other. With `tight`,
    equals go to the tightest fit first.
    """

    def __init__(self, fragments: Fragments, *, levels: int, tight: bool) -> None:
        self._fragments = fragments
        self._levels = levels
        self._tight = tight

    def __call__(self, job: TraceJob, room: Room, rows: Rows) -> tuple[Amounts, Amounts]:
        """Each GPU that has room is tried."""
        gpu, cpu, model = room.gpu[rows], room.cpu[rows], room.model[rows]
        before = self._fragments.of(gpu, cpu, model)
        if job.shares:
            after = gpu[:, None, :] - job.milli * np.eye(MOST_GPUS, dtype=np.int64)
            there = np.broadcast_to((cpu - job.cpu)[:, None], gpu.shape)
            models = np.broadcast_to(model[:, None], gpu.shape)
            grown = self._fragments.of(np.maximum(after, 0), there, models)
            levels = np.where(gpu >= job.milli, self._level(before[:, None] - grown), -1)
            chosen = levels.argmax(1)
            ratings = levels[np.arange(len(rows)), chosen]
        else:
            chosen = np.zeros(len(rows), np.int64)
            after = gpu.copy()
            if job.gpus:
                whole = gpu == WHOLE_GPU
                after[whole & (whole.cumsum(1) <= job.gpus)] = 0
            ratings = self._level(before - self._fragments.of(after, cpu - job.cpu, model))
        if self._tight:
            ratings = ratings * _FINE + (_FINE * _left(job, room, rows)).astype(np.int64)
        return ratings, chosen

    def _level(self, gain: NDArray[np.float64]) -> Amounts:
        return (self._levels / (1 + np.exp(-gain / WHOLE_GPU))).astype(np.int64)


PLAIN: Final[Mapping[str, PackingPolicy]] = {
    "DotProd": dot_product,
    "GpuClustering": gpu_clustering,
    "GpuPacking": gpu_packing,
    "BestFit": best_fit,
}
"""Policies that need nothing but the room."""
