"""OPR-3, OPR-4: labels of GPU nodes, by the table in NVIDIA's operator."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.decide.cluster.operate.node_metadata import metadata_changes
from tonnage.decide.cluster.operate.operand_labels import has_gpu, label_changes
from tonnage.model.gpu_policy import GpuPolicy, OperandSettings
from tonnage.model.operands import SWITCHED

PCI = {"feature.node.kubernetes.io/pci-10de.present": "true"}
PRESENT = {**PCI, "nvidia.com/gpu.present": "true"}
CONTAINER = (
    *("driver", "gpu-feature-discovery", "container-toolkit", "device-plugin", "dcgm", "dcgm-exporter"),
    *("node-status-exporter", "operator-validator", "client"),
)


def deploy(*names: str, value: str = "true") -> dict[str, str]:
    return {f"nvidia.com/gpu.deploy.{name}": value for name in names}


PROBED = "tonnage.dev/pci-10de.present"
SET = "tonnage.dev/operator-labels"
ALL_OURS = {SET: "gpu.present"}
SERVED = {**PRESENT, **deploy(*CONTAINER)}


@pytest.mark.parametrize(
    ("labels", "devices", "answer"),
    [
        pytest.param(PCI, None, True, id="node feature discovery saw one"),
        pytest.param(
            {"feature.node.kubernetes.io/pci-0302_10de.present": "true"}, None, True, id="a 3D controller"
        ),
        pytest.param({}, 2, True, id="the agent reports two"),
        pytest.param({}, None, None, id="nobody has looked"),
        pytest.param({"nvidia.com/gpu.present": "true"}, None, None, id="a label alone is no look"),
        pytest.param({"feature.node.kubernetes.io/cpu-model.id": "1"}, None, False, id="discovery saw none"),
        pytest.param({}, 0, None, id="the agent sees none: its driver may be down"),
        pytest.param(PCI, 0, True, id="a card whose driver is missing is one"),
        pytest.param({PROBED: "true"}, 0, True, id="the probe saw one, whose driver is missing"),
        pytest.param({PROBED: "false"}, 0, False, id="neither the probe nor the agent sees one"),
        pytest.param({PROBED: "false"}, 1, True, id="the agent reports one that is not on the PCI bus"),
    ],
)
def test_who_says_that_a_node_has_a_gpu(
    labels: dict[str, str], devices: int | None, answer: bool | None
) -> None:
    assert has_gpu(labels, devices) is answer


@pytest.mark.parametrize(
    ("labels", "policy", "changes"),
    [
        pytest.param(PCI, {}, {"nvidia.com/gpu.present": "true", **deploy(*CONTAINER)}, id="a new GPU node"),
        pytest.param(SERVED, {}, {}, id="a node that has them all is left alone"),
        pytest.param(
            {**SERVED, "nvidia.com/gpu.deploy.dcgm": "false"}, {}, {}, id="an opt-out of a user stays"
        ),
        pytest.param(
            {**SERVED, "nvidia.com/gpu.deploy.device-plugin": "paused-for-mig-change"},
            {},
            {},
            id="a part that is paused stays so",
        ),
        pytest.param(
            {**SERVED, "nvidia.com/gpu.deploy.dcgm": ""}, {}, deploy("dcgm"), id="an empty value is none"
        ),
        pytest.param(
            {**SERVED, "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
            {},
            deploy("mig-manager"),
            id="a board that can be divided",
        ),
        pytest.param(
            {**SERVED, "nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/mig.capable": "true"},
            {},
            deploy("mig-manager"),
            id="a label says that it can be divided",
        ),
        pytest.param(
            {**SERVED, "nvidia.com/gpu.product": "NVIDIA-A100", "nvidia.com/vgpu.host-driver-version": "1"},
            {},
            {},
            id="a virtual GPU cannot",
        ),
        pytest.param(
            {**SERVED, "nvidia.com/gpu.deploy.operands": "false"},
            {},
            dict.fromkeys(deploy(*CONTAINER)),
            id="a node without operands loses them all",
        ),
        pytest.param(
            {**SERVED, "feature.node.kubernetes.io/pci-10de.present": "false"},
            {},
            {"nvidia.com/gpu.present": "false", **dict.fromkeys(deploy(*CONTAINER))},
            id="labels go with the hardware",
        ),
        pytest.param({"nvidia.com/gpu.present": "true"}, {}, {}, id="nobody looked: left alone"),
        pytest.param({"kubernetes.io/os": "linux"}, {}, {}, id="a node without GPUs"),
        pytest.param(
            {**PRESENT, **deploy(*CONTAINER), "nvidia.com/gpu.workload.config": "vm-passthrough"},
            {"sandboxes": True},
            {
                **deploy("sandbox-device-plugin", "sandbox-validator", "vfio-manager", "kata-manager"),
                **deploy("cc-manager"),
                **dict.fromkeys(deploy(*(name for name in CONTAINER if name != "client"))),
            },
            id="a node for virtual machines",
        ),
        pytest.param(
            {**SERVED, "nvidia.com/gpu.workload.config": "vm-vgpu"},
            {},
            {},
            id="which counts only where the policy allows them",
        ),
        pytest.param(
            {**SERVED, "nvidia.com/gpu.workload.config": "typo"},
            {"sandboxes": True},
            {},
            id="a word that is unknown is the default",
        ),
    ],
)
def test_what_changes_on_a_node(
    labels: dict[str, str], policy: dict[str, bool], changes: dict[str, str | None]
) -> None:
    chosen = GpuPolicy("p", **policy)  # type: ignore[arg-type]
    found = label_changes(labels, ALL_OURS, chosen, devices=None)
    assert found == changes
    left = {key: value for key, value in (labels | found).items() if value is not None}
    assert label_changes(left, ALL_OURS, chosen, devices=None) == {}


@pytest.mark.parametrize(
    ("annotations", "value"),
    [
        pytest.param({}, "true", id="a user's, which may be what brings the agent there, stays"),
        pytest.param({SET: "gpu.deploy.driver"}, "true", id="also where the controller has set other labels"),
        pytest.param({SET: "gpu.present"}, "false", id="the controller's goes with the hardware"),
        pytest.param(
            {"tonnage.dev/labels": "nvidia.com/gpu.count,nvidia.com/gpu.present"},
            "false",
            id="so does an agent's",
        ),
    ],
)
@pytest.mark.parametrize(
    "bus", [{PROBED: "false"}, {"feature.node.kubernetes.io/cpu-model.id": "1"}], ids=["probe", "discovery"]
)
def test_whose_label_of_a_gpu_stays_where_the_bus_shows_none(
    bus: dict[str, str], annotations: dict[str, str], value: str
) -> None:
    labels = {**bus, "nvidia.com/gpu.present": "true"}
    changes = label_changes(labels, annotations, GpuPolicy("p"), devices=0)
    assert (labels | changes)["nvidia.com/gpu.present"] == value


def test_labels_and_parts_of_a_node_stay_while_its_driver_is_down() -> None:
    policy = GpuPolicy("p", operands=OperandSettings(parts=frozenset({"device-plugin"})))
    new: dict[str, Any] = metadata_changes({}, {}, policy, devices=8)
    labels, annotations = new["labels"], new["annotations"]
    assert annotations["tonnage.dev/parts-off"]
    assert metadata_changes(labels, annotations, policy, devices=8) == {}
    for probed in ({}, {PROBED: "true"}):
        assert metadata_changes(labels | probed, annotations, policy, devices=0) == {}
    gone: dict[str, Any] = metadata_changes({**labels, PROBED: "false"}, annotations, policy, devices=0)
    assert gone["labels"] == {**dict.fromkeys(deploy(*CONTAINER)), "nvidia.com/gpu.present": "false"}


@pytest.mark.parametrize(
    ("labels", "annotations", "changes"),
    [
        pytest.param({"nvidia.com/gpu.present": "true"}, {}, {}, id="a label that somebody else set stays"),
        pytest.param(
            {"nvidia.com/gpu.present": "false", "nvidia.com/gpu.deploy.dcgm": "paused-for-driver-upgrade"},
            {SET: "gpu.deploy.dcgm,gpu.deploy.driver,gpu.present"},
            {
                "labels": {"nvidia.com/gpu.deploy.dcgm": None, "nvidia.com/gpu.present": None},
                "annotations": {SET: None},
            },
            id="ours go, paused ones too",
        ),
        pytest.param(
            {"nvidia.com/gpu.deploy.dcgm": "false"},
            {SET: "gpu.deploy.dcgm"},
            {"annotations": {SET: None}},
            id="an opt-out over ours stays",
        ),
        pytest.param(
            {"nvidia.com/mig.config": "all-1g.5gb", "example.com/x": "true"},
            {SET: "mig.config,x,,example.com/x"},
            {"annotations": {SET: None}},
            id="of a note that somebody has changed nothing else goes",
        ),
    ],
)
def test_without_a_policy_our_labels_go(
    labels: dict[str, str], annotations: dict[str, str], changes: dict[str, object]
) -> None:
    assert metadata_changes(labels, annotations, None, devices=1) == changes


def test_the_note_follows_the_labels_in_one_write() -> None:
    policy = GpuPolicy("p", operands=OperandSettings(parts=frozenset(SWITCHED)))
    mine = {**PCI, "nvidia.com/gpu.present": "true"}
    first = metadata_changes(mine, {}, policy, devices=1)
    set_labels = ",".join(sorted(f"gpu.deploy.{name}" for name in CONTAINER))
    assert first == {"labels": deploy(*CONTAINER), "annotations": {SET: set_labels}}
    assert metadata_changes(SERVED, {SET: set_labels}, policy, devices=1) == {}
    gone = {"feature.node.kubernetes.io/cpu": "1", **deploy(*CONTAINER)}
    last = metadata_changes(gone, {SET: set_labels}, policy, devices=None)
    assert last == {"labels": dict.fromkeys(deploy(*CONTAINER)), "annotations": {SET: None}}
