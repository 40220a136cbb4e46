"""Jobs arrive one by one; each goes where the policy rates highest, or nowhere, and none ever ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tonnage.decide.cluster.packing.free_room import Amounts, Room
from tonnage.decide.cluster.packing.policies import PackingPolicy
from tonnage.model.trace import TraceJob

NOWHERE: Final = -1


@dataclass(frozen=True, slots=True)
class Arrived:
    """A job, placed or not, and the thousandths of a GPU that were asked for so far and that were given."""

    placed: bool
    requested: int
    allocated: int


@dataclass(slots=True)
class _Rated:
    """Ratings for one shape of jobs, with the number of placements that they know of."""

    ratings: Amounts
    gpus: Amounts
    placements: int = 0


@dataclass(slots=True)
class Packer:
    """Places jobs by a policy. Only machines that changed are rated again."""

    room: Room
    policy: PackingPolicy
    _placed: list[int] = field(default_factory=list)
    _rated: dict[TraceJob, _Rated] = field(default_factory=dict)

    def place(self, job: TraceJob) -> bool:
        """Whether there was room."""
        rated = self._rated.get(job)
        if rated is None:
            nowhere = np.full(len(self.room), NOWHERE, np.int64)
            rated = self._rated[job] = _Rated(nowhere, np.zeros(len(self.room), np.int64))
            self._rate(job, rated, np.arange(len(self.room)))
        elif rated.placements < len(self._placed):
            self._rate(job, rated, np.array(sorted(set(self._placed[rated.placements :])), np.intp))
        rated.placements = len(self._placed)
        row = int(rated.ratings.argmax())
        if rated.ratings[row] == NOWHERE:
            return False
        self.room.take(job, row, int(rated.gpus[row]))
        self._placed.append(row)
        return True

    def _rate(self, job: TraceJob, rated: _Rated, rows: NDArray[np.intp]) -> None:
        fits = self.room.fits(job, rows)
        rated.ratings[rows[~fits]] = NOWHERE
        rows = rows[fits]
        if len(rows):
            rated.ratings[rows], rated.gpus[rows] = self.policy(job, self.room, rows)


class AtRandom:
    """Places jobs anywhere. `pick` draws one of a number: pick(n) is in 0..n-1."""

    def __init__(self, room: Room, pick: Callable[[int], int]) -> None:
        self.room = room
        self._pick = pick

    def place(self, job: TraceJob) -> bool:
        """Whether there was room."""
        rows = np.flatnonzero(self.room.fits(job, np.arange(len(self.room))))
        if not len(rows):
            return False
        row = int(rows[self._pick(len(rows))])
        gpus = np.flatnonzero(self.room.gpu[row] >= job.milli)
        self.room.take(job, row, int(gpus[self._pick(len(gpus))]) if job.shares else 0)
        return True


def play(jobs: Iterable[TraceJob], packer: Packer | AtRandom) -> Iterator[Arrived]:
    """What stands after each job."""
    requested = allocated = 0
    for job in jobs:
        placed = packer.place(job)
        requested += job.gpu_total
        allocated += job.gpu_total if placed else 0
        yield Arrived(placed, requested, allocated)
