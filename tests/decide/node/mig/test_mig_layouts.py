"""MIG layouts against every set of placements there is, found by trying all; names and refusals (MIG-5)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest

from tonnage.decide.node.mig.layouts import Layout, layout_of
from tonnage.model.catalog.mig import MigModel, is_undivided, mig_model
from tonnage.model.mig.placements import placements
from tonnage.model.reasons.gpu.mig import MigLayoutReason


def board(product_name: str) -> MigModel:
    model = mig_model(product_name)
    assert model is not None
    return model


A100 = board("NVIDIA A100-SXM4-80GB")
A30 = board("NVIDIA A30")


def sets_by_trial(geometry: MigModel, names: tuple[str, ...]) -> set[tuple[int, ...]]:
    """Every count vector that some choice of non-overlapping placements has, without the planner."""
    found: set[tuple[tuple[int, ...], int]] = {((0,) * len(names), 0)}
    for index, name in enumerate(names):
        profile = geometry.profiles[name]
        for start in profile.starts:
            mask = ((1 << profile.memory) - 1) << start
            found |= {
                (tuple(c + (n == index) for n, c in enumerate(counts)), taken | mask)
                for counts, taken in found
                if not taken & mask and counts[index] < profile.most
            }
    return {counts for counts, _ in found if any(counts)}


@pytest.mark.parametrize(
    ("geometry", "places", "count"),
    [
        pytest.param(A100, (0, 3, 4, 5, 6), 37, id="seven slices have 37 layouts"),
        pytest.param(A100, (0, 2, 3, 4, 5, 6), 77, id="with double memory 77"),
        pytest.param(A100, range(7), 127, id="with media engines 127"),
        pytest.param(A30, (0, 2, 4), 9, id="an A30 has 9"),
        pytest.param(A30, range(5), 21, id="and with media engines 21"),
    ],
)
def test_a_layout_fits_if_and_only_if_some_placement_has_it(
    geometry: MigModel, places: Sequence[int], count: int
) -> None:
    names = tuple([*geometry.profiles][place] for place in places)
    expected = sets_by_trial(geometry, names)
    ranges = [range(geometry.profiles[name].most + 1) for name in names]
    fitting = set()
    for counts in product(*ranges):
        found = placements(geometry, dict(zip(names, counts, strict=True)))
        if found is not None and any(counts):
            fitting.add(counts)
            taken = 0
            for profile, start in found:
                mask = ((1 << profile.memory) - 1) << start
                assert start in profile.starts
                assert not taken & mask
                taken |= mask
    assert fitting == expected
    assert len(fitting) == count


@pytest.mark.parametrize(
    ("text", "profiles"),
    [
        pytest.param("all-1g.10gb", ("1g.10gb",) * 7, id="as many as fit"),
        pytest.param("all-1g.20gb", ("1g.20gb",) * 4, id="as many of the double ones"),
        pytest.param("all-balanced", ("2g.20gb", "1g.10gb", "1g.10gb", "3g.40gb"), id="balanced"),
        pytest.param("3g:1,1g.10gb:2", ("3g.40gb", "1g.10gb", "1g.10gb"), id="a profile by its slices"),
        pytest.param("1g.10gb.me:1", ("1g.10gb+me",), id="the resource's spelling"),
        pytest.param("all-enabled", (), id="divided into nothing"),
        pytest.param("3g.40gb:2", ("3g.40gb", "3g.40gb"), id="two halves"),
    ],
)
def test_a_layout_by_its_name(text: str, profiles: tuple[str, ...]) -> None:
    layout = layout_of(A100, text)
    assert isinstance(layout, Layout)
    assert layout.profiles == profiles
    assert not layout.whole


def test_the_nearest_profile_is_offered_first() -> None:
    for text, near in (
        ("all-1g.5gb", "all-1g.10gb"),
        ("3g.20gb:1", "3g.40gb"),
        ("1g.5gb+me:1", "1g.10gb+me"),
    ):
        layout = layout_of(A100, text)
        assert isinstance(layout, MigLayoutReason)
        assert layout.instead[0] == near


def test_all_disabled_is_a_whole_gpu() -> None:
    assert layout_of(A100, "all-disabled") == Layout(whole=True)


@pytest.mark.parametrize(
    ("text", "why", "instead"),
    [
        pytest.param(
            "1g.20gb:4,1g.10gb:3",
            "they take 11 memory slices, it has 8",
            ("1g.20gb:3,1g.10gb:2", "1g.20gb:2,1g.10gb:3", "1g.20gb:4"),
            id="a sum of sevenths that is seven, and does not fit",
        ),
        pytest.param(
            "4g.40gb:2", "a GPU holds at most 1 of 4g.40gb", ("4g.40gb:1",), id="twice what starts at one"
        ),
        pytest.param(
            "all-1g.5gb",
            "all-1g.5gb is not a layout of A100 80GB",
            ("all-1g.10gb",),
            id="a smaller board's profile",
        ),
        pytest.param("9g.90gb:1", "no profile 9g.90gb", ("7g.80gb",), id="no such profile"),
        pytest.param(
            "1c.3g.40gb:6", "is a compute instance of a 3g.40gb", ("3g.40gb",), id="compute instances"
        ),
        pytest.param("1g.10gb", "is not a profile with a number", ("1g.10gb:2",), id="no number"),
        pytest.param("1g.10gb:0", "no device", ("all-balanced",), id="nothing at all"),
    ],
)
def test_what_a_board_cannot_do_is_refused_with_what_it_can(
    text: str, why: str, instead: tuple[str, ...]
) -> None:
    layout = layout_of(A100, text)
    assert isinstance(layout, MigLayoutReason)
    assert why in layout.message
    assert any(set(instead) & {one, one.partition(",")[0]} for one in layout.instead)


@pytest.mark.parametrize(
    ("product_name", "key"),
    [
        ("NVIDIA-A100-SXM4-40GB", "A100 40GB"),
        ("NVIDIA A100 80GB PCIe", "A100 80GB, H100 80GB"),
        ("NVIDIA-H100-80GB-HBM3", "A100 80GB, H100 80GB"),
        ("NVIDIA H100 NVL", "H100 NVL"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA H20", "H100 96GB, GH200 96GB, H20"),
        ("NVIDIA H20-3e", "H200"),
        ("NVIDIA GH200 480GB", "H100 96GB, GH200 96GB, H20"),
        ("NVIDIA A30", "A30"),
    ],
)
def test_a_product_has_a_board_in_the_drivers_and_in_the_labels_spelling(product_name: str, key: str) -> None:
    assert board(product_name).name == key
    assert board(product_name.replace(" ", "-")).name == key


@pytest.mark.parametrize(
    "product_name", ["Tesla T4", "Tesla V100-SXM2-32GB", "NVIDIA L4", "NVIDIA-L40S", "NVIDIA A10"]
)
def test_mig_5_older_and_smaller_gpus_cannot_be_divided(product_name: str) -> None:
    assert is_undivided(product_name)
    assert mig_model(product_name) is None


def test_of_a_product_that_nobody_knows_nothing_is_said() -> None:
    assert mig_model("NVIDIA X1000") is None
    assert not is_undivided("NVIDIA X1000")
