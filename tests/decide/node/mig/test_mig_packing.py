"""The fewest GPUs for a demand in MiB, against every division there is; MIG-6."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.node.mig.packing import Packing, pack
from tonnage.model.catalog.mig import MigModel, mig_model
from tonnage.model.mig.placements import placements
from tonnage.model.reasons.gpu.mig import MigMemoryShort


def board(name: str) -> MigModel:
    model = mig_model(name)
    assert model is not None
    return model


A100 = board("NVIDIA A100-SXM4-80GB")
A30 = board("NVIDIA A30")
A100_MIB = {
    "1g.10gb": 9856,
    "1g.20gb": 19968,
    "2g.20gb": 19968,
    "3g.40gb": 40192,
    "4g.40gb": 40192,
    "7g.80gb": 80384,
}
A30_MIB = {"1g.6gb": 5952, "2g.12gb": 11968, "4g.24gb": 24064}


def packed(geometry: MigModel, memory: Mapping[str, int], demand: Mapping[int, int]) -> Packing:
    packing = pack(geometry, memory, demand)
    assert isinstance(packing, Packing)
    return packing


@cache
def fitting(geometry: MigModel, names: tuple[str, ...]) -> frozenset[tuple[int, ...]]:
    """The numbers of devices that fit on a GPU together."""
    return frozenset(
        counts
        for counts in product(*(range(geometry.profiles[name].most + 1) for name in names))
        if placements(geometry, dict(zip(names, counts, strict=True))) is not None
    )


def by_trial(geometry: MigModel, memory: Mapping[str, int], demand: Mapping[int, int]) -> int:
    """The fewest GPUs, by serving one service after another in every way."""
    services = tuple(sorted((mib for mib, count in demand.items() for _ in range(count)), reverse=True))
    names = tuple(memory)
    fits = fitting(geometry, names)
    empty = (0,) * len(names)
    states: set[tuple[tuple[int, ...], ...]] = {()}  # the GPUs in use, as a sorted tuple of counts
    for mib in services:
        further = set()
        for state in states:
            for place, gpu in enumerate((*state, empty)):
                for index, name in enumerate(names):
                    grown = tuple(count + (i == index) for i, count in enumerate(gpu))
                    if memory[name] >= mib and grown in fits:
                        further.add(tuple(sorted((*state[:place], grown, *state[place + 1 :]))))
        fewest = min(map(len, further))
        states = {state for state in further if len(state) <= fewest + 1}  # one more may pay later, two never
    return min(map(len, states)) if services else 0


def serves(memory: Mapping[str, int], packing: Packing, demand: Mapping[int, int]) -> bool:
    """Whether each service gets a device of its own with memory enough: the largest first."""
    there = sorted(
        memory[name]
        for layout, number in packing.gpus
        for name, count in layout.items()
        for _ in range(count * number)
    )
    for mib in sorted((mib for mib, count in demand.items() for _ in range(count)), reverse=True):
        if not there or there.pop() < mib:
            return False
    return True


@given(
    st.dictionaries(
        st.sampled_from([5000, 9856, 10240, 19968, 20000, 40192, 50000]), st.integers(1, 4), max_size=3
    ).filter(lambda demand: sum(demand.values()) <= 7)
)
def test_no_division_needs_fewer(demand: dict[int, int]) -> None:
    packing = packed(A100, A100_MIB, demand)
    assert packing.count == by_trial(A100, A100_MIB, demand)
    assert packing.least
    assert serves(A100_MIB, packing, demand)
    assert all(placements(A100, layout) is not None for layout, _ in packing.gpus)


@given(st.dictionaries(st.sampled_from([5000, 8000, 12000, 24000]), st.integers(1, 5), max_size=3))
def test_nor_on_an_a30(demand: dict[int, int]) -> None:
    found = packed(A30, A30_MIB, demand) if max(demand, default=0) <= 24064 else None
    if found is not None:
        assert serves(A30_MIB, found, demand)
        if sum(demand.values()) <= 8:
            assert found.count == by_trial(A30, A30_MIB, demand)


def test_mig_6_ten_small_services_and_two_large() -> None:
    assert packed(A100, A100_MIB, {9800: 10}).count == 2
    both = packed(A100, A100_MIB, {9800: 10, 40000: 2})
    assert both.count == 3
    assert both.serves == {9800: "1g.10gb", 40000: "3g.40gb"}


def test_mig_6_ten_gib_do_not_fit_the_profile_that_is_named_after_ten() -> None:
    packing = packed(A100, A100_MIB, {10240: 10})
    assert packing.serves == {10240: "1g.20gb"}
    assert packing.count == 3


@pytest.mark.parametrize("count", [100, 1000, 9999])
def test_large_demands_are_divided_as_well(count: int) -> None:
    demand = {9800: count, 19000: count // 3, 40000: count // 7, 80000: count // 50}
    packing = packed(A100, A100_MIB, demand)
    assert packing.least
    assert serves(A100_MIB, packing, demand)


@pytest.mark.parametrize(
    "demand",
    [
        pytest.param({9800: 99999, 15360: 77777}, id="two sizes"),
        pytest.param({9800: 99999, 15360: 77777, 40000: 50003, 80000: 40001}, id="four sizes"),
        pytest.param(
            {9800: 999999, 15360: 999999, 30000: 999999, 80000: 999999}, id="as many as can be said"
        ),
    ],
)
def test_a_demand_of_any_size_is_answered_at_once(demand: dict[int, int]) -> None:
    """No more GPUs than the layouts that it is made of are more than what the demand is worth."""
    packing = packed(A100, A100_MIB, demand)
    assert _slots(packing, 9856) >= sum(demand.values())
    assert _slots(packing, 19968) >= sum(count for mib, count in demand.items() if mib > 9856)
    assert _slots(packing, 40192) >= sum(count for mib, count in demand.items() if mib > 19968)
    assert _slots(packing, 80384) >= demand.get(80000, 0)
    assert packing.least


def _slots(packing: Packing, mib: int) -> int:
    return sum(
        count * number
        for layout, number in packing.gpus
        for name, count in layout.items()
        if A100_MIB[name] >= mib
    )


def test_more_than_a_gpu_has() -> None:
    packing = pack(A100, A100_MIB, {90000: 1})
    assert isinstance(packing, MigMemoryShort)
    assert "80384" in packing.message


def test_nothing_needs_nothing() -> None:
    assert packed(A100, A100_MIB, {}).count == 0
