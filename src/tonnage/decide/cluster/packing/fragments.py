"""Fragmentation: free GPU that the jobs which typically come could not use.

Source: Weng et al., "Beware of Fragmentation", USENIX ATC 2023.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tonnage.decide.cluster.packing.free_room import Amounts, Mask, Room
from tonnage.model.trace import TraceJob

_COVERED: Final = 0.95


@dataclass(frozen=True, slots=True)
class Typical:
    """Shapes of jobs with their shares (they add up to 1), most frequent first."""

    shapes: tuple[TraceJob, ...]
    shares: NDArray[np.float64]


def typical_of(jobs: Iterable[TraceJob]) -> Typical:
    """The most frequent shapes that together make 95 % of the jobs; memory does not tell shapes apart."""
    counts = Counter(replace(job, memory=0) for job in jobs)
    total, covered = counts.total(), 0
    covering: list[tuple[TraceJob, int]] = []
    for job, count in counts.most_common():
        if covered >= _COVERED * total:
            break
        covering.append((job, count))
        covered += count
    shares = np.array([count for _, count in covering], float)
    return Typical(tuple(job for job, _ in covering), shares / max(1, covered))


class Fragments:
    """Measures room for given typical jobs."""

    def __init__(self, typical: Typical, room: Room) -> None:
        shapes = typical.shapes
        self._shares = typical.shares
        self._cpu: Amounts = np.array([job.cpu for job in shapes], np.int64)
        self._gpus: Amounts = np.array([job.gpus for job in shapes], np.int64)
        self._milli, self._which = np.unique([job.milli for job in shapes], return_inverse=True)
        self._no_gpu: Mask = self._gpus == 0
        self._accessible: Mask = np.array([room.accessible(job) for job in shapes], bool).T

    def of(self, gpu: Amounts, cpu: Amounts, model: NDArray[np.intp]) -> NDArray[np.float64]:
        """Thousandths of a GPU that are fragments, in the mean over typical jobs.

        `gpu` is [..., 8]; `cpu` and `model` (an index into `Room.models`) have the shape of its other axes.
        """
        free = gpu.sum(-1)
        large = gpu[..., None, :] >= self._milli[:, None]
        enough = large.sum(-1)[..., self._which] >= self._gpus
        small = free[..., None] - np.where(large, gpu[..., None, :], 0).sum(-1)
        usable = enough & (cpu[..., None] >= self._cpu) & self._accessible[model] & ~self._no_gpu
        wasted = np.where(usable, small[..., self._which], free[..., None])
        expected: NDArray[np.float64] = wasted @ self._shares
        return expected
