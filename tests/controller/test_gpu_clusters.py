"""A GPUCluster beside a policy: what waits, and that agents offer claims."""

from __future__ import annotations

from typing import Any

from controller.test_operator import Bench, bench
from tonnage.wire.kinds import (
    CLUSTER_POLICY,
    CONFIG_MAP,
    GPU_CLUSTER,
)

__all__ = ["bench"]


async def test_a_gpu_cluster_says_what_waits(bench: Bench) -> None:
    spec: Any = {"draDriver": {"computeDomains": {"enabled": True}}, "dcgmExporter": {"enabled": True}}
    await bench.node("a")
    await bench.node("b")
    await bench.report("a", claims={"driver": "gpu.nvidia.com", "devices": []})
    await bench.report("b")
    await bench.api.create(GPU_CLUSTER, {"metadata": {"name": "gpu-cluster"}, "spec": spec})
    bench.start()
    await bench.clock.advance(5)
    cluster = await bench.api.get(GPU_CLUSTER, "gpu-cluster")
    conditions = {condition["type"]: condition for condition in cluster.status["conditions"]}
    assert (cluster.status["state"], conditions["Ready"]["status"]) == ("notReady", "False")
    head, waits = conditions["Ready"]["message"].splitlines()
    assert head == "1 of 2 GPU nodes serve no claims"
    assert waits.startswith("b: its agent serves no claims; set claims.enabled")
    without = conditions["tonnage.dev/FieldsWithoutEffect"]["message"]
    assert "draDriver.computeDomains.enabled" in without
    assert "dcgmExporter.enabled" in without
    await bench.report("b", claims={"driver": "gpu.nvidia.com", "devices": []})
    await bench.clock.advance(3)
    assert (await bench.api.get(GPU_CLUSTER, "gpu-cluster")).status["state"] == "ready"
    await bench.policy()
    await bench.clock.advance(3)
    cluster = await bench.api.get(GPU_CLUSTER, "gpu-cluster")
    [error] = [c for c in cluster.status["conditions"] if c["type"] == "Error"]
    assert (error["status"], error["reason"]) == ("True", "ReconcileFailed")
    assert "ClusterPolicy cluster-policy is there" in error["message"]


async def test_a_gpu_cluster_has_the_agents_offer_claims(bench: Bench) -> None:
    """NVIDIA's policy for claims switches the driver for claims."""
    await bench.node("a")
    await bench.report("a")
    body: Any = {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "GPUCluster",
        "metadata": {"name": "gpu-cluster"},
    }
    await bench.api.create(GPU_CLUSTER, {**body, "spec": {"draDriver": {}}})
    bench.start()
    await bench.clock.advance(3)
    configs = await bench.agents_configs()
    assert configs == {"default": "version: v1\nclaims: {devices: all}\n", "counted": "version: v1\n"}
    bench.tasks.pop().cancel()
    bench.start()
    for _ in range(12):
        await bench.clock.advance(0.25)
        assert await bench.agents_configs() == configs, "another leader takes nothing back meanwhile"
    await bench.policy(mig={"strategy": "none"})
    await bench.clock.advance(3)
    assert not await bench.agents_configs(), "a ClusterPolicy wins"
    await bench.api.delete(CLUSTER_POLICY, "cluster-policy")
    await bench.clock.advance(3)
    assert await bench.agents_configs() == configs
    await bench.api.delete(GPU_CLUSTER, "gpu-cluster")
    await bench.clock.advance(3)
    assert not await bench.agents_configs()


async def test_configurations_of_your_own_stay_beside_a_gpu_cluster(bench: Bench) -> None:
    data: Any = {"metadata": {"name": "device-plugin-config"}, "data": {"default": "version: v1"}}
    await bench.api.create(CONFIG_MAP, data, namespace="tonnage-system")
    body: Any = {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "GPUCluster",
        "metadata": {"name": "gpu-cluster"},
    }
    await bench.api.create(GPU_CLUSTER, {**body, "spec": {"draDriver": {}}})
    bench.start()
    await bench.clock.advance(3)
    assert await bench.agents_configs() == {"default": "version: v1"}
