"""Nodes that are objects only: they are Ready, say what they have, and pods seem to run on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tonnage.documents.scenario import Scenario, parse_scenario
from tonnage.loop.informer import Informers
from tonnage.model.errors import ConfigError
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.in_process_client import LocalKubernetes
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.twin.controllers.nodes.health import GRACE_S
from tonnage.twin.controllers.nodes.lifecycle import NodeLifecycleController
from tonnage.twin.light_nodes import LightNodes
from tonnage.twin.machines import light_nodes_of, machines_of
from tonnage.twin.platform import agent_daemon_set
from tonnage.twin.scheduler.loop import Scheduler
from tonnage.wire.kinds import EVENT, LEASE, NODE, POD

FLEET = """
name: light
groups:
- {name: h100, nodes: 3, light: true, gpu: {model: H100-80, count: 2}, pods: 3}
- {name: a100, nodes: 1, light: true, gpu: {model: A100-40, count: 2, mig: [1g.5gb, 1g.5gb, 1g.5gb+me]}}
- {name: cpu, nodes: 1, light: true}
- {name: t4, nodes: 1, gpu: {model: T4}}
"""


def _fleet(text: str = FLEET) -> Scenario:
    return parse_scenario(text, source="fleet")


class Bench:
    """Light nodes with a scheduler and the node controller, on a clock that stands still."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = ApiServer(self.clock, random=Random(1))
        self.api: LocalKubernetes = self.server.local()
        informers = Informers(self.api, self.clock)
        self.light = LightNodes(light_nodes_of(_fleet()), self.api, self.clock, informers)
        self.lifecycle = NodeLifecycleController(self.api, self.clock, informers, vouched=self.light.vouch)
        self.scheduler = Scheduler(self.api, self.clock, informers)

    async def pod(self, name: str, gpus: int = 1, **spec: Any) -> None:
        limits: JsonObject = {"nvidia.com/gpu": str(gpus)} if gpus else {}
        container: JsonObject = {"name": "c", "image": "busybox", "resources": {"limits": limits}}
        body: JsonObject = {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
        await self.api.create(POD, body, namespace="default")

    async def read(self, name: str) -> Any:
        stored = self.server.store.get(("", "pods"), ("default", name))
        return None if stored is None else stored.object


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    loops = (bench.light.run, bench.lifecycle.run, bench.scheduler.run)
    tasks = [asyncio.ensure_future(loop()) for loop in loops]
    await bench.clock.advance(1)
    yield bench
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_they_are_ready_at_once_and_stay_so_without_heartbeats(bench: Bench) -> None:
    await bench.clock.advance(3 * GRACE_S)
    nodes = (await bench.api.list(NODE)).items
    assert [node.metadata.name for node in nodes] == ["a100-0", "cpu-0", "h100-0", "h100-1", "h100-2"]
    for node in nodes:
        ready = {condition.type: condition.status for condition in node.status.conditions}["Ready"]
        assert (ready, node.spec.taints) == ("True", [])
    assert not (await bench.api.list(LEASE)).items
    assert not (await bench.api.list(EVENT)).items


async def test_they_say_what_their_agents_would(bench: Bench) -> None:
    offered = {
        node.metadata.name: {name: n for name, n in node.status.allocatable.items() if "/" in name}
        for node in (await bench.api.list(NODE)).items
    }
    assert offered["h100-0"] == {"nvidia.com/gpu": "2"}
    assert offered["a100-0"] == {"nvidia.com/mig-1g.5gb": "4", "nvidia.com/mig-1g.5gb.me": "2"}
    assert offered["cpu-0"] == {}


def test_they_are_no_machines_and_have_networks_of_their_own() -> None:
    assert [machine.spec.name for machine in machines_of(_fleet())] == ["t4-0"]
    many = _fleet("name: x\ngroups: [{name: a, nodes: 16000, light: true}]")
    networks = {node.spec.pod_cidr for node in light_nodes_of(many)}
    assert len(networks) == 16_000


async def test_pods_run_on_them_as_status_only(bench: Bench) -> None:
    for number in range(2):
        await bench.pod(f"p{number}", nodeSelector={"kubernetes.io/hostname": "h100-0"})
    await bench.clock.advance(1)
    pods = [await bench.read(f"p{number}") for number in range(2)]
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    assert {pod["status"]["podIP"] for pod in pods} == {"100.64.0.2", "100.64.0.3"}
    [status] = pods[0]["status"]["containerStatuses"]
    assert (status["name"], status["ready"], "running" in status["state"]) == ("c", True, True)
    conditions = {one["type"]: one["status"] for one in pods[0]["status"]["conditions"]}
    assert conditions["Ready"] == conditions["PodScheduled"] == "True"


async def test_what_is_deleted_goes_at_once_and_frees_its_place(bench: Bench) -> None:
    here = {"kubernetes.io/hostname": "h100-1"}
    for number in range(3):
        await bench.pod(f"p{number}", nodeSelector=here)
    await bench.clock.advance(1)
    assert (await bench.read("p2"))["status"]["phase"] == "Pending"
    await bench.api.delete(POD, "p0", namespace="default")
    await bench.clock.advance(20)
    assert await bench.read("p0") is None
    assert (await bench.read("p2"))["status"]["phase"] == "Running"
    assert (await bench.read("p2"))["status"]["podIP"] == "100.64.1.2"


@pytest.mark.parametrize(
    ("gpus", "pods", "reason"),
    [
        pytest.param(1, 2, "OutOfnvidia.com/gpu", id="no GPU is left"),
        pytest.param(0, 3, "OutOfpods", id="no room for a pod is left"),
    ],
)
async def test_a_pod_that_names_its_node_is_refused_as_a_kubelet_would(
    bench: Bench, gpus: int, pods: int, reason: str
) -> None:
    for number in range(pods + 1):
        await bench.pod(f"p{number}", gpus, nodeName="h100-2")
        await bench.clock.advance(1)
    phases = [(await bench.read(f"p{number}"))["status"]["phase"] for number in range(pods + 1)]
    assert phases == ["Running"] * pods + ["Failed"]
    last = (await bench.read(f"p{pods}"))["status"]
    assert last["reason"] == reason
    assert last["message"].startswith("Pod was rejected: Node didn't have enough resource")


async def test_pods_of_an_earlier_life_keep_what_they_have(bench: Bench) -> None:
    await bench.pod("p0", 2, nodeName="h100-2")
    await bench.clock.advance(1)
    informers = Informers(bench.api, bench.clock)
    again = LightNodes(light_nodes_of(_fleet()), bench.api, bench.clock, informers)
    running = asyncio.ensure_future(again.run())
    await bench.clock.advance(1)
    await bench.pod("p1", 1, nodeName="h100-2")
    await bench.clock.advance(1)
    assert (await bench.read("p0"))["status"]["podIP"] == "100.64.2.2"
    assert (await bench.read("p1"))["status"]["reason"] == "OutOfnvidia.com/gpu"
    running.cancel()


@pytest.mark.parametrize("light", [True, False], ids=["beside light nodes", "alone"])
def test_no_agent_is_sent_to_them(light: bool) -> None:
    terms: Any = agent_daemon_set(Path("/k"), light=light)
    for key in ("spec", "template", "spec", "affinity", "nodeAffinity"):
        terms = terms[key]
    [required] = terms.values()
    away = {"key": "tonnage.dev/light", "operator": "DoesNotExist"}
    assert {away in term["matchExpressions"] for term in required["nodeSelectorTerms"]} == {light}


def test_a_fleet_gets_light_nodes_beside_its_own() -> None:
    fleet = _fleet().with_light(5)
    assert [node.spec.name for node in light_nodes_of(fleet)][-5:] == [f"light-{n}" for n in range(5)]
    assert [machine.spec.name for machine in machines_of(fleet)] == ["t4-0"]
    for nodes in (0, 15_996):
        with pytest.raises(ConfigError, match="between 1 and 15995"):
            _fleet().with_light(nodes)
    with pytest.raises(ConfigError, match="a group named light"):
        fleet.with_light(1)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{name: a, nodes: 1001}", "1001 nodes"),
        ("{name: a, nodes: 16001, light: true}", "16000"),
        ("{name: a, light: true, config: x}", "no agent runs on them"),
    ],
)
def test_fleets_that_cannot_be_are_refused(text: str, found: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _fleet(f"name: x\ngroups: [{text}]")
    assert found in str(caught.value)


async def test_pods_whose_claims_cannot_be_prepared_wait_and_are_told(bench: Bench) -> None:
    entry: JsonObject = {"name": "x", "resourceClaimTemplateName": "each"}
    await bench.pod("train", gpus=0, nodeName="cpu-0", resourceClaims=[entry])
    await bench.clock.advance(20)
    assert (await bench.read("train"))["status"]["phase"] == "Pending"
    [event] = (await bench.api.list(EVENT)).items
    told = 'pod "default/train": ResourceClaim not created yet'
    assert event.message == f"Failed to prepare dynamic resources: prepare dynamic resources: {told}"
    assert (event.reason, event.source["host"], event.count) == ("FailedPrepareDynamicResources", "cpu-0", 2)
