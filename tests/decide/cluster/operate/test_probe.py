"""OPR-3: when a node's PCI bus is looked at, and what follows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tonnage.decide.cluster.operate.node_pod import SeenPod
from tonnage.decide.cluster.operate.probe import ProbeStep, probe_step
from tonnage.model.gpu_policy import OperatedNode
from tonnage.model.node.gpu_status import GpuDevice, GpuStatus

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POD = SeenPod("tonnage-probe-x", "u", NOW)
FOUND = "tonnage.dev/pci-10de.present"
WORKS = GpuStatus("a", (GpuDevice("GPU-1"),))
FORGOTTEN: dict[str, Any] = {"annotations": {"tonnage.dev/probed-boot": None}}
NFD = {"feature.node.kubernetes.io/cpu-model.id": "143"}
LEFT = {"tonnage.dev/labels": "feature.node.kubernetes.io/cpu-model.id"}
PCI = "feature.node.kubernetes.io/pci-10de.present"


def ended(code: int) -> SeenPod:
    return SeenPod("tonnage-probe-x", "u", NOW, code=code, ended=True)


def seen(found: str = "") -> dict[str, Any]:
    labels = {FOUND: found} if found else {}
    return {"labels": labels, "annotations": {"tonnage.dev/probed-boot": "boot 1"}}


@pytest.mark.parametrize(
    ("node", "boot", "pod", "step"),
    [
        pytest.param(
            OperatedNode("a", {}, {}, boot="boot 1"), "", None, ProbeStep(make_pod=True), id="a new node"
        ),
        pytest.param(
            OperatedNode("a", {FOUND: "true"}, {}, boot="boot 1"),
            "boot 1",
            None,
            ProbeStep(),
            id="once a boot",
        ),
        pytest.param(
            OperatedNode("a", {FOUND: "true"}, {}, boot="boot 1"),
            *("boot 0", None, ProbeStep(make_pod=True)),
            id="after a reboot again: hardware may be gone",
        ),
        pytest.param(
            OperatedNode("a", {}, {}), "", None, ProbeStep(), id="kubelet has not said its boot yet"
        ),
        pytest.param(OperatedNode("a", NFD, {}, boot="boot 1"), "", None, ProbeStep(), id="discovery looks"),
        pytest.param(
            OperatedNode("a", {}, {}, WORKS, boot="boot 1"),
            "",
            None,
            ProbeStep(),
            id="its agent reports a device",
        ),
        pytest.param(
            OperatedNode("a", NFD, {}, GpuStatus("a"), boot="boot 2", annotations=LEFT),
            *("", None, ProbeStep(make_pod=True)),
            id="an agent that left with the GPU has left labels like discovery's",
        ),
        pytest.param(
            OperatedNode(
                "a", {**NFD, "feature.node.kubernetes.io/x": "1"}, {}, boot="boot 2", annotations=LEFT
            ),
            *("", None, ProbeStep()),
            id="discovery looks beside an agent that has left",
        ),
        pytest.param(
            OperatedNode("a", {PCI: "true"}, {}, boot="boot 2", annotations={"tonnage.dev/labels": PCI}),
            *("", None, ProbeStep()),
            id="an agent has seen the GPU on the bus",
        ),
        pytest.param(
            OperatedNode("a", {}, {}, GpuStatus("a"), boot="boot 1"),
            *("", None, ProbeStep(make_pod=True)),
            id="an agent that reports none may lack the driver alone",
        ),
        pytest.param(
            OperatedNode("a", {FOUND: "true"}, {}, GpuStatus("a"), boot="boot 1"),
            *("boot 1", None, ProbeStep()),
            id="what the bus has shown stays while the agent reports none",
        ),
        pytest.param(
            OperatedNode("a", {FOUND: "true"}, {}, WORKS, boot="boot 1"),
            *("boot 1", None, ProbeStep(FORGOTTEN | {"labels": {FOUND: None}})),
            id="its agent reports a device since: once it is gone the bus is read again",
        ),
        pytest.param(
            OperatedNode("a", {}, {}, WORKS, boot="boot 1"),
            *("boot 1", None, ProbeStep(FORGOTTEN)),
            id="its agent reports a device after a probe that saw nothing",
        ),
        pytest.param(
            OperatedNode("a", {**NFD, FOUND: "true"}, {}, boot="boot 1"),
            *("boot 1", None, ProbeStep(FORGOTTEN | {"labels": {FOUND: None}})),
            id="discovery has come since, and says more",
        ),
        pytest.param(OperatedNode("a", {}, {}, boot="boot 1"), "", POD, ProbeStep(), id="the pod runs"),
        pytest.param(
            OperatedNode("a", {}, {}, boot="boot 1"),
            *("", ended(0), ProbeStep(seen(found="true"), delete_pod=True)),
            id="it saw a GPU",
        ),
        pytest.param(
            OperatedNode("a", {}, {}, boot="boot 1"),
            *("", ended(4), ProbeStep(seen(found="false"), delete_pod=True)),
            id="it saw none",
        ),
        pytest.param(
            OperatedNode("a", {}, {}, boot="boot 1"),
            *("", ended(1), ProbeStep(seen(), delete_pod=True)),
            id="it could not see the bus: nothing is said",
        ),
        pytest.param(
            OperatedNode("a", {}, {}, boot="boot 1"),
            *("", SeenPod("x", "u", NOW - timedelta(minutes=3)), ProbeStep(delete_pod=True)),
            id="it does not get going",
        ),
    ],
)
def test_the_next_step(node: OperatedNode, boot: str, pod: SeenPod | None, step: ProbeStep) -> None:
    assert probe_step(node, boot, pod, NOW) == step
