"""Ways from one MIG layout to another, against trying every one; MIG-2, MIG-3, MIG-4."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.mig.change import gpu_of
from tonnage.decide.node.mig.goal import goals_by_layout
from tonnage.decide.node.mig.plan import Instance, MigPlan, plan_gpu
from tonnage.model.catalog.mig import MigModel, MigProfile, mig_model
from tonnage.model.mig.layouts import DividedGpu
from tonnage.model.reasons.gpu.mig import MigLayoutReason


def board(name: str) -> MigModel:
    model = mig_model(name)
    assert model is not None
    return model


A100 = board("NVIDIA A100-SXM4-80GB")
A30 = board("NVIDIA A30")
RTX = board("NVIDIA RTX PRO 6000 Blackwell Server Edition")
BOARDS = {"A100": A100, "A30": A30, "RTX": RTX}


def slices(geometry: MigModel, name: str, start: int) -> frozenset[int]:
    return frozenset(range(start, start + geometry.profiles[name].memory))


def layouts(geometry: MigModel) -> Iterator[tuple[tuple[str, int], ...]]:
    """Every set of placements that do not overlap and are not too many, by going through the slices."""
    spots = [(name, start) for name, profile in geometry.profiles.items() for start in profile.starts]

    def further(first: int, chosen: tuple[tuple[str, int], ...], taken: frozenset[int]) -> Iterator[object]:
        yield chosen
        for place in range(first, len(spots)):
            name, start = spots[place]
            mine = slices(geometry, name, start)
            many = sum(other == name for other, _ in chosen)
            engines = [geometry.profiles[each] for each in (name, *(other for other, _ in chosen))]
            enough = sum(e.media for e in engines) <= geometry.media and sum(e.flow for e in engines) <= 1
            if not taken & mine and many < geometry.profiles[name].most and (enough or not geometry.media):
                yield from further(place + 1, (*chosen, spots[place]), taken | mine)

    yield from further(0, (), frozenset())  # type: ignore[misc]


Spots = frozenset[tuple[str, int]]


@cache
def every(name: str) -> tuple[tuple[tuple[str, int], ...], ...]:
    return tuple(layouts(BOARDS[name]))


@cache
def by_counts(name: str) -> dict[Spots, list[Spots]]:
    """The layouts that have so many of each profile."""
    found: dict[Spots, list[Spots]] = {}
    for one in every(name):
        found.setdefault(frozenset(Counter(each for each, _ in one).items()), []).append(frozenset(one))
    return found


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, tuple[Instance, ...], dict[str, int]]:
    name = draw(st.sampled_from(sorted(BOARDS)))
    now = draw(st.sampled_from(every(name)))
    goal = draw(st.sampled_from(every(name)))
    held = [tuple(f"ns/p{place}-{n}" for n in range(draw(st.integers(0, 2)))) for place in range(len(now))]
    instances = tuple(
        Instance(profile, start, f"MIG-{place}", held[place]) for place, (profile, start) in enumerate(now)
    )
    return name, instances, dict(Counter(profile for profile, _ in goal))


@given(cases())
def test_no_way_evicts_fewer_or_destroys_fewer(
    case: tuple[str, tuple[Instance, ...], dict[str, int]],
) -> None:
    name, now, wanted = case
    plan = plan_gpu(BOARDS[name], now, wanted)
    assert isinstance(plan, MigPlan)
    after = {*(each.spot for each in plan.keep), *plan.create}
    assert after in by_counts(name)[frozenset(wanted.items())]
    assert sorted((*plan.keep, *plan.destroy), key=str) == sorted(now, key=str)
    assert (len(plan.holders), len(plan.destroy)) == min(
        _costs(now, by_counts(name)[frozenset(wanted.items())])
    )


def _costs(now: tuple[Instance, ...], goals: list[Spots]) -> Iterator[tuple[int, int]]:
    """What each goal costs where everything that it has already is kept."""
    for goal in goals:
        gone = [each for each in now if each.spot not in goal]
        yield len({holder for each in gone for holder in each.holders}), len(gone)


@given(st.sampled_from(sorted(BOARDS)), st.lists(st.integers(0, 4), min_size=11, max_size=11))
def test_what_no_layout_has_is_refused(name: str, counts: list[int]) -> None:
    wanted = {each: count for each, count in zip(BOARDS[name].profiles, counts, strict=False) if count}
    plan = plan_gpu(BOARDS[name], (), wanted)
    assert isinstance(plan, MigPlan) == (frozenset(wanted.items()) in by_counts(name)), wanted


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        (
            {"3g.40gb": 2, "1g.10gb": 1},
            (
                "they take 9 memory slices, it has 8",
                "no room for one more beside 3g.40gb on 0-3, 3g.40gb on 4-7",
            ),
        ),
        ({"4g.40gb": 2}, ("at most 1 of 4g.40gb", "may begin at memory slice 0", "beside 4g.40gb on 0-3")),
        ({"1g.20gb": 3, "1g.10gb": 4}, ("1g.20gb may begin at memory slice 0, 2, 4, 6", "1g.20gb on 6-7")),
        (
            {"1g.10gb+me": 2},
            (
                "at most 1 of 1g.10gb+me",
                "memory slices are free for one more 1g.10gb+me beside 1g.10gb+me on 0,",
            ),
        ),
        ({"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2, "1g.10gb+me": 1}, ("memory slices", "9")),
        (
            {"4g.40gb": 1, "1g.10gb": 4},
            ("1g.10gb may begin at memory slice 0, 1, 2", "no room for one more beside 4g.40gb on 0-3"),
        ),
    ],
)
def test_mig_2_a_sum_that_looks_right_is_refused_with_the_slices(
    expected: Mapping[str, int], words: tuple[str, ...]
) -> None:
    plan = plan_gpu(A100, (), expected)
    if isinstance(plan, MigPlan):
        raise AssertionError(f"{expected} fits: {plan.create}")
    for word in words:
        assert word in plan.message
    assert plan.instead


def test_an_instance_that_nobody_knows_goes() -> None:
    strange = Instance("9g.90gb", 0, "MIG-x", ("a/b",))
    plan = plan_gpu(A100, (strange,), {"1g.10gb": 1})
    assert isinstance(plan, MigPlan)
    assert (plan.destroy, plan.holders) == ((strange,), ("a/b",))


def test_the_gpu_is_as_it_shall_be() -> None:
    now = (Instance("3g.40gb", 4), Instance("2g.20gb", 0))
    plan = plan_gpu(A100, now, {"2g.20gb": 1, "3g.40gb": 1})
    assert plan == MigPlan(keep=now)
    assert MigPlan(keep=now).nothing


def test_nothing_is_wanted() -> None:
    assert plan_gpu(A100, (Instance("3g.40gb", 4),), {}) == MigPlan(destroy=(Instance("3g.40gb", 4),))


def test_a_profile_of_another_board() -> None:
    plan = plan_gpu(A30, (), {"3g.40gb": 1})
    assert isinstance(plan, MigLayoutReason)
    assert "3g.40gb" in plan.message


@pytest.mark.parametrize(
    ("expected", "word"),
    [
        ({"1g.24gb+me.all": 1, "1g.24gb-me": 3}, ""),
        ({"2g.48gb+me.all": 1, "2g.48gb-me": 1}, ""),
        ({"1g.24gb+me": 1, "1g.24gb": 3}, ""),
        ({"2g.48gb": 2}, ""),
        ({"1g.24gb+me.all": 1, "1g.24gb": 1}, "they take 5 media engines, it has 4"),
        (
            {"2g.48gb+me.all": 1, "1g.24gb+me": 1},
            "they take 5 media engines, it has 4; memory slices are free for one more 1g.24gb+me",
        ),
        (
            {"2g.48gb": 2, "1g.24gb": 1},
            "they take 15 memory slices, it has 12; 1g.24gb may begin at memory slice 0, 3, 6, 9",
        ),
    ],
)
def test_engines_limit_the_layouts_of_graphics_boards(expected: dict[str, int], word: str) -> None:
    plan = plan_gpu(RTX, (), expected)
    assert isinstance(plan, MigPlan) == (not word)
    if isinstance(plan, MigLayoutReason):
        assert word in plan.message


def test_engines_of_what_stays_count_as_well() -> None:
    now = (Instance("1g.24gb", 0, "MIG-0", ("a/b",)), Instance("1g.24gb-me", 3, "MIG-1"))
    plan = plan_gpu(RTX, now, {"1g.24gb+me.all": 1, "1g.24gb-me": 3})
    assert isinstance(plan, MigPlan)
    assert (plan.keep, plan.holders) == (now[1:], ("a/b",))


@pytest.mark.parametrize(
    ("product", "profile", "smallest"),
    [
        ("NVIDIA GB200", "3g.93gb", "1g.23gb"),
        ("NVIDIA GB200", "3g.95gb", "1g.24gb"),
        ("NVIDIA RTX PRO 5000 Blackwell", "4g.48gb", "1g.12gb"),
    ],
)
def test_what_the_driver_has_tells_boards_of_one_product_apart(
    product: str, profile: str, smallest: str
) -> None:
    """Before anything is made on the GPU as well."""
    told = (MigProfile(profile, 3, 0, 1),)
    gpu = gpu_of(DividedGpu("GPU-0", 0, product, enabled=False, pending=False, profiles=told), DeviceHolds())
    (goal,) = goals_by_layout([gpu], "all-balanced")
    assert goal.plan is not None
    assert smallest in {name for name, _ in goal.plan.create}
