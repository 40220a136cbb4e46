"""Bad input: a condition has path, reason, remedy; the last good state stays."""

from __future__ import annotations

from typing import Any

import pytest

from controller.driver_bench import DRIVERS, UPGRADES, DriverBench
from tonnage.decide.cluster.operate.drivers.rollout import DriverCluster, needed_images
from tonnage.model.drivers.node import DriverNode
from tonnage.model.drivers.policy import DriverOwner, DriverOwnerKind, DriverPolicy, ImageFields
from tonnage.wire.kinds import (
    CLUSTER_POLICY,
    CONFIG_MAP,
    NODE,
)

DRIVER = "tonnage.dev/DriverUpgrade"


async def test_two_policies(bench: DriverBench) -> None:
    await bench.node("a")
    await bench.report("a")
    await bench.policy("first")
    await bench.clock.advance(2)
    await bench.policy("second", devicePlugin={"enabled": False})
    bench.start()
    await bench.clock.advance(5)
    assert (await bench.status("first"))["state"] == "ready"
    assert (await bench.status("second"))["state"] == "ignored"
    message = (await bench.condition("Error", "second"))["message"]
    assert message == "ClusterPolicy first is older and in force; delete one of the two"
    assert (await bench.labels("a"))["nvidia.com/gpu.deploy.device-plugin"] == "true"


async def test_a_config_map_that_is_gone(bench: DriverBench) -> None:
    await bench.configs("sharing", any="version: v1")
    await bench.policy(devicePlugin={"enabled": True, "config": {"name": "sharing", "default": "any"}})
    bench.start()
    await bench.clock.advance(5)
    before = await bench.agents_configs()
    await bench.api.delete(CONFIG_MAP, "sharing", namespace="gpu-operator")
    await bench.clock.advance(5)
    error = await bench.condition("Error")
    assert error["reason"] == "PrerequisiteNotMet"
    assert error["message"] == (
        "spec.devicePlugin.config.name: ConfigMap gpu-operator/sharing does not exist; create it, or leave"
        " the field out"
    )
    assert before
    assert await bench.agents_configs() == before


async def _with_driver(bench: DriverBench) -> list[str]:
    """A node with a driver that runs; the images of the DaemonSets."""
    await bench.machine("a")
    await bench.drivers("580.95.05")
    bench.start(DRIVERS)
    await bench.clock.advance(15)
    return await _images(bench)


async def _images(bench: DriverBench) -> list[str]:
    return [each.spec.template["spec"]["containers"][0]["image"] for each in await bench.sets()]


async def test_both_names_of_the_deletion_of_pods(bench: DriverBench) -> None:
    await bench.let_policies_have_any_field()
    before = await _with_driver(bench)
    both = {**UPGRADES, "gpuPodDeletion": {"force": True}}
    body: Any = {"spec": {"driver": {"version": "590.1.1", "upgradePolicy": both}}}
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", body)
    await bench.clock.advance(20)
    condition = await bench.condition(DRIVER)
    assert (condition["status"], condition["reason"]) == ("False", "InvalidPolicy")
    assert condition["message"] == (
        "spec.driver.upgradePolicy: podDeletion and gpuPodDeletion are one thing; remove gpuPodDeletion;"
        " drivers stay as they are"
    )
    assert (await bench.status())["state"] == "notReady"
    assert (await bench.condition("Error"))["message"] == condition["message"]
    assert await _images(bench) == before
    assert set(await bench.running()) == {"a"}


async def test_an_image_without_a_tag(bench: DriverBench) -> None:
    before = await _with_driver(bench)
    body: Any = {"spec": {"driver": {"version": None}}}
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", body)
    await bench.clock.advance(20)
    message = (await bench.condition(DRIVER))["message"]
    assert message == (
        "spec.driver.version: the image nvcr.io/nvidia/driver has neither a tag nor a digest; set version;"
        " drivers stay as they are"
    )
    assert (await bench.status())["state"] == "notReady"
    assert (await bench.condition("Error"))["message"] == message
    assert await _images(bench) == before
    assert set(await bench.running()) == {"a"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        pytest.param(
            {"image": "driver:580.95.05"},
            "nvcr.io/nvidia/driver:580.95.05:590.1.1 is no name of an image; have the tag in version alone",
            id="a tag in both",
        ),
        pytest.param(
            {"version": "sha256:0000"},
            "nvcr.io/nvidia/driver@sha256:0000 is no name of an image; correct repository, image and version",
            id="a digest that is cut",
        ),
        pytest.param(
            {"repository": "https://nvcr.io/nvidia"},
            "https://nvcr.io/nvidia/driver:590.1.1 is no name of an image; correct repository",
            id="an address",
        ),
    ],
)
async def test_an_image_that_no_runtime_would_pull(
    bench: DriverBench, fields: dict[str, str], words: str
) -> None:
    before = await _with_driver(bench)
    body: Any = {"spec": {"driver": {"version": "590.1.1", **fields}}}
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", body)
    await bench.clock.advance(20)
    assert f"spec.driver.image: {words}" in (await bench.condition(DRIVER))["message"]
    preflight = await bench.condition("tonnage.dev/DriverPreflight")
    assert (preflight["status"], preflight["reason"]) == ("Unknown", "InvalidPolicy"), "nothing was looked at"
    assert (await bench.status())["state"] == "notReady"
    assert await _images(bench) == before


async def test_selectors_that_overlap(bench: DriverBench) -> None:
    await bench.machine("a")
    await bench.policy(driver={"useNvidiaDriverCRD": True})
    image = {"repository": "nvcr.io/nvidia", "image": "driver"}
    selector = {"kubernetes.io/os": "linux"}
    await bench.api.patch(NODE, "a", {"metadata": {"labels": dict(selector)}})
    await bench.driver("first", nodeSelector=selector, version="580.95.05", **image)
    bench.start(DRIVERS)
    await bench.clock.advance(15)
    before = await _images(bench)
    await bench.driver("second", nodeSelector=selector, version="590.1.1", **image)
    await bench.clock.advance(20)
    for name in ("first", "second"):
        error = await bench.driver_condition("Error", name)
        assert error["message"] == (
            "spec.nodeSelector: first and second both select node a; make their selectors exclude each other"
        )
    assert await _images(bench) == before
    assert set(await bench.running()) == {"a"}


async def test_a_node_that_two_select_holds_up_no_other(bench: DriverBench) -> None:
    for name, pool in (("a", "both"), ("b", "both"), ("c", "one")):
        await bench.machine(name)
        await bench.api.patch(NODE, name, {"metadata": {"labels": {"pool": pool, "system": "linux"}}})
    await bench.policy(driver={"useNvidiaDriverCRD": True})
    image = {"repository": "nvcr.io/nvidia", "image": "driver", "version": "580.95.05"}
    await bench.driver("all", nodeSelector={"system": "linux"}, **image)
    await bench.driver("some", nodeSelector={"pool": "both"}, **image)
    bench.start(DRIVERS)
    await bench.clock.advance(20)
    why = "spec.nodeSelector: all and some both select nodes a, b; make their selectors exclude each other"
    messages = {name: (await bench.driver_condition(DRIVER, name))["message"] for name in ("all", "some")}
    assert messages == {
        "all": f"{why}; the drivers of those nodes stay as they are",
        "some": f"{why}; drivers stay as they are",
    }
    assert set(await bench.running()) == {"c"}


def test_an_image_is_asked_for_with_pull_secrets_where_a_group_has_some() -> None:
    fields = ImageFields("registry.example.com", "driver", "580.95.05")
    policies = [
        DriverPolicy(
            DriverOwner(DriverOwnerKind.NVIDIA_DRIVER, name, name),
            image=fields,
            selector={"pool": name},
            default=False,
            pod={"imagePullSecrets": [secret]} if secret else {},
        )
        for name, secret in (("a", "login"), ("b", ""))
    ]
    nodes = [
        DriverNode(
            name,
            labels={"pool": name, "nvidia.com/gpu.deploy.driver": "true"},
            annotations={},
            system_image="Ubuntu 22.04",
        )
        for name in ("a", "b")
    ]
    for order in (policies, policies[::-1]):
        image = "registry.example.com/driver:580.95.05-ubuntu22.04"
        assert {
            name: group.policy.owner.name
            for name, group in needed_images(DriverCluster(order, nodes)).items()
        } == {image: "a"}


async def test_fields_of_other_releases(bench: DriverBench) -> None:
    await bench.let_policies_have_any_field()
    await bench.node("a")
    await bench.report("a")
    await bench.policy(hologram={"depth": 3})
    bench.start()
    await bench.clock.advance(5)
    message = (await bench.condition("tonnage.dev/FieldsWithoutEffect"))["message"]
    assert (
        "hologram.depth: the field is of a release of NVIDIA's operator that Tonnage does not know" in message
    )
    assert (await bench.status())["state"] == "ready"


async def test_a_node_that_is_renamed(bench: DriverBench) -> None:
    await bench.node("old")
    await bench.report("old")
    await bench.policy()
    bench.start()
    await bench.clock.advance(5)
    await bench.api.delete(NODE, "old")
    await bench.node("new")
    await bench.clock.advance(5)
    message = (await bench.condition("Ready"))["message"]
    assert "new: no agent has reported yet; look at its pod" in message
    assert "old" not in message
    assert (await bench.labels("new"))["nvidia.com/gpu.present"] == "true"


async def test_a_node_for_whose_machine_the_image_may_not_be_built(bench: DriverBench) -> None:
    machine: dict[str, Any] = {"kubernetes.io/arch": "arm64"}
    await bench.node("a", **machine)
    await bench.policy()
    bench.start()
    await bench.clock.advance(5)
    message = (await bench.condition("Ready"))["message"]
    assert "a: no agent has reported yet, and the node is arm64; have image.repository serve" in message
    assert "look at its pod: kubectl get pods" in message
    await bench.report("a")
    await bench.clock.advance(5)
    assert "arm64" not in (await bench.condition("Ready"))["message"]


async def test_a_node_without_labels(bench: DriverBench) -> None:
    await bench.node("a", gpus=0)
    await bench.report("a")
    await bench.policy()
    bench.start()
    await bench.clock.advance(5)
    assert (await bench.labels("a"))["nvidia.com/gpu.present"] == "true", "its agent has seen a device"
    await bench.api.patch(NODE, "a", {"metadata": {"labels": dict.fromkeys(await bench.labels("a"))}})
    await bench.clock.advance(5)
    assert (await bench.labels("a"))["nvidia.com/gpu.deploy.device-plugin"] == "true"
