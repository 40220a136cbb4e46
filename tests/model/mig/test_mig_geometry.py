"""Every layout that there is, by the counts of NVIDIA's tables; MIG-1, MIG-2."""

from __future__ import annotations

import pytest

from tonnage.decide.node.mig.layouts import Layout, layout_of
from tonnage.model.catalog.mig import MigModel, mig_model, mig_models
from tonnage.model.mig.geometry import all_counts, all_layouts, is_valid
from tonnage.model.mig.placements import placements
from tonnage.model.reasons.gpu.mig import MigLayoutReason


def board(name: str) -> MigModel:
    model = mig_model(name)
    assert model is not None
    return model


A100 = board("NVIDIA A100-SXM4-80GB")
A30 = board("NVIDIA A30")
RTX = board("NVIDIA RTX PRO 6000 Blackwell Server Edition")
PLAIN = ("1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
SEVENS = [model.name for model in mig_models() if (model.compute, model.memory) == (7, 8)]


@pytest.mark.parametrize(
    ("geometry", "names", "counts"),
    [
        pytest.param(A100, PLAIN, (297, 19, 37, 12), id="NVIDIA publishes 19 configurations of an A100"),
        pytest.param(A100, (*PLAIN, "1g.20gb"), (722, 78, 77, 28), id="with double memory"),
        pytest.param(A100, (), (2318, 239, 127, 44), id="with media engines as well"),
        pytest.param(A30, ("1g.6gb", "2g.12gb", "4g.24gb"), (25, 5, 9, 4), id="an A30"),
        pytest.param(A30, (), (83, 21, 21, 9), id="an A30 with media engines"),
        pytest.param(RTX, ("1g.24gb", "2g.48gb", "4g.96gb"), (25, 5, 9, 4), id="an RTX PRO 6000"),
    ],
)
def test_there_are_so_many_layouts(
    geometry: MigModel, names: tuple[str, ...], counts: tuple[int, ...]
) -> None:
    """(layouts, full ones, sets of numbers, full ones)"""
    every = [*all_layouts(geometry, names)]
    numbers = all_counts(geometry, names)
    assert len({frozenset(one) for one in every}) == len(every)
    assert (
        len(every),
        len([*all_layouts(geometry, names, full=True)]),
        len(numbers),
        len(all_counts(geometry, names, full=True)),
    ) == counts
    assert all(is_valid(geometry, one) for one in every)


def test_the_28_full_sets_of_an_a100() -> None:
    """D is 1g with double memory."""
    told = (
        "7g | 4g+3g | 4g+2g+D | 4g+2g+1g | 4g+2*D | 4g+D+2*1g | 4g+3*1g | 2*3g | 3g+2*2g | 3g+2g+D | "
        "3g+2g+2*1g | 3g+2*D | 3g+D+2*1g | 3g+4*1g | 3*2g+D | 3*2g+1g | 2*2g+2*D | 2*2g+D+2*1g | 2*2g+3*1g | "
        "2g+3*D | 2g+2*D+2*1g | 2g+D+4*1g | 2g+5*1g | 4*D | 3*D+2*1g | 2*D+4*1g | D+6*1g | 7*1g"
    )
    words = {"D": "1g.20gb", **{name[:2]: name for name in PLAIN}}
    wanted = set()
    for text in told.split(" | "):
        pairs = [part.rpartition("*") for part in text.split("+")]
        wanted.add(frozenset((words[name], int(count or 1)) for count, _, name in pairs))
    assert {frozenset(counts) for counts in all_counts(A100, (*PLAIN, "1g.20gb"), full=True)} == wanted


@pytest.mark.parametrize("name", SEVENS)
def test_every_board_of_eight_slices_has_the_same_layouts_by_other_names(name: str) -> None:
    found = next(model for model in mig_models() if model.name == name)
    assert len(all_counts(found, full=True)) == 44
    assert [*found.profiles] == sorted(found.profiles, key=lambda one: int(one[0]))


def test_engines_are_shared_on_an_rtx_pro_6000() -> None:
    for layout in all_layouts(RTX):
        names = [name for name, _ in layout]
        assert sum(RTX.profiles[name].media for name in names) <= 4
        assert sum(RTX.profiles[name].flow for name in names) <= 1
    beside = {name for layout in all_layouts(RTX) if ("1g.24gb+me.all", 0) in layout for name, _ in layout}
    assert beside == {"1g.24gb+me.all", "1g.24gb-me", "2g.48gb-me"}


@pytest.mark.parametrize(
    ("placed", "fits"),
    [
        pytest.param([("2g.20gb", at) for at in (0, 2, 4)] + [("1g.10gb", 6)], True, id="B of MIG-2"),
        pytest.param([("3g.40gb", 0), ("3g.40gb", 4)], True, id="C of MIG-2"),
        pytest.param([("3g.40gb", 0), ("4g.40gb", 0)], False, id="twice the same slices"),
        pytest.param([("3g.40gb", 2)], False, id="where none of it begins"),
        pytest.param([("1g.10gb", 7)], False, id="nothing of one slice begins at the last"),
        pytest.param([("1g.10gb+me", 0), ("1g.10gb+me", 1)], False, id="more than there may be"),
        pytest.param([("1g.5gb", 0)], False, id="another board's"),
        pytest.param([], True, id="nothing"),
    ],
)
def test_instances_at_their_places(placed: list[tuple[str, int]], fits: bool) -> None:
    assert is_valid(A100, placed) is fits


@pytest.mark.parametrize("geometry", mig_models(), ids=lambda each: each.name)
def test_all_numbers_of_a_board_find_places(geometry: MigModel) -> None:
    for counts in all_counts(geometry):
        placed = placements(geometry, dict(counts))
        assert placed is not None
        assert is_valid(geometry, [(profile.name, start) for profile, start in placed])


@pytest.mark.parametrize("geometry", mig_models(), ids=lambda each: each.name)
def test_layouts_have_names_on_every_board(geometry: MigModel) -> None:
    for name in geometry.profiles:
        layout = layout_of(geometry, f"all-{name}")
        assert isinstance(layout, Layout)
        assert len(layout.placed) == max(
            dict(counts).get(name, 0) for counts in all_counts(geometry, (name,))
        )
        assert layout_of(geometry, f"all-{name.replace('+', '.')}") == layout
    balanced = layout_of(geometry, "all-balanced")
    if geometry.balanced:
        assert isinstance(balanced, Layout)
        assert len({profile.name for profile, _ in balanced.placed}) > 1
    else:
        assert isinstance(balanced, MigLayoutReason)
