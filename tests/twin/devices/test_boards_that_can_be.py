"""A pretended GPU has the layouts that the planner can place, and no other."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.documents.hardware import Hardware, mig_problem
from tonnage.documents.scenario import parse_scenario
from tonnage.documents.yaml.source import parse_document
from tonnage.model.actions.devices import CreateComputeInstance, CreateGpuInstance
from tonnage.model.catalog.gpus import gpu_models
from tonnage.model.catalog.mig import MigModel, mig_model, mig_models
from tonnage.model.errors import ConfigError, HardwareError
from tonnage.model.mig.compute import gpu_instances
from tonnage.model.mig.geometry import all_layouts
from tonnage.model.mig.placements import placements
from tonnage.model.reasons.gpu.mig import MigLayoutReason
from tonnage.twin.devices.scenario_mig import ScenarioLayout, layout_after

GPUS = [key for key, model in gpu_models().items() if model.mig]


def empty(board: MigModel) -> ScenarioLayout:
    sizes = {name: profile.memory for name, profile in board.profiles.items()}
    return ScenarioLayout("g", enabled=True, pending=True, sizes=sizes)


@given(st.data())
def test_create_calls_lead_to_what_can_be_placed_and_to_all_of_it(data: st.DataObject) -> None:
    board = data.draw(st.sampled_from(mig_models()), "board")
    calls = [(name, start) for name in board.profiles for start in range(board.memory)]
    layout = empty(board)
    for name, start in data.draw(st.lists(st.sampled_from(calls), max_size=16), "calls"):
        beside = [(instance.profile, instance.start) for instance in layout.instances]
        profile = board.profiles[name]
        there = {**board.profiles, name: replace(profile, starts=(start,))}
        room = placements(replace(board, profiles=there), {name: 1}, beside=beside) is not None
        counts = Counter(other for other, _ in [*beside, (name, start)])
        placeable = start in profile.starts and counts[name] <= profile.most and room
        try:
            layout = layout_after(layout, board, CreateGpuInstance("g", name, start))
        except HardwareError:
            assert not placeable
        else:
            assert placeable
            assert placements(board, counts) is not None


@pytest.mark.parametrize("board", mig_models(), ids=lambda board: board.name)
def test_every_full_layout_of_the_planner_can_be_created_in_any_order(board: MigModel) -> None:
    for spots in all_layouts(board, [name for name in board.profiles if "+" not in name], full=True):
        for order in list(permutations(spots))[:3]:
            layout = empty(board)
            for name, start in order:
                layout = layout_after(layout, board, CreateGpuInstance("g", name, start))
            assert {(instance.profile, instance.start) for instance in layout.instances} == {*spots}


@given(st.data())
def test_a_file_divides_a_gpu_into_what_the_planner_can_place(data: st.DataObject) -> None:
    model = data.draw(st.sampled_from(GPUS))
    board = mig_model(gpu_models()[model].product)
    assert board is not None
    names = [*board.profiles, *(f"1c.{name}" for name in board.profiles if name[0] in "2347")]
    profiles = data.draw(st.lists(st.sampled_from(names), max_size=8))
    instances = gpu_instances(Counter(profiles))
    assert not isinstance(instances, MigLayoutReason)
    assert (mig_problem(model, profiles) is None) == (placements(board, instances) is not None)


EIGHT = "[1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb]"


@pytest.mark.parametrize(
    ("gpu", "remedy"),
    [
        (f"model: H100-80, mig: {EIGHT}", "1g.10gb:7"),
        ("model: A100-80, mig: [3g.40gb, 3g.40gb, 1g.10gb]", "3g.40gb:2 or 3g.40gb:1,1g.10gb:1"),
        ("model: H200, mig: [4g.71gb, 4g.71gb]", "4g.71gb:1"),
        ("model: B200, mig: [1g.23gb+me, 1g.23gb+me]", "1g.23gb+me:1"),
        ("model: A100-80, mig: [1g.5gb]", "it has 1g.10gb"),
        ("model: A100-80, mig: [3c.4g.40gb]", "it has 1c.4g.40gb, 2c.4g.40gb"),
    ],
    ids=[
        "eight of seven slices",
        "two halves and one more",
        "two that begin at the same slice",
        "two with media",
        "a profile of another GPU",
        "a compute instance that the driver does not make",
    ],
)
def test_what_no_board_can_have_is_refused_with_the_nearest_that_can_be(gpu: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as device:
        parse_document(f"devices: [{{uuid: a, {gpu}}}]", Hardware, source="f")
    with pytest.raises(ConfigError) as group:
        parse_scenario(f"name: f\ngroups:\n- {{name: g, gpu: {{{gpu}}}}}\n", source="f")
    for error in (device.value, group.value):
        assert remedy in error.problems[0].remedy, str(error)
    assert "groups[0].gpu.mig" in group.value.problems[0].where


def test_compute_instances_are_those_that_a_driver_makes() -> None:
    board = mig_model("NVIDIA H100 80GB HBM3")
    assert board is not None
    layout = layout_after(empty(board), board, CreateGpuInstance("g", "4g.40gb", 0))
    with pytest.raises(HardwareError):
        layout_after(layout, board, CreateComputeInstance("g", layout.instances[0], 3))
