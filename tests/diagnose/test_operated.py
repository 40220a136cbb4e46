"""OPR-1: what a ClusterPolicy comes to, before and after it is applied."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

from tonnage.cli.operator.words import object_words
from tonnage.diagnose.operated import OperatedCluster, OperatedView, operated
from tonnage.model.gpu_policy import (
    ConfigMapChoice,
    FieldWithoutEffect,
    GpuPolicy,
    OperandSettings,
    OperatedNode,
    SeenConfigMap,
)
from tonnage.model.node.gpu_status import GpuDevice, GpuStatus
from tonnage.model.operands import SeenObject

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
AGENTS = SeenConfigMap("tonnage-system", "device-plugin-config", {})
SHARING = SeenConfigMap("gpu-operator", "sharing", {"any": "version: v1"})
T4 = OperatedNode("t4", {}, {"nvidia.com/gpu": 1}, GpuStatus("t4", (GpuDevice("GPU-1"),), heartbeat=NOW))
SILENT = OperatedNode("lost", {}, {}, GpuStatus("lost", (GpuDevice("GPU-2"),), NOW - timedelta(minutes=9)))
CPU = OperatedNode("cpu", {"kubernetes.io/os": "linux"}, {})


def view(*policies: GpuPolicy, nodes: tuple[OperatedNode, ...] = (T4, CPU)) -> OperatedView:
    found = operated(OperatedCluster(policies, nodes, [SHARING], AGENTS, "gpu-operator"), NOW)
    assert found is not None
    return found


def test_without_a_policy_there_is_nothing_to_say() -> None:
    assert operated(OperatedCluster([], [T4], [], AGENTS, "gpu-operator"), NOW) is None


def test_gpu_nodes_alone_are_named_with_the_labels_that_they_lack() -> None:
    [node] = view(GpuPolicy("p")).nodes
    assert node.readiness.node == "t4"
    assert node.labels["nvidia.com/gpu.present"] == "true"
    assert node.labels["nvidia.com/gpu.deploy.device-plugin"] == "true"


def test_a_label_of_a_user_on_a_node_without_a_gpu_stays_and_is_named() -> None:
    labels = {"nvidia.com/gpu.present": "true", "tonnage.dev/pci-10de.present": "false"}
    [node] = view(
        GpuPolicy("p"), nodes=(OperatedNode("cpu", labels, {}, GpuStatus("cpu", heartbeat=NOW)),)
    ).nodes
    assert node.labels == {}
    assert (
        node.readiness.why == "its PCI bus shows no GPU, though its label nvidia.com/gpu.present=true says so"
    )
    assert "nvidia.com/gpu.present-" in node.readiness.remedy


def test_a_configuration_that_is_named_is_what_the_agents_would_run() -> None:
    shown = view(GpuPolicy("p", plugin_config=ConfigMapChoice("sharing", "any"))).to_json()
    assert shown["configuration"] == {
        "from": "gpu-operator/sharing",
        "to": "tonnage-system/device-plugin-config",
        "keys": ["any", "default"],
    }


def test_a_configuration_that_is_missing_keeps_the_policy_from_being_ready() -> None:
    shown = view(GpuPolicy("p", plugin_config=ConfigMapChoice("typo", ""))).to_json()
    assert (shown["state"], shown["reason"]) == ("notReady", "PrerequisiteNotMet")
    assert "gpu-operator/typo does not exist" in str(shown["configuration_problem"])


def test_a_node_that_waits_is_named_with_the_part_and_what_to_do() -> None:
    shown = view(GpuPolicy("p"), nodes=(T4, SILENT))
    assert shown.judgement.message.splitlines()[0] == "1 of 2 GPU nodes are not ready"
    lost = next(node.readiness for node in shown.nodes if node.readiness.node == "lost")
    assert (lost.waits_for, lost.why) == ("agent", "its agent has been silent for 9 minutes")
    assert "spec.nodeName=lost" in lost.remedy


def test_the_oldest_policy_counts_and_a_new_one_is_ignored() -> None:
    old = GpuPolicy("z", created=NOW - timedelta(days=1))
    shown = view(GpuPolicy("a"), old)
    assert (shown.policy.name, shown.ignored) == ("z", ("a",))


def test_fields_without_effect_are_listed_with_why() -> None:
    field = FieldWithoutEffect("driver.version", "no drivers")
    shown = view(GpuPolicy("p", without_effect=(field,))).to_json()
    assert shown["fields_without_effect"] == [{"path": "driver.version", "why": "no drivers"}]


def test_parts_that_are_switched_off_are_named_by_node() -> None:
    parts = frozenset({"device-plugin", "dcgm-exporter", "mig-manager"})
    shown = view(GpuPolicy("p", operands=OperandSettings(parts=parts))).to_json()
    [node] = cast(list[Any], shown["nodes"])
    assert node["parts_off"] == ["gpu-feature-discovery"]


def test_objects_that_come_and_go_are_named_by_kind() -> None:
    parts = frozenset({"device-plugin", "mig-manager"})
    policy = GpuPolicy("p", runtime_classes=("nvidia", "nvidia-cdi"), operands=OperandSettings(parts=parts))
    sets = [
        SeenObject("nvidia-mig-manager", "u1"),
        SeenObject("gpu-feature-discovery", "u2", "gpu-feature-discovery"),
        SeenObject("web", "u3"),
    ]
    classes = [SeenObject("nvidia", "u4", "container-toolkit"), SeenObject("gvisor", "u5")]
    layouts = SeenConfigMap("tonnage-system", "default-mig-parted-config", {})
    cluster = OperatedCluster([policy], [T4], [SHARING], AGENTS, "gpu-operator", layouts, sets, classes)
    shown = operated(cluster, NOW)
    assert shown is not None
    assert shown.to_json()["objects"] == {
        "DaemonSet": {
            "create": ["nvidia-device-plugin-daemonset"],
            "delete": ["gpu-feature-discovery"],
            "of_others": ["nvidia-mig-manager"],
        },
        "RuntimeClass": {"create": ["nvidia-cdi"], "delete": [], "of_others": []},
    }
    assert object_words(shown.objects["DaemonSet"]) == (
        "create nvidia-device-plugin-daemonset; delete gpu-feature-discovery;"
        " leave to somebody else nvidia-mig-manager"
    )


def test_layouts_that_are_named_are_what_the_agents_would_read() -> None:
    layouts = SeenConfigMap("tonnage-system", "default-mig-parted-config", {})
    config_map = SeenConfigMap("gpu-operator", "layouts", {"config.yaml": "version: v1"})

    def plan(name: str) -> dict[str, Any]:
        policy = GpuPolicy("p", mig_config=ConfigMapChoice(name, ""))
        shown = operated(OperatedCluster([policy], [T4], [config_map], AGENTS, "gpu-operator", layouts), NOW)
        assert shown is not None
        return cast(dict[str, Any], shown.to_json())

    assert plan("layouts")["layouts"] == {
        "from": "gpu-operator/layouts",
        "to": "tonnage-system/default-mig-parted-config",
        "keys": ["config.yaml"],
    }
    typo = plan("typo")
    assert (typo["state"], typo["layouts"]) == ("notReady", None)
    assert "gpu-operator/typo does not exist" in typo["layouts_problem"]
