"""Random writes come to the same on the twin and on a genuine API server, refusals included (KUB-2)."""

from __future__ import annotations

import os

import pytest

from support.apply_scenes import play
from support.clients import client_at, client_of, sender, served_twin
from support.genuine import genuine_api_server
from support.leftovers import own_folder
from support.random_applies import random_scene, setup
from support.random_writes import alike, random_writes
from support.sampling import Sampler
from tonnage.cli.locations.binaries import chosen_minor

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.skipif(chosen_minor(os.environ) != "1.35", reason="the twin says that it is 1.35"),
]
_SCENES = [*map(random_scene, range(1000, 1040)), *map(random_writes, range(1000, 1060))]
"""Applies of several managers to one object, and writes of every sort to two."""


async def test_random_writes_come_to_the_same_objects_and_refusals(sample: Sampler) -> None:
    with own_folder() as folder:
        async with (
            genuine_api_server(folder) as kubeconfig,
            client_of(kubeconfig) as genuine,
            served_twin() as endpoint,
            client_at(endpoint) as pretended,
        ):
            for client in (genuine, pretended):
                await play(setup(), sender(client))
            for scene in sample.items("random writes", _SCENES, key=lambda scene: scene.name):
                wanted = await play(scene, sender(genuine))
                found = await play(scene, sender(pretended))
                for step, ours, theirs in zip(scene.steps, found, wanted, strict=True):
                    assert alike(ours) == alike(theirs), f"{scene.name}: {step}"
