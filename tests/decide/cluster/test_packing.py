"""Packing jobs: fragmentation against its definition, policies by example, a cache that changes nothing."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tonnage.decide.cluster.packing.arrivals import NOWHERE, Packer
from tonnage.decide.cluster.packing.experiment import POLICIES, Trace, carry_out
from tonnage.decide.cluster.packing.fragments import Fragments, Typical, typical_of
from tonnage.decide.cluster.packing.free_room import Room
from tonnage.decide.cluster.packing.policies import PLAIN, FragmentGradient, PackingPolicy
from tonnage.model.trace import TraceJob, TraceMachine

ANY = frozenset[str]()
WHOLE = TraceJob(4000, 0, 1, 1000)
HALF = TraceJob(4000, 0, 1, 500)
FOUR = TraceJob(8000, 0, 4, 1000)


def machines(random: Random, count: int) -> list[TraceMachine]:
    return [
        TraceMachine(
            f"m{n}",
            random.choice([8000, 64000, 96000]),
            random.choice([64_000, 512_000]),
            random.choice([0, 1, 2, 4, 8]),
            random.choice(["T4", "A10"]),
        )
        for n in range(count)
    ]


def jobs(random: Random, count: int) -> list[TraceJob]:
    found = []
    for _ in range(count):
        gpus = random.choice([0, 1, 1, 1, 2, 4, 8])
        milli = random.choice([200, 500, 810, 1000]) if gpus == 1 else 1000 if gpus else 0
        models = random.choice([ANY, ANY, ANY, frozenset({"T4"})])
        cpu, memory = random.choice([1000, 4000, 16000]), random.choice([0, 30_000])
        found.append(TraceJob(cpu, memory, gpus, milli, models))
    return found


def plainly(room: Room, row: int, typical: Typical) -> float:
    """The definition: over typical jobs, the mean of what they could not use of a machine."""
    free = [int(amount) for amount in room.gpu[row]]
    total = 0.0
    for job, share in zip(typical.shapes, typical.shares.tolist(), strict=True):
        reachable = not job.models or room.models[room.model[row]] in job.models
        enough = sum(amount >= job.milli for amount in free) >= job.gpus and room.cpu[row] >= job.cpu
        if job.gpus and reachable and enough:
            total += share * sum(amount for amount in free if amount < job.milli)
        else:
            total += share * sum(free)
    return total


@pytest.mark.parametrize("number", range(20))
def test_fragmentation_is_what_its_definition_says(number: int) -> None:
    random = Random(number)
    typical = typical_of(jobs(random, 60))
    room = Room(machines(random, 12))
    packer = Packer(room, PLAIN["BestFit"])
    for job in jobs(random, 15):
        packer.place(job)
    found = Fragments(typical, room).of(room.gpu, room.cpu, room.model)
    assert found == pytest.approx([plainly(room, row, typical) for row in range(len(room))])


def test_typical_jobs_are_the_frequent_ones_whatever_their_memory() -> None:
    many = [WHOLE] * 60 + [TraceJob(4000, 7, 1, 500)] * 20 + [HALF] * 16 + [FOUR] * 4
    typical = typical_of(many)
    assert typical.shapes == (WHOLE, HALF)
    assert typical.shares == pytest.approx([60 / 96, 36 / 96])


def rated(policy: PackingPolicy, job: TraceJob, room: Room) -> list[int]:
    ratings, _ = policy(job, room, np.arange(len(room)))
    return [int(rating) for rating in ratings]


def taken(room: Room, *placed: tuple[TraceJob, int]) -> Room:
    for job, row in placed:
        room.take(job, row, 0)
    return room


@pytest.mark.parametrize(
    ("policy", "job", "best_first"),
    [
        pytest.param("BestFit", WHOLE, [1, 2, 0], id="best fit leaves the least"),
        pytest.param("GpuPacking", HALF, [1, 2, 0], id="packing: a shared GPU, then a machine in use"),
        pytest.param("GpuPacking", WHOLE, [2, 1, 0], id="packing: the machine in use with fewest free GPUs"),
        pytest.param("GpuClustering", HALF, [1, 0, 2], id="clustering: its like, then nobody, then others"),
    ],
)
def test_a_policy_prefers(policy: str, job: TraceJob, best_first: list[int]) -> None:
    """Machine 0 is empty, 1 has a shared GPU, 2 gave away four."""
    fleet = [TraceMachine(f"m{n}", 64_000, 10_000, 8, "T4") for n in range(3)]
    room = taken(Room(fleet), (HALF, 1), (FOUR, 2))
    if policy == "BestFit":
        room.cpu[:] = [64_000, 8_000, 8_000]
        room.gpu[1] = [1000, 0, 0, 0, 0, 0, 0, 0]
    ratings = rated(PLAIN[policy], job, room)
    assert sorted(range(3), key=lambda row: -ratings[row]) == best_first


def test_fgd_takes_the_gpu_whose_rest_somebody_can_use() -> None:
    """A job of 500 goes where 500 are left, not where its going would leave what typical jobs cannot use."""
    room = Room([TraceMachine("a", 64_000, 0, 2, "T4")])
    room.gpu[0, :2] = [1000, 500]
    fragments = Fragments(typical_of([HALF, WHOLE]), room)
    ratings, gpus = FragmentGradient(fragments, levels=100, tight=False)(HALF, room, np.array([0]))
    assert gpus.tolist() == [1]
    assert ratings[0] > 50


class Everywhere(Packer):
    """Rates every machine for every job."""

    def place(self, job: TraceJob) -> bool:
        self._rated.clear()
        return super().place(job)


@pytest.mark.parametrize("name", [*PLAIN, "FGD", "tight"])
@pytest.mark.parametrize("number", range(4))
def test_rating_only_what_changed_changes_nothing(name: str, number: int) -> None:
    random = Random(f"{name}/{number}")
    fleet, queue = machines(random, 15), jobs(random, 12)
    queue = [random.choice(queue) for _ in range(150)]
    found = []
    for kind in (Packer, Everywhere):
        room = Room(fleet)
        policy: PackingPolicy = PLAIN.get(
            name, FragmentGradient(Fragments(typical_of(queue), room), levels=50, tight=name == "tight")
        )
        packer = kind(room, policy)
        found.append(([packer.place(job) for job in queue], room.gpu.tolist(), room.cpu.tolist()))
        assert (room.gpu >= 0).all() and (room.cpu >= 0).all() and (room.memory >= 0).all()  # noqa: PT018
    assert found[0] == found[1]
    assert True in found[0][0]
    assert False in found[0][0]


@pytest.mark.parametrize("policy", POLICIES)
def test_an_experiment_can_be_had_again(policy: str) -> None:
    random = Random(5)
    trace = Trace(tuple(machines(random, 20)), tuple(jobs(random, 60)), 130)
    first, again = (carry_out(trace, policy, (50, 100, 130), Random(1)) for _ in range(2))
    assert first == again
    assert 0 < first.allocated[50] <= first.allocated[100] <= first.allocated[130] <= 100
    assert 0 < first.refused < first.arrived
    assert carry_out(trace, policy, (130,), Random(2)) != first


def test_nothing_to_place_is_said() -> None:
    nothing = Trace((TraceMachine("m", 1, 1, 0),), (WHOLE,), 100)
    with pytest.raises(ValueError, match="nothing to place"):
        carry_out(nothing, "FGD", (100,), Random(1))
    assert NOWHERE < 0
