"""A cluster that refuses requests of the controller: conditions say which and why, and the rest goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from controller.driver_bench import DRIVERS, DriverBench
from controller.test_operator import OPTIONS, Bench
from tonnage.controller.main import run_controller
from tonnage.controller.refused_writes import RefusedWrites
from tonnage.loop.informer import Informer
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


def begin(bench: Bench, api: Any) -> None:
    bench.tasks.append(asyncio.create_task(run_controller(OPERANDS, api=api, clock=bench.clock)))


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
