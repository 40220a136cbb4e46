"""The operator's loops on the twin's API server: from a ClusterPolicy to labels, configuration and status."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from support.api_stores import new_store
from tonnage.controller.counters import ControllerCounters
from tonnage.controller.main import run_controller
from tonnage.controller.options import ControllerOptions
from tonnage.documents.node.gpu_status import node_gpu_status_crd
from tonnage.model.catalog.nvidia_kinds import nvidia_definition
from tonnage.model.errors import ApiError
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import (
    CLUSTER_POLICY,
    CONFIG_MAP,
    CUSTOM_RESOURCE,
    NAMESPACE,
    NODE,
    NODE_GPU_STATUS,
)

CHART_DEFAULTS = Path(__file__).parents[1] / "data/cluster-policy-26.7.yaml"

POLICY = yaml.load(CHART_DEFAULTS.read_text(encoding="utf-8"), yaml.CSafeLoader)

OPTIONS = ControllerOptions(namespace="tonnage-system", operator_namespace="gpu-operator", identity="a")

DEVICE = {"uuid": "GPU-1", "index": 0, "product": "Tesla T4", "memoryMiB": 15360, "health": "Healthy"}

REPORT: dict[str, Any] = {
    "updatedAt": "2026-01-01T00:00:00Z",
    "deviceCount": 1,
    "healthyCount": 1,
    "config": {"source": "built-in"},
    "resources": [],
    "devices": [DEVICE],
    "runtime": {
        "name": "containerd",
        "version": "2.1",
        "cdi": "on",
        "cdiReason": "",
        "nri": "off",
        "nriReason": "",
    },
    "kubelet": {
        "version": "v1.35.8",
        **dict.fromkeys(("topologyManagerPolicy", "topologyManagerScope"), "none"),
        **dict.fromkeys(("cpuManagerPolicy", "memoryManagerPolicy"), "none"),
        "sources": [],
        "reason": "",
    },
}


class Bench:
    """A cluster in memory, and a controller that a test starts."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = ApiServer(self.clock, random=Random(7), store=new_store())
        self.api: KubernetesApi = self.server.local()
        self.tasks: list[asyncio.Task[None]] = []

    async def install(self) -> None:
        nvidias = (nvidia_definition(plural) for plural in ("clusterpolicies", "gpuclusters"))
        for crd in (node_gpu_status_crd(), *nvidias):
            await self.api.create(CUSTOM_RESOURCE, crd)
        for name in ("tonnage-system", "gpu-operator"):
            await self.api.create(NAMESPACE, {"metadata": {"name": name}})
        await self.clock.advance(1)

    def start(self, options: ControllerOptions = OPTIONS, **more: Any) -> None:
        self.tasks.append(
            asyncio.create_task(run_controller(options, api=self.api, clock=self.clock, **more))
        )

    async def node(self, name: str, *, gpus: int = 1, **labels: str) -> None:
        pci = {"feature.node.kubernetes.io/pci-10de.present": "true"} if gpus else {}
        metadata = {"name": name, "labels": {**pci, **labels}}
        await self.api.create(NODE, {"metadata": metadata})  # type: ignore[dict-item]
        amounts = {"nvidia.com/gpu": str(gpus)} if gpus else {}
        status: Any = {"status": {"capacity": amounts, "allocatable": amounts}}
        await self.api.patch(NODE, name, status, subresource="status")

    async def report(self, node: str, **status: Any) -> None:
        with suppress(ApiError):  # it is there already
            await self.api.create(NODE_GPU_STATUS, {"metadata": {"name": node}})
        body = {**REPORT, "heartbeatAt": timestamp(self.clock.now()), **status}
        await self.api.patch(NODE_GPU_STATUS, node, {"status": body}, subresource="status")

    async def policy(self, name: str = "cluster-policy", **sections: Any) -> None:
        spec = {**POLICY["spec"], **sections}
        await self.api.create(CLUSTER_POLICY, {"metadata": {"name": name}, "spec": spec})

    async def configs(self, name: str, **data: str) -> None:
        body: Any = {"metadata": {"name": name}, "data": data}
        await self.api.create(CONFIG_MAP, body, namespace="gpu-operator")

    async def labels(self, node: str) -> dict[str, str]:
        return (await self.api.get(NODE, node)).metadata.labels

    async def status(self, name: str = "cluster-policy") -> dict[str, Any]:
        return (await self.api.get(CLUSTER_POLICY, name)).status

    async def condition(self, kind: str, name: str = "cluster-policy") -> dict[str, Any]:
        conditions = (await self.status(name)).get("conditions", [])
        return next(condition for condition in conditions if condition["type"] == kind)

    async def agents_configs(self) -> dict[str, str] | None:
        try:
            return (await self.api.get(CONFIG_MAP, "device-plugin-config", "tonnage-system")).data
        except ApiError:
            return None


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    await bench.install()
    yield bench
    for task in bench.tasks:
        task.cancel()
    await asyncio.gather(*bench.tasks, return_exceptions=True)


async def test_the_chart_s_own_policy_is_reconciled_as_it_is(bench: Bench) -> None:
    """OPR-2: the object that NVIDIA's chart renders with default values."""
    await bench.node("a")
    await bench.node("b", gpus=0)
    await bench.report("a")
    await bench.policy()
    bench.start()
    await bench.clock.advance(5)
    status = await bench.status()
    assert (status["state"], status["namespace"]) == ("ready", "gpu-operator")
    assert (await bench.condition("Ready"))["message"] == "all 1 GPU nodes are ready"
    assert (await bench.condition("Error"))["status"] == "False"
    assert (await bench.labels("a"))["nvidia.com/gpu.deploy.device-plugin"] == "true"
    assert await bench.labels("b") == {}


async def test_no_field_that_is_set_is_silently_ignored(bench: Bench) -> None:
    config = {"name": "time-slicing-config", "default": "any"}
    await bench.policy(devicePlugin={**POLICY["spec"]["devicePlugin"], "config": config, "args": ["-v"]})
    bench.start()
    await bench.clock.advance(5)
    condition = await bench.condition("tonnage.dev/FieldsWithoutEffect")
    assert condition["status"] == "True"
    lines = condition["message"].splitlines()
    [driver] = [line for line in lines if line.startswith("driver.")]
    assert "driver.version" in driver
    assert "the controller installs no drivers" in driver
    [plugin] = [line for line in lines if line.startswith("devicePlugin.")]
    assert "devicePlugin.args" in plugin
    assert "devicePlugin.config" not in plugin
    assert "devicePlugin.enabled" not in plugin


async def test_without_gpu_nodes_the_policy_is_ready_and_says_so(bench: Bench) -> None:
    await bench.policy()
    bench.start()
    await bench.clock.advance(5)
    ready = await bench.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("True", "NoGPUNodes")


async def test_without_a_policy_nothing_is_labelled(bench: Bench) -> None:
    await bench.node("a")
    bench.start()
    await bench.clock.advance(5)
    assert "nvidia.com/gpu.present" not in await bench.labels("a")


async def test_a_node_that_joins_is_labelled_and_waited_for_by_name(bench: Bench) -> None:
    """OPR-3."""
    await bench.policy()
    bench.start()
    await bench.clock.advance(5)
    await bench.node("late")
    await bench.clock.advance(1)
    assert (await bench.labels("late"))["nvidia.com/gpu.present"] == "true"
    ready = await bench.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "OperandNotReady")
    assert "late: no agent has reported yet" in ready["message"]
    await bench.report("late")
    await bench.clock.advance(1)
    assert (await bench.status())["state"] == "ready"


@pytest.mark.parametrize(
    ("report", "reason", "words"),
    [
        pytest.param(
            {"devices": [], "problems": ["NVML: Driver Not Loaded"]},
            "DriverNotReady",
            "NVML: Driver Not Loaded",
            id="no driver",
        ),
        pytest.param(
            {"devices": [{**DEVICE, "index": 3, "fabric": "in progress"}]},
            "DriverNotReady",
            "the NVLink fabric is not set up for GPUs 3: in progress; on a, in the driver's version: ",
            id="a board without Fabric Manager",
        ),
        pytest.param(
            {"config": {"source": "x", "error": "unknown key replica"}},
            "ReconcileFailed",
            "unknown key replica",
            id="a configuration that is refused",
        ),
        pytest.param(
            {"heartbeatAt": "2020-01-01T00:00:00Z"},
            "OperandNotReady",
            "has been silent",
            id="an agent that is gone",
        ),
    ],
)
async def test_a_node_that_is_not_ready_says_what_it_waits_for(
    bench: Bench, report: dict[str, Any], reason: str, words: str
) -> None:
    await bench.node("a")
    await bench.node("b")
    await bench.report("a", **report)
    await bench.report("b")
    await bench.policy()
    bench.start()
    await bench.clock.advance(5)
    error = await bench.condition("Error")
    assert (error["status"], error["reason"]) == ("True", reason)
    assert error["message"].startswith("1 of 2 GPU nodes are not ready\na: ")
    assert words in error["message"]


async def test_what_a_policy_says_of_nodes_makes_no_loop_look_at_all_of_them(bench: Bench) -> None:
    """Of a large fleet a node that changes then would be the last of thousands."""
    counters = ControllerCounters()
    for name in ("a", "b", "c"):
        await bench.node(name)
        await bench.report(name)
    await bench.policy()
    bench.start(counters=counters)
    await bench.clock.advance(30)
    before = counters.turns["node-labels"]
    await bench.report("a", config={"source": "x", "error": "unknown key replica"})
    await bench.clock.advance(10)
    assert "unknown key replica" in (await bench.condition("Error"))["message"]
    assert counters.turns["node-labels"] == before
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", {"spec": {"mig": {"strategy": "mixed"}}})
    await bench.clock.advance(10)
    assert counters.turns["node-labels"] >= before + 3


async def test_time_slicing_by_policy_reaches_the_agents(bench: Bench) -> None:
    """SHR-1: the ConfigMap first, then the policy's patch that names it."""
    await bench.policy(mig={"strategy": "none"})
    bench.start()
    await bench.clock.advance(2)
    assert await bench.agents_configs() is None
    await bench.configs("time-slicing-config", any="version: v1")
    patch: Any = {"spec": {"devicePlugin": {"config": {"name": "time-slicing-config", "default": "any"}}}}
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", patch)
    await bench.clock.advance(2)
    assert await bench.agents_configs() == {"any": "version: v1", "default": "version: v1"}
    edit: Any = {"data": {"any": "version: v1 # changed"}}
    await bench.api.patch(CONFIG_MAP, "time-slicing-config", edit, namespace="gpu-operator")
    await bench.clock.advance(2)
    assert (await bench.agents_configs() or {})["default"] == "version: v1 # changed"
    await bench.api.delete(CONFIG_MAP, "time-slicing-config", namespace="gpu-operator")
    await bench.clock.advance(2)
    assert (await bench.agents_configs() or {})["default"] == "version: v1 # changed", (
        "the last good one stays"
    )
    error = await bench.condition("Error")
    assert (error["status"], error["reason"]) == ("True", "PrerequisiteNotMet")
    assert "gpu-operator/time-slicing-config does not exist" in error["message"]
    off: Any = {"spec": {"devicePlugin": {"config": None}}}
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", off)
    await bench.clock.advance(2)
    assert await bench.agents_configs() == {}


async def test_of_two_policies_the_older_counts(bench: Bench) -> None:
    await bench.policy("first")
    await bench.clock.advance(5)
    await bench.policy("another")
    bench.start()
    await bench.clock.advance(5)
    assert (await bench.status("first"))["state"] == "ready"
    assert (await bench.status("another"))["state"] == "ignored"
    assert "ClusterPolicy first is older" in (await bench.condition("Error", "another"))["message"]
    await bench.api.delete(CLUSTER_POLICY, "first")
    await bench.clock.advance(5)
    assert (await bench.status("another"))["state"] == "ready"


async def test_the_mig_strategy_of_the_policy_reaches_every_configuration(bench: Bench) -> None:
    await bench.policy(mig={"strategy": "mixed"})
    bench.start()
    await bench.clock.advance(3)
    assert await bench.agents_configs() == {"default": "version: v1\nflags:\n  migStrategy: mixed\n"}
    await bench.configs("sharing", any="version: v1 # mine\n")
    named: Any = {"spec": {"devicePlugin": {"config": {"name": "sharing"}}}}
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", named)
    await bench.clock.advance(3)
    assert await bench.agents_configs() == {"any": "version: v1 # mine\nflags:\n  migStrategy: mixed\n"}
    none: Any = {"spec": {"mig": {"strategy": "none"}, "devicePlugin": {"config": None}}}
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", none)
    await bench.clock.advance(3)
    assert await bench.agents_configs() == {}


async def test_counters_by_policy_reach_the_device_metrics(bench: Bench) -> None:
    csv = "DCGM_FI_DEV_GPU_TEMP, gauge, t"
    await bench.configs("metrics", other=csv)
    await bench.policy(dcgmExporter={"config": {"name": "metrics"}})
    bench.start()
    await bench.clock.advance(2)
    ready = await bench.condition("Ready")
    assert ready["message"] == (
        "spec.dcgmExporter.config.name: ConfigMap gpu-operator/metrics has no key dcgm-metrics.csv;"
        " its keys: other"
    )
    patch: Any = {"data": {"dcgm-metrics.csv": csv}}
    await bench.api.patch(CONFIG_MAP, "metrics", patch, namespace="gpu-operator")
    await bench.clock.advance(2)
    agents = await bench.api.get(CONFIG_MAP, "device-metrics-counters", "tonnage-system")
    assert agents.data == {"counters.csv": csv}
    off: Any = {"spec": {"dcgmExporter": {"config": {"name": ""}}}}
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", off)
    await bench.clock.advance(2)
    assert not (await bench.api.get(CONFIG_MAP, "device-metrics-counters", "tonnage-system")).data


async def test_layouts_by_policy_reach_the_agents(bench: Bench) -> None:
    """MIG-4: the ConfigMap of migManager.config, and the default of nodes without a label."""
    capable: Any = {"nvidia.com/mig.capable": "true"}
    await bench.node("a", **capable)
    await bench.node("divided", **capable)
    await bench.report("a")
    await bench.report("divided", devices=[{**DEVICE, "migEnabled": True}])
    await bench.configs("layouts", **{"config.yaml": "version: v1"})
    await bench.policy(migManager={"config": {"name": "layouts", "default": "all-disabled"}})
    bench.start()
    await bench.clock.advance(3)
    agents = await bench.api.get(CONFIG_MAP, "default-mig-parted-config", "tonnage-system")
    assert agents.data == {"config.yaml": "version: v1"}
    assert (await bench.labels("a"))["nvidia.com/mig.config"] == "all-disabled"
    assert "nvidia.com/mig.config" not in await bench.labels("divided"), "nobody asked to undo a layout"
    gone: Any = {"spec": {"migManager": {"config": {"name": "no-such"}}}}
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", gone)
    await bench.clock.advance(3)
    agents = await bench.api.get(CONFIG_MAP, "default-mig-parted-config", "tonnage-system")
    assert agents.data == {"config.yaml": "version: v1"}, "the last good one stays"
    error = await bench.condition("Error")
    assert "spec.migManager.config.name: ConfigMap gpu-operator/no-such does not exist" in error["message"]


async def test_an_agent_that_falls_silent_and_comes_back(bench: Bench) -> None:
    """Heartbeats alone are no change of a report, but their end is one, and so is the next."""
    await bench.node("a")
    await bench.report("a")
    await bench.policy()
    bench.start()
    for _ in range(5):
        await bench.clock.advance(60)
        await bench.report("a")
        assert (await bench.status())["state"] == "ready"
    await bench.clock.advance(240)
    assert "a: its agent has been silent for" in (await bench.condition("Ready"))["message"]
    await bench.report("a")
    await bench.clock.advance(2)
    assert (await bench.status())["state"] == "ready"


async def test_an_agent_whose_heartbeats_come_late_is_not_silent_for_ever(bench: Bench) -> None:
    """After an outage a watch may bring every heartbeat of it, of which none comes after a silence."""
    await bench.node("a")
    await bench.report("a")
    await bench.policy()
    bench.start()
    await bench.clock.advance(2)
    begun = bench.clock.now()
    await bench.clock.advance(240)
    assert "a: its agent has been silent for" in (await bench.condition("Ready"))["message"]
    for minute in (1, 2, 3, 4):
        await bench.report("a", heartbeatAt=timestamp(begun + timedelta(minutes=minute)))
    await bench.clock.advance(61)
    assert (await bench.status())["state"] == "ready"
