"""All scenes of Helm 3 and 4 on the twin; and that what is recorded is what a genuine Kubernetes says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scripts.find_helm import MAJORS, Major
from scripts.record_helm_answers import genuine
from support.helm_scenes import HelmScene, differences, helm_scenes, one_node
from tonnage.adapters.clock import SystemClock
from tonnage.cli.locations.binaries import chosen_minor
from tonnage.cli.up.programs import node_programs
from tonnage.twin.cluster import Cluster

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.skipif(chosen_minor(os.environ) != "1.35", reason="recorded on 1.35"),
]
BOTH = pytest.mark.parametrize("major", MAJORS, ids=["helm 3", "helm 4"])
SCENES = list(helm_scenes())


def twin(folder: Path) -> Cluster:
    return Cluster(
        one_node(), SystemClock(), programs=node_programs(folder / "kubeconfig"), runtime_dir=folder
    )


@pytest.mark.sampled("scenes of Helm")
@BOTH
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
async def test_the_twin_answers_as_recorded(scene: HelmScene, major: Major) -> None:
    assert not await differences(scene, major, twin)


@BOTH
async def test_the_recording_is_of_a_genuine_kubernetes(major: Major) -> None:
    assert not await differences(SCENES[0], major, genuine)
