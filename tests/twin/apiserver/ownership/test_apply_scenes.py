"""Writes of several managers against what a genuine API server (v1.35.8) made of them.

KUB-2. The scenes are those of tests/data/apply-scenes.yaml; scripts/record_apply_answers.py asks anew.
"""

from __future__ import annotations

import pytest

from support.apply_scenes import Scene, play, recorded, scenes
from support.clients import client_at, sender
from twin.apiserver.conftest import Running

ANSWERS = recorded()


@pytest.mark.sampled("scenes of apply-scenes.yaml")
@pytest.mark.parametrize("scene", scenes(), ids=lambda scene: scene.name)
async def test_several_managers_write_an_object(running: Running, scene: Scene) -> None:
    async with client_at(running.endpoint) as client:
        answers = await play(scene, sender(client))
    steps = [step for step in scene.steps if "wait" not in step]
    for step, answer, genuine in zip(steps, answers, ANSWERS[scene.name], strict=True):
        assert answer == genuine, step
