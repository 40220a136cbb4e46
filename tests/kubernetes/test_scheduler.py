"""Clusters and pods made by chance, with every option, on a genuine scheduler: the engine answers alike.

Nodes are only objects: an API server, its etcd and the scheduler are all there is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random

import pytest

from support.genuine_scheduler import GenuineScheduler, genuine_scheduler
from support.leftovers import own_folder
from support.random_manifests import Manifests
from support.scheduler_duel import Duel
from tonnage.cli.binaries import chosen_minor

pytestmark = pytest.mark.kubernetes

CLUSTERS = 50
PODS = 8


@pytest.fixture(scope="module")
def scheduler() -> Iterator[GenuineScheduler]:
    with own_folder() as folder, genuine_scheduler(folder) as scheduler:
        yield scheduler


@pytest.fixture(scope="module")
def duel(scheduler: GenuineScheduler) -> Duel:
    return Duel(scheduler, chosen_minor(os.environ))


def test_the_engine_decides_speaks_and_rates_as_the_scheduler(
    scheduler: GenuineScheduler, duel: Duel
) -> None:
    scheduler.run({"percentageOfNodesToScore": 100})
    for number in range(CLUSTERS):
        random = Random(f"{duel.version}/{number}")
        manifests = Manifests(random)
        duel.stage(manifests.cluster(random.randrange(1, 8), random.randrange(16)))
        for turn in range(PODS):
            if not duel.judge(manifests.pod(f"new-{turn}"), f"{number}/{turn}"):
                break
        duel.clear()
    assert not duel.found, "\n".join(duel.found)
    least = {"placed": 60, "scored": 25, "refused": 120, "nominated": 4}
    assert {kind: duel.count[kind] for kind, count in least.items() if duel.count[kind] < count} == {}
