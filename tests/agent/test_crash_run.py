"""The crash run: an agent is killed at any moment, and the next one brings the change to its end.

A scene is run once, and what stands before and after each action is noted, and within those that write a
file. From each of these an agent starts, in one scene with a controller that was killed, too. One scene of
each kind of change is gone through from every moment; of its variants the moments within files are sampled.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any, get_args

import pytest

from agent.conftest import FastClock
from agent.crash_scenes import SCENES, SPEED
from controller.test_crash import ACTIONS_OF_THE_CONTROLLER
from support.agent_scenes import Place, Scene, moments_of, resumed
from support.crash_moments import in_one_thread
from support.sampling import Sampler
from tonnage.model.actions.action import Action
from tonnage.model.actions.cluster import (
    CountEvent,
)

LONGEST = frozenset({"layout by ConfigMap", "layout by a ClusterPolicy's default", "reboot in between"})
"""Two thirds of what all scenes need."""


def _of(scene: Scene) -> object:
    return pytest.param(scene, id=scene.name, marks=[pytest.mark.long] if scene.name in LONGEST else [])


def test_every_kind_of_action_has_a_scene_in_which_agents_are_killed_at_it() -> None:
    ours = {kind for scene in SCENES for kind in scene.kinds}
    assert ours | ACTIONS_OF_THE_CONTROLLER == {*get_args(Action)}  # those have a run of their own


def test_every_kind_of_change_has_a_scene_that_is_gone_through_from_every_moment() -> None:
    whole = {kind for scene in SCENES if not scene.variant for kind in scene.kinds}
    # Which Event is counted is kept in no file.
    assert {kind for scene in SCENES for kind in scene.kinds} - whole == {CountEvent}


@pytest.mark.parametrize("scene", [_of(scene) for scene in SCENES])
async def test_killed_at_any_moment_the_next_agent_ends_what_was_begun(
    scene: Scene, tmp_path: Path, cluster: Any, sample: Sampler
) -> None:
    clock, places = FastClock(SPEED), count()

    def place() -> Place:
        root = tmp_path / str(next(places))
        root.mkdir()
        return Place(root, type(cluster)(), clock)

    with in_one_thread():
        moments, kinds = await moments_of(scene, place())
        assert {(kind, over) for kind in scene.kinds for over in (False, True)} <= kinds
        of_files = [moment for moment in moments if moment.of_file]
        if scene.variant:
            of_files = sample.items(f"moments of files: {scene.name}", of_files)
        for moment in moments:
            if moment.of_file and moment not in of_files:
                continue
            wrong = await resumed(scene, place(), moment)
            assert not wrong, f"killed {moment}: {wrong}"
