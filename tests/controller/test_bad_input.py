"""Bad input, and a cluster that refuses: a condition has path, reason, remedy; the last good state stays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from controller.driver_bench import DRIVERS, UPGRADES, DriverBench
from controller.test_operator import OPTIONS, Bench
from tonnage.controller.main import run_controller
from tonnage.controller.refused_writes import RefusedWrites
from tonnage.decide.cluster.operate.drivers.rollout import DriverCluster, needed_images
from tonnage.loop.informer import Informer
from tonnage.model.drivers.node import DriverNode
from tonnage.model.drivers.policy import DriverOwner, DriverOwnerKind, DriverPolicy, ImageFields
from tonnage.model.errors import ApiError
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import (
    CLUSTER_POLICY,
    CONFIG_MAP,
    DAEMON_SET,
    EVENT,
    NODE,
    NODE_GPU_STATUS,
    RESOURCE_QUOTA,
)

OPERANDS = replace(OPTIONS, operand_image="registry.example.com/tonnage:1")
REFUSED = "tonnage.dev/RequestsRefused"
DRIVER = "tonnage.dev/DriverUpgrade"


class Refusing:
    """An API server that answers some requests with an error, as long as `refuses` says so."""

    def __init__(self, api: KubernetesApi, message: str, code: int = 403) -> None:
        self._api = api
        self._error = (message, code)
        self.refuses: Callable[[str, Any, tuple[Any, ...]], bool] = lambda _verb, _kind, _rest: False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._api, name)
        if name not in ("create", "patch", "delete", "list"):
            return method

        async def call(kind: Any, *rest: Any, **options: Any) -> Any:
            if self.refuses(name, kind, rest):
                message, code = self._error
                raise ApiError(code, "Forbidden", message)
            return await method(kind, *rest, **options)

        return call


@pytest.fixture
async def bench() -> AsyncIterator[DriverBench]:
    bench = DriverBench()
    await bench.install()
    yield bench
    for task in bench.tasks:
        task.cancel()
    await asyncio.gather(*bench.tasks, return_exceptions=True)


def begin(bench: Bench, api: Any) -> None:
    bench.tasks.append(asyncio.create_task(run_controller(OPERANDS, api=api, clock=bench.clock)))


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


async def test_a_webhook_that_refuses_to_change_a_node(bench: DriverBench) -> None:
    api = Refusing(bench.api, 'admission webhook "nodes.example.com" denied the request: frozen')
    api.refuses = lambda verb, kind, rest: verb == "patch" and kind.kind == "Node" and rest[0] == "a"
    for name in ("a", "b"):
        await bench.node(name)
        await bench.report(name)
    await bench.policy()
    begin(bench, api)
    await bench.clock.advance(5)
    condition = await bench.condition(REFUSED)
    assert (condition["status"], condition["reason"]) == ("True", "WebhookRefuses")
    assert condition["message"].partition("\n")[2] == (
        'Node a: admission webhook "nodes.example.com" denied the request: frozen; correct the webhook, or'
        " exempt the controller's service account from it"
    )
    assert (await bench.labels("b"))["nvidia.com/gpu.present"] == "true", "it holds up no other node"
    api.refuses = lambda _verb, _kind, _rest: False
    await bench.clock.advance(70)
    assert (await bench.labels("a"))["nvidia.com/gpu.present"] == "true"
    assert (await bench.condition(REFUSED))["status"] == "False"


async def test_a_policy_whose_status_is_refused_keeps_no_other_from_its_own(bench: DriverBench) -> None:
    api = Refusing(bench.api, 'admission webhook "policies.example.com" denied the request: frozen')
    await bench.node("a")
    await bench.policy()
    spec: Any = {section: {} for section in (await bench.api.get(CLUSTER_POLICY, "cluster-policy")).spec}
    await bench.clock.advance(2)  # the oldest counts
    for name in ("a-second", "z-third"):
        await bench.api.create(CLUSTER_POLICY, {"metadata": {"name": name}, "spec": spec})
    refused = "cluster-policy"
    api.refuses = lambda verb, kind, rest: (
        verb == "patch" and kind.kind == "ClusterPolicy" and rest[0] == refused
    )
    begin(bench, api)
    await bench.clock.advance(10)
    assert "state" not in await bench.status(refused)
    assert [(await bench.status(name))["state"] for name in ("a-second", "z-third")] == ["ignored"] * 2


async def test_rights_that_are_taken_away_at_run_time(bench: DriverBench) -> None:
    api = Refusing(bench.api, 'User "controller" cannot patch resource "configmaps"')
    await bench.node("a")
    await bench.report("a")
    await bench.configs("sharing", any="version: v1")
    await bench.policy(devicePlugin={"enabled": True, "config": {"name": "sharing", "default": "any"}})
    begin(bench, api)
    await bench.clock.advance(5)
    before = await bench.agents_configs()
    api.refuses = lambda verb, kind, _rest: verb in ("patch", "list") and kind.kind == "ConfigMap"
    bench.server.store.cut_watches()
    change: Any = {"data": {"any": "version: v1\nflags: {}\n"}}
    await bench.api.patch(CONFIG_MAP, "sharing", change, namespace="gpu-operator")
    await bench.clock.advance(40)
    condition = await bench.condition(REFUSED)
    assert (condition["status"], condition["reason"]) == ("True", "Forbidden")
    assert "give the controller its rights back: helm upgrade writes its roles again" in condition["message"]
    assert await bench.agents_configs() == before, "the last good state stays"
    api.refuses = lambda _verb, _kind, _rest: False
    await bench.clock.advance(120)
    assert await bench.agents_configs() != before
    assert (await bench.condition(REFUSED))["status"] == "False"


def test_a_kind_that_is_not_served_any_more_is_no_lack_of_rights() -> None:
    clock, api = VirtualClock(), cast(KubernetesApi, None)
    refused = RefusedWrites(clock, on_change=lambda: None)
    nodes = Informer(api, NODE, clock)
    refused.watch([nodes])
    assert refused.current() == []
    nodes.refusal = ApiError(404, "NotFound", "the server could not find the requested resource")
    [request] = refused.current()
    assert (request.subject, request.reason) == ("the list of nodes", "Refused")
    nodes.refusal = ApiError(403, "Forbidden", "nodes is forbidden")
    assert [request.reason for request in refused.current()] == ["Forbidden"]


async def test_a_quota_that_forbids_the_daemon_sets_pods(bench: DriverBench) -> None:
    await bench.node("a")
    await bench.report("a")
    quota: Any = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    await bench.api.create(RESOURCE_QUOTA, quota, namespace="gpu-operator")
    await bench.policy()
    bench.start(OPERANDS)
    await bench.clock.advance(5)
    name = "nvidia-device-plugin-daemonset"
    status: Any = {"status": {"desiredNumberScheduled": 1, "currentNumberScheduled": 0}}
    await bench.api.patch(DAEMON_SET, name, status, namespace="gpu-operator", subresource="status")
    await bench.clock.advance(100)
    condition = await bench.condition(REFUSED)
    assert (condition["status"], condition["reason"]) == ("True", "PodsMissing")
    assert (
        f"DaemonSet gpu-operator/{name} (spec.devicePlugin): 1 of 1 pods have not been made; a ResourceQuota,"
        " a webhook or Pod Security may forbid them; see its events: kubectl describe daemonset"
        f" {name} --namespace gpu-operator" in condition["message"]
    )
    done: Any = {"status": {"currentNumberScheduled": 1}}
    await bench.api.patch(DAEMON_SET, name, done, namespace="gpu-operator", subresource="status")
    await bench.clock.advance(40)
    assert (await bench.condition(REFUSED))["status"] == "False"


def _refuses_sets(api: Refusing, *names: str) -> None:
    """A webhook that refuses DaemonSets of these names; ApplyObject patches them."""
    api.refuses = lambda verb, kind, rest: verb == "patch" and kind.kind == "DaemonSet" and rest[0] in names


async def test_a_driver_that_is_refused_holds_up_no_other(bench: DriverBench) -> None:
    api = Refusing(bench.api, 'admission webhook "sets.example.com" denied the request: no')
    _refuses_sets(api, "nvidia-gpu-driver-first-ubuntu22.04")
    image = {"repository": "nvcr.io/nvidia", "image": "driver", "version": "580.95.05"}
    await bench.policy(driver={"useNvidiaDriverCRD": True})
    for name, node in (("first", "a"), ("second", "b")):
        await bench.machine(node)
        await bench.api.patch(NODE, node, {"metadata": {"labels": {"pool": name}}})
        await bench.driver(name, nodeSelector={"pool": name}, **image)
    bench.tasks.append(asyncio.create_task(run_controller(DRIVERS, api=cast(Any, api), clock=bench.clock)))
    await bench.clock.advance(30)
    assert set(await bench.running()) == {"b"}
    first = await bench.driver_condition(DRIVER, "first")
    assert (
        "a: waits for you: the API server refuses the driver's DaemonSet: admission webhook"
        in first["message"]
    )
    assert (await bench.driver_condition("Ready", "second"))["status"] == "True"
    api.refuses = lambda _verb, _kind, _rest: False
    await bench.clock.advance(60)
    assert set(await bench.running()) == {"a", "b"}


async def test_a_driver_stays_where_the_one_after_it_is_refused(bench: DriverBench) -> None:
    api = Refusing(bench.api, 'admission webhook "sets.example.com" denied the request: no')
    await bench.machine("a")
    await bench.drivers("580.95.05")
    bench.tasks.append(asyncio.create_task(run_controller(DRIVERS, api=cast(Any, api), clock=bench.clock)))
    await bench.clock.advance(15)
    before = [daemons.metadata.name for daemons in await bench.sets()]
    info: Any = {"status": {"nodeInfo": {"kernelVersion": "6.8.0-1-generic", "osImage": "Ubuntu 24.04"}}}
    await bench.api.patch(NODE, "a", info, subresource="status")
    api.refuses = lambda verb, kind, _rest: verb == "patch" and kind.kind == "DaemonSet"
    host = (await bench.api.get(NODE_GPU_STATUS, "a")).status["host"]
    await bench.report("a", host={**host, "systemVersion": "24.04", "kernel": "6.8.0-1-generic"})
    await bench.clock.advance(60)
    assert [daemons.metadata.name for daemons in await bench.sets()] == before, "the last good state stays"
    assert set(await bench.running()) == {"a"}
    assert not (await bench.api.get(NODE, "a")).spec.unschedulable
    api.refuses = lambda _verb, _kind, _rest: False
    await bench.clock.advance(120)
    assert [daemons.metadata.name for daemons in await bench.sets()] == [
        "nvidia-driver-daemonset-ubuntu24.04"
    ]
    assert set(await bench.running()) == {"a"}


async def test_without_the_right_to_write_the_status_an_event_says_so(bench: DriverBench) -> None:
    api = Refusing(bench.api, 'User "controller" cannot patch resource "clusterpolicies/status"')
    await bench.node("a")
    await bench.report("a")
    await bench.policy()
    begin(bench, api)
    await bench.clock.advance(5)
    before = await bench.status()
    api.refuses = lambda verb, kind, _rest: verb in ("patch", "list") and kind.kind == "ClusterPolicy"
    await bench.node("b")
    await bench.clock.advance(60)
    assert await bench.status() == before
    events = (await bench.api.list(EVENT, namespace="default")).items
    [event] = [event for event in events if event.reason == "Forbidden"]
    assert (event.type, event.involved_object.kind) == ("Warning", "ClusterPolicy")
    assert event.message == (
        'the status cannot be written: User "controller" cannot patch resource "clusterpolicies/status"; give'
        " the controller its rights back: helm upgrade writes its roles again"
    )
