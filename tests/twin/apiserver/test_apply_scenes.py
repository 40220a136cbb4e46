"""Writes of several managers against what a genuine API server (v1.35.8) made of them.

KUB-2. The scenes are those of tests/data/apply-scenes.yaml; scripts/record_apply_answers.py asks anew.
"""

from __future__ import annotations

import ssl

import httpx2
import pytest

from support.apply_scenes import Scene, play, recorded, scenes
from twin.apiserver.conftest import Running

ANSWERS = recorded()


async def played(running: Running, scene: Scene) -> list[object]:
    """What the twin answers to a scene."""
    context = ssl.create_default_context(cadata=running.endpoint.ca_pem.decode())
    head = {"authorization": f"Bearer {running.endpoint.token}"}
    async with httpx2.AsyncClient(base_url=running.endpoint.url, verify=context, headers=head) as client:

        async def send(method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
            answer = await client.request(method, path, headers=headers, content=body)
            return answer.status_code, answer.content

        return await play(scene, send)


@pytest.mark.parametrize("scene", scenes(), ids=lambda scene: scene.name)
async def test_several_managers_write_an_object(running: Running, scene: Scene) -> None:
    answers = await played(running, scene)
    steps = [step for step in scene.steps if "wait" not in step]
    for step, answer, genuine in zip(steps, answers, ANSWERS[scene.name], strict=True):
        assert answer == genuine, step
