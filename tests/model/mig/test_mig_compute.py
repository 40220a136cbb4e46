"""GPU instances for compute instances that have a part of one, against every way to group them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.node.mig.plan import Instance, MigPlan, plan_gpu
from tonnage.model.catalog.mig import mig_model
from tonnage.model.mig.compute import gpu_instances, splits_for
from tonnage.model.mig.geometry import is_valid
from tonnage.model.reasons.gpu.mig import MigLayoutReason

A100 = mig_model("NVIDIA A100-SXM4-80GB")
assert A100 is not None


def groupings(sizes: tuple[int, ...], slices: int) -> Iterator[int]:
    """How many groups each way makes to put the sizes into groups of so many slices."""

    def further(left: tuple[int, ...], groups: tuple[int, ...]) -> Iterator[int]:
        if not left:
            yield len(groups)
            return
        for place, used in enumerate((*groups, 0)):
            if used + left[0] <= slices:
                yield from further(left[1:], (*groups[:place], used + left[0], *groups[place + 1 :]))

    yield from further(sizes, ())


@given(
    st.sampled_from([("2g.20gb", (1,)), ("3g.40gb", (1, 2)), ("4g.40gb", (1, 2))]),
    st.lists(st.integers(0, 1), max_size=7),
)
def test_no_grouping_takes_fewer(kind: tuple[str, tuple[int, ...]], chosen: list[int]) -> None:
    profile, able = kind
    sizes = tuple(able[place % len(able)] for place in chosen)
    counts = Counter(f"{size}c.{profile}" for size in sizes)
    fewest = min(groupings(sizes, int(profile[0])))
    assert gpu_instances(counts) == ({profile: fewest} if sizes else {})


@pytest.mark.parametrize("sizes", [(4, 3), (3, 3, 1), (2, 2, 2, 1), (3, 2, 2), (1,) * 7, (4, 2, 1)])
def test_a_whole_gpu_has_room_for_seven_slices(sizes: tuple[int, ...]) -> None:
    counts = Counter(f"{size}c.7g.80gb" for size in sizes)
    assert gpu_instances(counts) == {"7g.80gb": 1}
    assert gpu_instances({**counts, "1c.7g.80gb": counts["1c.7g.80gb"] + 1}) == {"7g.80gb": 2}


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ({"3c.4g.40gb": 1}, "a 4g.40gb has no compute instances of 3"),
        ({"5c.7g.80gb": 1}, "a 7g.80gb has no compute instances of 5"),
        ({"2c.2g.20gb": 1}, "no fewer compute slices than its GPU instance 2g.20gb"),
        ({"half": 1}, "half is not a MIG profile"),
    ],
)
def test_what_there_is_not(expected: dict[str, int], words: str) -> None:
    instances = gpu_instances(expected)
    assert isinstance(instances, MigLayoutReason)
    assert words in instances.message


def test_what_is_there_is_used_again_unless_that_takes_more() -> None:
    wanted = {"1c.3g.40gb": 3, "2c.3g.40gb": 1}
    assert splits_for(wanted) == {"3g.40gb": ((2, 1), (1, 1))}
    assert splits_for(wanted, [("3g.40gb", (1, 1, 1))]) == {"3g.40gb": ((1, 1, 1), (2,))}
    assert splits_for({"1c.3g.40gb": 3}, [("3g.40gb", (1,))]) == {"3g.40gb": ((1, 1, 1),)}


PARTS = (
    "1c.2g.20gb",
    "1c.3g.40gb",
    "2c.3g.40gb",
    "1c.4g.40gb",
    "2c.7g.80gb",
    "3g.40gb",
    "1g.10gb",
    "1c.1g.10gb",
)


@given(
    st.dictionaries(st.sampled_from(PARTS), st.integers(0, 4), max_size=3),
    st.dictionaries(st.sampled_from(PARTS), st.integers(0, 4), max_size=3),
)
def test_a_plan_makes_exactly_what_is_wanted(before: dict[str, int], wanted: dict[str, int]) -> None:
    """From whatever is there, at places where it fits, and nothing that stays and is wanted is lost."""
    assert A100 is not None
    first = plan_gpu(A100, (), before)
    now = () if isinstance(first, MigLayoutReason) else tuple(as_instances(first))
    plan = plan_gpu(A100, now, wanted)
    if isinstance(plan, MigLayoutReason):
        return
    after = [*plan.keep, *as_instances(plan)]
    assert is_valid(A100, [entry.spot for entry in after])
    made = Counter(
        f"{size}c.{entry.profile}" if entry.split else entry.profile
        for entry in after
        for size in (entry.split or (0,))
    )
    assert made == Counter({name: count for name, count in wanted.items() if count})
    assert before != wanted or not plan.destroy


def as_instances(plan: MigPlan) -> Iterator[Instance]:
    for profile, start in plan.create:
        yield Instance(profile, start, split=plan.splits.get((profile, start), ()))


def planned(now: tuple[Instance, ...], wanted: dict[str, int]) -> MigPlan:
    assert A100 is not None
    plan = plan_gpu(A100, now, wanted)
    assert isinstance(plan, MigPlan)
    return plan


def test_two_gpu_instances_for_six_compute_instances() -> None:
    plan = planned((), {"1c.3g.40gb": 6})
    assert plan.create == (("3g.40gb", 0), ("3g.40gb", 4))
    assert plan.splits == {("3g.40gb", 0): (1, 1, 1), ("3g.40gb", 4): (1, 1, 1)}


def test_a_split_instance_is_not_a_whole_one() -> None:
    split = Instance("3g.40gb", 4, "MIG-1", ("ml/a",), (1, 1, 1))
    assert planned((split,), {"1c.3g.40gb": 3, "1g.10gb": 2}).keep == (split,)
    plan = planned((split,), {"3g.40gb": 1})
    assert (plan.destroy, plan.holders, plan.splits) == ((split,), ("ml/a",), {})


def test_split_and_whole_ones_beside_each_other() -> None:
    whole = Instance("3g.40gb", 0, "MIG-0", ("ml/b",))
    plan = planned((whole,), {"3g.40gb": 1, "2c.3g.40gb": 1, "1c.3g.40gb": 1})
    assert plan.keep == (whole,)
    assert (plan.create, plan.splits) == ((("3g.40gb", 4),), {("3g.40gb", 4): (2, 1)})
