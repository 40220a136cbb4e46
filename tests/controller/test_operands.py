"""NVIDIA's operands in the controller: parts that are switched off, names that people type, validation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.test_operator import OPTIONS, Bench, bench
from tonnage.wire.kinds import (
    CLUSTER_POLICY,
    DAEMON_SET,
    NODE,
    NODE_GPU_STATUS,
    POD,
    PRIORITY_CLASS,
    RUNTIME_CLASS,
)

__all__ = ["bench"]


@pytest.mark.parametrize(
    ("sections", "labels", "off"),
    [
        pytest.param({}, {}, "", id="all run"),
        pytest.param({"gfd": {"enabled": False}}, {}, "gpu-feature-discovery", id="a section off"),
        pytest.param(
            {}, {"nvidia.com/gpu.deploy.device-plugin": "false"}, "device-plugin", id="a label of a user"
        ),
        pytest.param({}, {"nvidia.com/gpu.deploy.device-plugin": "paused-for-mig-change"}, "", id="a pause"),
        pytest.param(
            {},
            {"nvidia.com/gpu.deploy.operands": "false"},
            "dcgm-exporter,device-plugin,gpu-feature-discovery,mig-manager",
            id="no operand at all",
        ),
        pytest.param(
            {"sandboxWorkloads": {"enabled": True}},
            {"nvidia.com/gpu.workload.config": "vm-passthrough"},
            "dcgm-exporter,device-plugin,gpu-feature-discovery,mig-manager",
            id="a node for virtual machines",
        ),
    ],
)
async def test_parts_are_switched_off_by_section_and_by_label(
    bench: Bench, sections: dict[str, Any], labels: dict[str, Any], off: str
) -> None:
    await bench.node("a", **labels)
    await bench.policy(**sections)
    bench.start()
    await bench.clock.advance(3)
    node = await bench.api.get(NODE, "a")
    assert node.metadata.annotations.get("tonnage.dev/parts-off", "") == off
    await bench.api.delete(CLUSTER_POLICY, "cluster-policy")
    await bench.clock.advance(3)
    assert "tonnage.dev/parts-off" not in (await bench.api.get(NODE, "a")).metadata.annotations


async def test_there_are_nvidia_s_runtime_classes(bench: Bench) -> None:
    other: Any = {"metadata": {"name": "nvidia-legacy"}, "handler": "other"}
    await bench.api.create(RUNTIME_CLASS, other)
    await bench.policy(operator={"runtimeClass": "nvidia-own"})
    bench.start()
    await bench.clock.advance(3)
    classes = (await bench.api.list(RUNTIME_CLASS)).items
    assert {found.metadata.name: found.handler for found in classes} == {
        "nvidia-own": "nvidia-own",
        "nvidia-cdi": "nvidia-cdi",
        "nvidia-legacy": "other",
    }
    await bench.api.delete(RUNTIME_CLASS, "nvidia-cdi")
    of_cdi = next(found.metadata.labels for found in classes if found.metadata.name == "nvidia-cdi")
    wrong: Any = {"metadata": {"name": "nvidia-cdi", "labels": dict(of_cdi)}, "handler": "runc"}
    await bench.api.create(RUNTIME_CLASS, wrong)
    await bench.clock.advance(10)
    assert (await bench.api.get(RUNTIME_CLASS, "nvidia-cdi")).handler == "nvidia-cdi"
    nri: Any = {"spec": {"cdi": {"nriPluginEnabled": True}}}
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", nri)
    await bench.clock.advance(3)
    assert [found.metadata.name for found in (await bench.api.list(RUNTIME_CLASS)).items] == ["nvidia-legacy"]


async def test_a_pod_tries_the_devices_of_a_node(bench: Bench) -> None:
    """OPR-2."""
    gpu = {"name": "nvidia.com/gpu", "devices": 1, "replicas": 1, "capacity": 1, "allocatable": 1}
    await bench.node("a")
    taints: Any = [
        {"key": "nvidia.com/gpu-not-ready", "effect": "NoSchedule"},
        {"key": "pool", "value": "gpu", "effect": "NoSchedule"},
    ]
    await bench.api.patch(NODE, "a", {"spec": {"taints": taints}})
    await bench.report("a", resources=[{**gpu, "allocated": 0}])
    await bench.api.create(PRIORITY_CLASS, {"metadata": {"name": "tonnage-validation"}, "value": -1})
    await bench.policy()
    bench.start(replace(OPTIONS, operand_image="registry.example.com/tonnage:1"))
    await bench.clock.advance(3)
    [pod] = (await bench.api.list(POD, namespace="gpu-operator")).items
    assert pod.metadata.labels["app"] == "nvidia-cuda-validator"
    assert "a: a pod is tried" in (await bench.condition("Ready"))["message"]
    ended: Any = {
        "status": {
            "phase": "Failed",
            "containerStatuses": [
                {"name": "workload", "state": {"terminated": {"exitCode": 1, "message": "cuInit: x"}}}
            ],
        }
    }
    await bench.api.patch(POD, pod.metadata.name, ended, namespace="gpu-operator", subresource="status")
    await bench.clock.advance(3)
    assert not (await bench.api.list(POD, namespace="gpu-operator")).items
    ready = await bench.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "OperandNotReady")
    assert "a: cuInit: x" in ready["message"]
    assert len((await bench.api.get(NODE, "a")).spec.taints) == 2
    await bench.clock.advance(650)
    await bench.report("a", resources=[{**gpu, "allocated": 0}])
    await bench.clock.advance(65)
    [pod] = (await bench.api.list(POD, namespace="gpu-operator")).items
    ended["status"] = {
        "phase": "Succeeded",
        "containerStatuses": [{"state": {"terminated": {"exitCode": 0}}}],
    }
    await bench.api.patch(POD, pod.metadata.name, ended, namespace="gpu-operator", subresource="status")
    await bench.clock.advance(3)
    assert (await bench.status())["state"] == "ready"
    node = await bench.api.get(NODE, "a")
    assert node.metadata.annotations["tonnage.dev/validated"] == "true"
    assert [taint.key for taint in node.spec.taints] == ["pool"], "of taints the startup taint alone goes"
    report = (await bench.api.get(NODE_GPU_STATUS, "a")).status
    assert report["deviceCount"] == 1, "the agent's own fields stay"
    assert [stage["outcome"] for stage in report["validation"]["stages"]] == ["passed"] * 4


async def test_a_users_image_tries_the_devices(bench: Bench) -> None:
    await bench.node("a")
    gpu = {"name": "nvidia.com/gpu", "devices": 1, "replicas": 1, "capacity": 1, "allocatable": 1}
    await bench.report("a", resources=[{**gpu, "allocated": 0}])
    await bench.api.create(PRIORITY_CLASS, {"metadata": {"name": "tonnage-validation"}, "value": -1})
    await bench.policy()
    image = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0"
    bench.start(replace(OPTIONS, operand_image="registry.example.com/tonnage:1", workload_image=image))
    await bench.clock.advance(10)
    pods = (await bench.api.list(POD, namespace="gpu-operator")).items
    [tries] = [pod for pod in pods if pod.metadata.labels["app"] == "nvidia-cuda-validator"]
    [container] = tries.spec.containers
    assert (container.image, container.command) == (image, [])
    assert container.resources.limits["nvidia.com/gpu"] == "1"


async def test_operands_have_the_names_that_people_type(bench: Bench) -> None:
    """OPR-4."""
    await bench.policy()
    bench.start(replace(OPTIONS, operand_image="registry.example.com/tonnage:1"))
    await bench.clock.advance(5)
    plugin = await bench.api.get(DAEMON_SET, "nvidia-device-plugin-daemonset", "gpu-operator")
    [owner] = plugin.metadata.owner_references
    assert (owner.kind, owner.name) == ("ClusterPolicy", "cluster-policy")
    written = plugin.metadata.resource_version
    await bench.clock.advance(100)
    plugin = await bench.api.get(DAEMON_SET, "nvidia-device-plugin-daemonset", "gpu-operator")
    assert plugin.metadata.resource_version == written, "at rest nothing is written"
    off: Any = {"spec": {"devicePlugin": {"enabled": False}}}
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", off)
    await bench.clock.advance(5)
    sets = (await bench.api.list(DAEMON_SET, namespace="gpu-operator")).items
    assert "nvidia-device-plugin-daemonset" not in {found.metadata.name for found in sets}


async def _has_dcgm(bench: Bench) -> bool:
    sets = (await bench.api.list(DAEMON_SET, namespace="gpu-operator")).items
    return "nvidia-dcgm" in {daemons.metadata.name for daemons in sets}


async def test_dcgm_runs_while_the_policy_asks_for_it(bench: Bench) -> None:
    await bench.policy()
    bench.start(replace(OPTIONS, operand_image="registry.example.com/tonnage:1"))
    await bench.clock.advance(5)
    assert not await _has_dcgm(bench)
    section: dict[str, Any] = {"enabled": True, "resources": {"limits": {"cpu": "0.5"}}}
    on: Any = {"spec": {"dcgm": section}}
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", on)
    await bench.clock.advance(5)
    daemons = await bench.api.get(DAEMON_SET, "nvidia-dcgm", "gpu-operator")
    assert daemons.metadata.owner_references[0].kind == "ClusterPolicy"
    await bench.clock.advance(100)
    again = await bench.api.get(DAEMON_SET, "nvidia-dcgm", "gpu-operator")
    assert again.metadata.resource_version == daemons.metadata.resource_version, "at rest nothing is written"
    off: Any = {"spec": {"dcgm": {"enabled": False}}}
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", off)
    await bench.clock.advance(5)
    assert not await _has_dcgm(bench)
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", on)
    await bench.clock.advance(5)
    assert await _has_dcgm(bench)
    await bench.api.delete(CLUSTER_POLICY, "cluster-policy")
    await bench.clock.advance(5)
    assert not await _has_dcgm(bench)


async def test_a_policy_waits_for_the_pods_of_dcgm(bench: Bench) -> None:
    await bench.policy(dcgm={"enabled": True})
    bench.start(replace(OPTIONS, operand_image="registry.example.com/tonnage:1"))
    await bench.clock.advance(5)
    assert (await bench.status())["state"] == "ready"
    for ready, state in ((1, "notReady"), (2, "ready")):
        status: Any = {"status": {"desiredNumberScheduled": 2, "numberReady": ready}}
        await bench.api.patch(
            DAEMON_SET, "nvidia-dcgm", status, namespace="gpu-operator", subresource="status"
        )
        await bench.clock.advance(5)
        assert (await bench.status())["state"] == state
        if state == "notReady":
            error = await bench.condition("Error")
            assert error["reason"] == "OperandNotReady"
            assert error["message"] == (
                "DaemonSet gpu-operator/nvidia-dcgm: 1 of 2 pods are not ready;"
                " run: kubectl describe pods -l app=nvidia-dcgm -n gpu-operator"
            )


async def test_dcgm_asked_for_in_vain_is_said_in_the_status(bench: Bench) -> None:
    """Without the names of NVIDIA's operands the controller makes no DaemonSets."""
    await bench.policy(dcgm={"enabled": True})
    bench.start()
    await bench.clock.advance(5)
    message = (await bench.condition("tonnage.dev/FieldsWithoutEffect"))["message"]
    assert "dcgm: no DaemonSets are made under NVIDIA's names; set operands.nvidiaNames" in message


async def test_a_name_that_is_taken_is_said_in_the_status(bench: Bench) -> None:
    """NVIDIA's operator is still there."""
    template: Any = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "x", "image": "x"}]},
    }
    theirs: Any = {
        "metadata": {"name": "nvidia-mig-manager"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template},
    }
    await bench.api.create(DAEMON_SET, theirs, namespace="gpu-operator")
    await bench.policy()
    bench.start(replace(OPTIONS, operand_image="registry.example.com/tonnage:1"))
    await bench.clock.advance(5)
    error = await bench.condition("Error")
    assert error["status"] == "True"
    assert "DaemonSets nvidia-mig-manager in gpu-operator are another's" in error["message"]


async def test_a_runtime_class_of_another_s_with_another_handler_is_named(bench: Bench) -> None:
    """One with the handler of its name does what the controller's would."""
    for name, handler in (("nvidia", "runc"), ("nvidia-cdi", "nvidia-cdi")):
        body: Any = {"metadata": {"name": name}, "handler": handler}
        await bench.api.create(RUNTIME_CLASS, body)
    await bench.policy()
    bench.start()
    await bench.clock.advance(5)
    error = await bench.condition("Error")
    assert (error["status"], error["reason"]) == ("True", "PrerequisiteNotMet")
    assert error["message"] == (
        "RuntimeClass nvidia is another's and leads to handler runc, not nvidia; delete it, and the"
        " controller makes its own, or name another in operator.runtimeClass"
    )
    await bench.api.delete(RUNTIME_CLASS, "nvidia")
    await bench.clock.advance(5)
    assert (await bench.api.get(RUNTIME_CLASS, "nvidia")).handler == "nvidia"
    assert (await bench.condition("Error"))["status"] == "False"
    assert (await bench.api.get(RUNTIME_CLASS, "nvidia-cdi")).metadata.labels == {}
