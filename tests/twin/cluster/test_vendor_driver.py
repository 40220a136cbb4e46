"""Another vendor's driver for ResourceClaims, which a scenario carries: the documents' manifests run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.fleet import Fleet, running_fleet
from tonnage.twin.kubelet.node_spec import NodePaths
from tonnage.wire import kinds

DOCUMENTS = Path(__file__).parents[2] / "data/documents"
DRIVER = "gpu.example.com"
SCENARIO = """
name: vendors
groups:
- name: big
  claimDrivers:
  - name: gpu.example.com
    devices:
    - name: card-0
      attributes: {memoryGiB: {int: 96}, model: {string: X1}}
      capacity: {memory: {value: 96Gi}}
- name: small
  claimDrivers:
  - name: gpu.example.com
    devices:
    - name: card-0
      attributes: {memoryGiB: {int: 40}}
      capacity: {memory: {value: 1024Mi}, cores: {value: 8}}
"""


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    async with running_fleet(SCENARIO) as fleet:
        await fleet.until(lambda: _published(fleet, "big-0", "small-0"))
        yield fleet


def document(name: str) -> Any:
    return yaml.safe_load((DOCUMENTS / f"{name}.yaml").read_text())


async def _slices(fleet: Fleet) -> dict[str, Any]:
    slices = (await fleet.api.list(kinds.RESOURCE_SLICE, field_selector=f"spec.driver={DRIVER}")).items
    return {each.spec["nodeName"]: each for each in slices}


async def _published(fleet: Fleet, *nodes: str) -> bool:
    return (await _slices(fleet)).keys() == {*nodes}


async def _claims(fleet: Fleet) -> list[Any]:
    return list((await fleet.api.list(kinds.RESOURCE_CLAIM, namespace="default")).items)


async def test_the_documents_claim_is_met_by_a_device_of_the_other_vendor(fleet: Fleet) -> None:
    slices = await _slices(fleet)
    node = await fleet.api.get(kinds.NODE, "big-0")
    assert [(o.kind, o.uid) for o in slices["big-0"].metadata.owner_references] == [
        ("Node", node.metadata.uid)
    ]
    assert slices["big-0"].spec["pool"] == {"name": "big-0", "generation": 1, "resourceSliceCount": 1}
    template = document("nodes-claim-template")
    [request] = template["spec"]["spec"]["devices"]["requests"]
    request["exactly"] = {"deviceClassName": request.pop("deviceClassName")}  # as `lint --fix` writes it
    await fleet.api.create(kinds.DEVICE_CLASS, document("nodes-device-class"))
    await fleet.api.create(kinds.RESOURCE_CLAIM_TEMPLATE, template, namespace="default")
    pod = document("nodes-claiming")
    await fleet.api.create(kinds.POD, pod, namespace="default")
    running = await fleet.until_phase("dra-training-pod", "Running")
    assert running.spec.node_name == "big-0"
    [claim] = await _claims(fleet)
    [device] = claim.status["allocation"]["devices"]["results"]
    assert (device["driver"], device["pool"], device["device"]) == (DRIVER, "big-0", "card-0")
    [container] = fleet.cluster.nodes["big-0"].runtime.containers(running.metadata.uid)
    assert container.config.injection.env["GPU_EXAMPLE_COM_CARD_0"] == "big-0/card-0"
    assert _specs(fleet, "big-0")
    await fleet.api.delete(kinds.POD, "dra-training-pod", namespace="default", grace_period_s=0)
    await fleet.until(lambda: _given_back(fleet))


def _specs(fleet: Fleet, node: str) -> list[Path]:
    return list(NodePaths(fleet.cluster.nodes[node].root).cdi_folders[1].glob(f"{DRIVER}*"))


async def _given_back(fleet: Fleet) -> bool:
    return not await _claims(fleet) and not _specs(fleet, "big-0")


async def test_a_slice_that_somebody_deletes_comes_back(fleet: Fleet) -> None:
    before = (await _slices(fleet))["small-0"].metadata
    await fleet.api.delete(kinds.RESOURCE_SLICE, before.name)
    await fleet.until(lambda: _another(fleet, before.uid))


async def test_a_slice_that_somebody_changes_says_the_same_again_in_another_generation(fleet: Fleet) -> None:
    before = (await _slices(fleet))["small-0"]
    await fleet.api.patch(kinds.RESOURCE_SLICE, before.metadata.name, {"spec": {"devices": []}})
    await fleet.until(lambda: _says_again(fleet, before.spec["devices"]))
    assert (await _slices(fleet))["small-0"].spec["pool"]["generation"] == 2


async def _says_again(fleet: Fleet, devices: Any) -> bool:
    return bool((await _slices(fleet))["small-0"].spec.get("devices") == devices)


async def test_slices_come_back_after_a_kubelet_that_starts_has_removed_them(fleet: Fleet) -> None:
    before = (await _slices(fleet))["small-0"].metadata
    await fleet.cluster.nodes["small-0"].kubelet.restart()
    await fleet.until(lambda: _another(fleet, before.uid))


async def _another(fleet: Fleet, uid: str) -> bool:
    slices = await _slices(fleet)
    return "small-0" in slices and slices["small-0"].metadata.uid != uid
