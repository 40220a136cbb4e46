"""Two pages followed on a genuine control plane, block by block: moving from NVIDIA's operator, and drivers.

Helm installs the charts. Nodes are objects, so that nothing runs the Jobs of Tonnage's chart; on a genuine
node test_operator_on_a_node.py has them run. The controllers are processes, with the flags of its Deployment.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from controller.test_operator import CHART_DEFAULTS
from support.controller_replica import Replica
from support.genuine import GenuinePlane, control_plane
from support.genuine_machines import GenuineMachines
from support.genuine_operator import HelmFleet
from support.leftovers import own_folder
from support.nvidia_operator import LABELS
from support.page_shell import ROOT, PageShell
from tonnage.adapters.kubernetes.client import connect
from tonnage.loop.refusals import or_none
from tonnage.model.catalog.nvidia_kinds import DEFINITIONS, nvidia_definition
from tonnage.wire.kinds import CLUSTER_POLICY, CUSTOM_RESOURCE, DEPLOYMENT, NODE_GPU_STATUS, NVIDIA_DRIVER

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.sampled("pages followed on a control plane", share="1/2"),
]

MOVE: Final = "move-from-nvidias-operator"
SITE: Final = {"controller": {"definitions": False}, "operands": {"nvidiaNames": False}}
OPERATOR_LABELS: Final = {"app": "gpu-operator", "app.kubernetes.io/component": "gpu-operator"}
NOTE: Final = "tonnage.dev/adoption"
ADOPTED: Final = "tonnage.dev/adopted"


@pytest.fixture
def plane() -> Iterator[GenuinePlane]:
    with own_folder() as folder, control_plane(folder) as plane:
        plane.programs.run_loops(of_manager=["--node-monitor-grace-period=1h"])
        yield plane


@asynccontextmanager
async def reading(page: str, plane: GenuinePlane) -> AsyncIterator[PageShell]:
    """Somebody who follows a page, as administrator."""
    with own_folder() as folder:
        yield PageShell(page, folder, plane.kubeconfig, values=json.dumps(SITE))


def make_operators_chart(folder: Path) -> Path:
    """A chart as NVIDIA's is: its Deployment, its policy, and the definitions, which Helm installs once."""
    chart = folder / "gpu-operator"
    for part in ("crds", "templates"):
        (chart / part).mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: gpu-operator\nversion: 26.7.0\n")
    for plural in DEFINITIONS:
        definition: Any = nvidia_definition(plural)
        definition["metadata"].pop("annotations", None)
        (chart / "crds" / f"{plural}.yaml").write_text(yaml.safe_dump(definition))
    container = {"name": "main", "image": "example/operator:1"}
    template = {"metadata": {"labels": OPERATOR_LABELS}, "spec": {"containers": [container]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "gpu-operator", "labels": OPERATOR_LABELS},
        "spec": {"replicas": 1, "selector": {"matchLabels": OPERATOR_LABELS}, "template": template},
    }
    (chart / "templates" / "deployment.yaml").write_text(yaml.safe_dump(deployment))
    shutil.copy(CHART_DEFAULTS, chart / "templates" / "policy.yaml")
    return chart


async def _definitions(fleet: HelmFleet) -> dict[str, str]:
    """NVIDIA's, each with the version of the object: whoever writes one changes it."""
    found = (await fleet.api.list(CUSTOM_RESOURCE)).items
    return {
        d.metadata.name: d.metadata.resource_version for d in found if d.metadata.name.endswith(".nvidia.com")
    }


async def test_the_page_on_moving_from_nvidias_operator(plane: GenuinePlane) -> None:
    """There, back, and there for good. What NVIDIA's release has made stays its own on the way."""
    async with reading(MOVE, plane) as shell, connect(plane.kubeconfig) as api:
        make_operators_chart(shell.folder)
        theirs = "--namespace gpu-operator --create-namespace"
        await asyncio.to_thread(shell.type, f"helm install gpu-operator ./gpu-operator {theirs}")
        fleet = HelmFleet(api)
        try:
            await fleet.begin("gpu-0", "gpu-1")
            await _move(shell, fleet)
        finally:
            await fleet.close()
        assert fleet.wrong == []


async def _move(shell: PageShell, fleet: HelmFleet) -> None:
    definitions = await _definitions(fleet)
    assert len(definitions) == 3
    await asyncio.to_thread(shell.follow, "Install agents that wait")
    await fleet.report()
    over = "Take the nodes over"
    await asyncio.to_thread(shell.follow, over, 0)
    assert "2 of 2 nodes are done." in await asyncio.to_thread(shell.follow, over, 1)
    assert {node.metadata.labels.get(ADOPTED) for node in (await fleet.nodes()).values()} == {"true"}
    assert await fleet.plugins() == []
    assert await _definitions(fleet) == definitions

    assert "2 of 2 nodes are done." in await asyncio.to_thread(shell.follow, "Go back")
    await fleet.until_plugins("gpu-0", "gpu-1")
    for node in (await fleet.nodes()).values():
        assert LABELS.items() <= node.metadata.labels.items()
        assert NOTE not in node.metadata.annotations
    upgraded = "helm upgrade gpu-operator ./gpu-operator --namespace gpu-operator"
    await asyncio.to_thread(shell.type, upgraded)
    assert await fleet.replicas() == 1
    assert await _definitions(fleet) == definitions

    await asyncio.to_thread(shell.follow, over, 1)
    fleet.agents_wait = False
    await asyncio.to_thread(shell.follow, "Stay")
    assert shell.left() == []
    for node in (await fleet.nodes()).values():
        assert {ADOPTED, NOTE}.isdisjoint([*node.metadata.labels, *node.metadata.annotations])
        assert not [value for value in node.metadata.labels.values() if value.startswith("paused")]
        assert not node.spec.unschedulable
    assert await _definitions(fleet) == definitions


OLD, NEW = "580.95.05", "595.91.07"


async def test_the_page_on_drivers(plane: GenuinePlane) -> None:
    """After that on installing with a ClusterPolicy, by whose release the page begins."""
    async with (
        reading("install-with-clusterpolicy", plane) as first,
        reading("upgrade-drivers", plane) as shell,
        connect(plane.kubeconfig) as api,
    ):
        await asyncio.to_thread(first.follow, "On a cluster")
        await asyncio.to_thread(shell.follow, "Upgrade drivers")
        shutil.copy(ROOT / "labs" / "driver-upgrade" / "cluster-policy.yaml", shell.folder)
        machines = GenuineMachines(api)
        await machines.install()
        deployment = await api.get(DEPLOYMENT, "tonnage-controller", "tonnage-system")
        [container] = deployment.spec.template["spec"]["containers"]
        flags = [flag for flag in container["args"] if not flag.startswith("--metrics-address")]
        replica = Replica(plane, shell.folder, "first", flags)
        try:
            await replica.start()
            await _upgrade(shell, machines)
        finally:
            await replica.end()
            await machines.close()


async def _upgrade(shell: PageShell, machines: GenuineMachines) -> None:
    async def are_served() -> bool:
        kinds = (NODE_GPU_STATUS, CLUSTER_POLICY, NVIDIA_DRIVER)
        return None not in [await or_none(machines.api.list(kind)) for kind in kinds]

    async def runs(version: str) -> None:
        async def is_running() -> bool:
            running, states = await machines.running(), await machines.states()
            upgraded = set(states.values()) == {"upgrade-done"}
            return upgraded and all(version in running.get(name, "") for name in states)

        await machines.until(is_running)

    await machines.until(are_served)
    for name in ("a", "b"):
        await machines.machine(name)
    plan = await asyncio.to_thread(shell.follow, "Before anything is rolled out")
    assert f"nvcr.io/nvidia/driver:{OLD}-ubuntu22.04\n    install on a, b" in plan
    await asyncio.to_thread(shell.type, "kubectl apply -f cluster-policy.yaml")
    await runs(OLD)
    await asyncio.to_thread(shell.follow, "Upgrade", ends=(0, 1))  # 1 while a node waits
    await runs(NEW)
    assert f"is back from nvcr.io/nvidia/driver:{NEW}" in await asyncio.to_thread(
        shell.follow, "When it fails"
    )
    await runs(OLD)
    assert shell.left() == []
