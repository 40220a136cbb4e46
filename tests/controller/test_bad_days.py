"""Bad days of the controller: cut off, deposed, beside another writer, behind a history that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from controller.driver_bench import DRIVERS, DriverBench
from controller.test_operator import OPTIONS, Bench
from tonnage.controller.main import run_controller
from tonnage.decide.cluster.operate.drivers.states import UNDER_WAY, UpgradeState
from tonnage.model.errors import ApiError, ClusterError, GoneError, Problem
from tonnage.ports.kubernetes import KubernetesApi, PatchType
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.apiserver.storage.store import Store
from tonnage.wire.kinds import CLUSTER_POLICY, DAEMON_SET, LEASE, NODE, POD

PRESENT = "nvidia.com/gpu.present"
PLUGIN = "nvidia.com/gpu.deploy.device-plugin"
STATE = "nvidia.com/gpu-driver-upgrade-state"


class Cable:
    """The way to the API server: `cut`, every request fails; those of `held` wait."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self.cut = False
        self.held = ("", "")
        self.waits = asyncio.Event()
        self.goes_on = asyncio.Event()
        self.late: asyncio.Future[Any] | None = None

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._api, name)
        if name not in ("create", "get", "list", "patch", "replace", "delete"):
            return method

        async def call(kind: Any, *rest: Any, **options: Any) -> Any:
            if (name, kind.kind) == self.held:
                # It has left this process: nobody takes it back, whatever becomes of the process.
                self.late = asyncio.ensure_future(self._arrive(method(kind, *rest, **options)))
                return await asyncio.shield(self.late)
            if self.cut:
                raise ClusterError(Problem("the API server cannot be reached"))
            return await method(kind, *rest, **options)

        return call

    async def _arrive(self, request: Awaitable[Any]) -> Any:
        self.waits.set()
        await self.goes_on.wait()
        return await request


def begin(bench: Bench, name: str) -> Cable:
    """A replica, on a cable of its own."""
    cable: Any = Cable(bench.api)
    options = replace(OPTIONS, identity=name)
    bench.tasks.append(asyncio.create_task(run_controller(options, api=cable, clock=bench.clock)))
    return cable  # type: ignore[no-any-return]


async def holder(bench: Bench) -> str:
    return (await bench.api.get(LEASE, "tonnage-controller", "tonnage-system")).spec.holder_identity


async def test_a_write_of_a_deposed_leader_to_a_node_is_refused(bench: DriverBench) -> None:
    """It was under way when the Lease ran out, and arrives after the next leader's."""
    await bench.policy()
    first = begin(bench, "first")
    await bench.clock.advance(3)
    begin(bench, "second")
    first.held, first.cut = ("patch", "Node"), True
    await bench.node("a")
    async with asyncio.timeout(10):
        await first.waits.wait()
    await bench.clock.advance(40)
    assert await holder(bench) == "second"
    assert (await bench.labels("a"))[PRESENT] == "true"
    written = (await bench.api.get(NODE, "a")).metadata.resource_version
    first.goes_on.set()
    assert first.late is not None
    with pytest.raises(ApiError, match="the object has been modified"):
        await first.late
    assert (await bench.api.get(NODE, "a")).metadata.resource_version == written


async def test_a_copy_that_a_deposed_leader_wrote_is_made_good(bench: DriverBench) -> None:
    """What is applied has no version to be refused by: the next leader sees it, and writes what is wanted."""
    await bench.configs("old", any="version: v1")
    await bench.configs("new", any="version: v1\nflags: {}\n")
    await bench.policy(devicePlugin={"enabled": True, "config": {"name": "old", "default": "any"}})
    first = begin(bench, "first")
    first.held = ("patch", "ConfigMap")
    async with asyncio.timeout(10):
        while not first.waits.is_set():
            await bench.clock.advance(1)
    first.cut = True
    begin(bench, "second")
    await bench.clock.advance(40)
    assert await holder(bench) == "second"
    choice: Any = {"spec": {"devicePlugin": {"config": {"name": "new"}}}}
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", choice)
    await bench.clock.advance(3)
    wanted = await bench.agents_configs()
    first.goes_on.set()
    assert first.late is not None
    await first.late
    await bench.clock.advance(5)
    assert await bench.agents_configs() == wanted
    assert wanted is not None
    assert "flags" in wanted["any"]


async def test_both_replicas_cut_off_and_back(bench: DriverBench) -> None:
    await bench.policy()
    cables = [begin(bench, "first")]
    await bench.clock.advance(3)
    cables.append(begin(bench, "second"))
    for cable in cables:
        cable.cut = True
    await bench.clock.advance(20)
    await bench.node("a")
    await bench.clock.advance(20)
    assert PRESENT not in await bench.labels("a")
    for cable in cables:
        cable.cut = False
    await bench.clock.advance(40)
    assert await holder(bench) in ("first", "second")
    assert (await bench.labels("a"))[PRESENT] == "true"
    assert all(not task.done() for task in bench.tasks)


class ForgetfulBench(Bench):
    """Its API server remembers four changes of a kind."""

    def __init__(self) -> None:
        super().__init__()
        self.server = ApiServer(self.clock, random=Random(7), store=Store(log_length=2))
        self.api = self.server.local()


async def test_the_history_of_changes_is_gone() -> None:
    """What etcd has compacted away is listed anew: a node that came and one that left meanwhile."""
    bench = ForgetfulBench()
    await bench.install()
    for name in ("leaves", "stays"):
        await bench.node(name)
        await bench.report(name)
    await bench.policy()
    cable = begin(bench, "first")
    await bench.clock.advance(5)
    cable.cut = True
    bench.server.store.cut_watches()
    last = (await bench.api.list(NODE)).resource_version
    await bench.api.delete(NODE, "leaves")
    await bench.node("comes")
    await bench.report("comes")
    for number in range(9):
        await bench.api.patch(NODE, "stays", {"metadata": {"annotations": {"turn": str(number)}}})
    with pytest.raises(GoneError):
        await anext(aiter(bench.api.watch(NODE, resource_version=last)))
    cable.cut = False
    await bench.clock.advance(60)
    assert (await bench.labels("comes"))[PRESENT] == "true"
    assert (await bench.condition("Ready"))["message"] == "all 2 GPU nodes are ready"
    for task in bench.tasks:
        task.cancel()
    await asyncio.gather(*bench.tasks, return_exceptions=True)


async def test_another_writer_of_the_same_labels(bench: DriverBench) -> None:
    """As an operator that was forgotten: it takes labels away every five seconds, until it is stopped."""
    await bench.node("a")
    await bench.report("a")
    await bench.policy()
    bench.start()
    await bench.clock.advance(5)
    before = int((await bench.api.get(NODE, "a")).metadata.resource_version)
    gone: Any = {"metadata": {"labels": {PLUGIN: None, PRESENT: None}}}
    for _ in range(12):
        await bench.api.patch(NODE, "a", gone)
        await bench.clock.advance(5)
        assert (await bench.labels("a"))[PLUGIN] == "true"
    writes = int((await bench.api.get(NODE, "a")).metadata.resource_version) - before
    assert writes < 12 * 8, "it answers each change, and does not fight"
    opt_out: Any = {"metadata": {"labels": {PLUGIN: "false"}}}
    await bench.api.patch(NODE, "a", opt_out)
    await bench.clock.advance(30)
    assert (await bench.labels("a"))[PLUGIN] == "false", "what a user wrote stays"


async def test_another_writer_of_the_same_daemon_sets(bench: DriverBench) -> None:
    """Of a driver's and of an operand's: what it writes into their pods is undone, and only that."""
    await bench.machine("a")
    await bench.drivers("580.95.05")
    bench.start(replace(DRIVERS, operand_image="registry.example.com/tonnage:1"))
    await bench.until_at_rest()
    before = {s.metadata.name: s.spec.template for s in await bench.sets()}
    assert len(before) == 7
    for name, template in before.items():
        container = template["spec"]["containers"][0]["name"]
        theirs: Any = {"spec": {"containers": [{"name": container, "image": "theirs:1"}]}}
        theirs["metadata"] = {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}
        body: Any = {"spec": {"template": theirs}}
        await bench.api.patch(
            DAEMON_SET, name, body, namespace="gpu-operator", patch_type=PatchType.STRATEGIC
        )
    await bench.clock.advance(5)
    after = {s.metadata.name: s.spec.template for s in await bench.sets()}
    for name, template in after.items():
        assert template["metadata"]["annotations"].pop("kubectl.kubernetes.io/restartedAt") == "now"
        assert template["spec"] == before[name]["spec"]
    versions = [s.metadata.resource_version for s in await bench.sets()]
    await bench.clock.advance(60)
    assert [s.metadata.resource_version for s in await bench.sets()] == versions


@pytest.mark.parametrize("state", sorted(UNDER_WAY), ids=str)
async def test_a_node_that_restarts_in_a_state_of_its_upgrade(
    bench: DriverBench, state: UpgradeState
) -> None:
    """The state is the node's label, so that what a restart takes with it is made good by the next look."""
    await bench.machine("a")
    await bench.drivers("580.95.05")
    bench.start(DRIVERS)
    await bench.until_at_rest()
    await bench.drivers("595.91.07")
    begun: Any = {"metadata": {"labels": {STATE: state.value}}}
    await bench.api.patch(NODE, "a", begun)
    await _restart(bench, "a")
    await bench.until_at_rest()
    await bench.clock.advance(30)
    node = await bench.api.get(NODE, "a")
    assert node.metadata.labels[STATE] == "upgrade-done"
    assert not node.spec.unschedulable
    assert not [value for value in node.metadata.labels.values() if value.startswith("paused")]
    assert await bench.running() == {"a": "nvcr.io/nvidia/driver:595.91.07-ubuntu22.04"}


async def _restart(bench: DriverBench, name: str) -> None:
    """The node is away for a minute, and its driver's pod is another one."""
    away: Any = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    await bench.api.patch(NODE, name, away, subresource="status")
    for pod in (await bench.api.list(POD, namespace="gpu-operator")).items:
        await bench.api.delete(POD, pod.metadata.name, namespace="gpu-operator", grace_period_s=0)
    await bench.clock.advance(60)
    back: Any = {
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"bootID": "another"},
        }
    }
    await bench.api.patch(NODE, name, back, subresource="status")
