"""One order of arrival, one policy: how much of the GPUs is given out as more and more is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from tonnage.decide.cluster.packing.arrivals import AtRandom, Packer, play
from tonnage.decide.cluster.packing.fragments import Fragments, typical_of
from tonnage.decide.cluster.packing.free_room import Room
from tonnage.decide.cluster.packing.policies import PLAIN, FragmentGradient
from tonnage.model.trace import TraceJob, TraceMachine

T = TypeVar("T")

MOST_JOBS: Final = 2_000_000
RANDOM: Final = "Random"
FGD: Final = "FGD"
OURS: Final = "Tonnage"
POLICIES: Final = (RANDOM, *PLAIN, FGD, OURS)


class Dice(Protocol):
    """What chance is asked; `random.Random` is one."""

    def shuffle(self, values: MutableSequence[T], /) -> None:
        """Bring into another order."""
        ...

    def randrange(self, stop: int, /) -> int:
        """One of 0..stop-1."""
        ...


@dataclass(frozen=True, slots=True)
class Trace:
    """Machines, and jobs that are drawn from again and again until `percent` of the GPUs are asked for."""

    machines: tuple[TraceMachine, ...]
    jobs: tuple[TraceJob, ...]
    percent: int


@dataclass(frozen=True, slots=True)
class PackingOutcome:
    """Percent of the GPUs given out, by the percent asked for; and jobs that found no room."""

    allocated: Mapping[int, float]
    arrived: int
    refused: int


def carry_out(trace: Trace, policy: str, marks: Iterable[int], dice: Dice) -> PackingOutcome:
    """Machines and jobs come in a chosen order; ties go to the first machine of that order.

    Raises:
        ValueError: the machines have no GPU, or too few jobs ask for one.
    """
    machines, jobs = list(trace.machines), list(trace.jobs)
    dice.shuffle(machines)
    dice.shuffle(jobs)
    room = Room(machines)
    if not room.capacity or not any(job.gpus for job in jobs):
        raise ValueError("nothing to place: no machine has a GPU, or no job asks for one")
    queue = _until_full(jobs, room.capacity * trace.percent // 100, trace.jobs, dice)
    packer = _packer(policy, trace, room, dice)
    allocated: dict[int, float] = {}
    reached = sorted(mark for mark in marks if mark <= trace.percent)
    refused = total = 0
    for arrived in play(queue, packer):
        for mark in reached:
            if arrived.requested * 100 <= mark * room.capacity:
                allocated[mark] = 100 * arrived.allocated / room.capacity
        refused += not arrived.placed
        total = arrived.allocated
    return PackingOutcome(
        {mark: allocated.get(mark, 100 * total / room.capacity) for mark in reached}, len(queue), refused
    )


def _until_full(jobs: list[TraceJob], limit: int, pool: Sequence[TraceJob], dice: Dice) -> list[TraceJob]:
    """Jobs of the trace, then others drawn from it, as long as they ask for no more than the limit."""
    chosen: list[TraceJob] = []
    requested = 0
    for job in jobs:
        if requested + job.gpu_total > limit:
            return chosen
        chosen.append(job)
        requested += job.gpu_total
    while len(chosen) < MOST_JOBS:
        job = pool[dice.randrange(len(pool))]
        if requested + job.gpu_total > limit:
            return chosen
        chosen.append(job)
        requested += job.gpu_total
    raise ValueError(f"more than {MOST_JOBS} jobs would have to arrive: too few of them ask for a GPU")


def _packer(policy: str, trace: Trace, room: Room, dice: Dice) -> Packer | AtRandom:
    if policy == RANDOM:
        return AtRandom(room, dice.randrange)
    if policy in PLAIN:
        return Packer(room, PLAIN[policy])
    fragments = Fragments(typical_of(trace.jobs), room)
    tight = policy == OURS
    return Packer(room, FragmentGradient(fragments, levels=50 if tight else 100, tight=tight))
