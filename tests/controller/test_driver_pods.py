"""The pods of a node whose driver is upgraded: which leave, how long they are waited for, which stay."""

from __future__ import annotations

from typing import Any

from controller.driver_bench import DRIVERS, DriverBench
from tonnage.wire.kinds import NODE, POD

GPU: dict[str, Any] = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
SAFE_LOAD = "nvidia.com/gpu-driver-upgrade.driver-wait-for-safe-load"
FILES: dict[str, Any] = {"volumes": [{"name": "scratch", "emptyDir": {}}]}


async def pod(bench: DriverBench, name: str, *, owner: str = "", leaves: bool = True, **more: Any) -> None:
    """A pod on the node a, which ends at once when it is evicted, or never."""
    spec = {"nodeName": "a", "terminationGracePeriodSeconds": 0 if leaves else 7200, **more.pop("spec", {})}
    metadata: Any = {"name": name, "labels": more.pop("labels", {})}
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": owner, "name": "own", "uid": "u", "controller": True}
        metadata["ownerReferences"] = [reference]
    container = {"name": "c", "image": "x", **more}
    body: Any = {"metadata": metadata, "spec": {**spec, "containers": [container]}}
    await bench.api.create(POD, body, namespace="default")


async def there(bench: DriverBench) -> set[str]:
    """Pods that nobody has asked to leave."""
    pods = (await bench.api.list(POD, namespace="default")).items
    return {pod.metadata.name for pod in pods if pod.metadata.deletion_timestamp is None}


async def state_after(bench: DriverBench, seconds: float) -> str:
    await bench.clock.advance(seconds)
    return (await bench.states())["a"]


async def begin(bench: DriverBench, **upgrades: Any) -> None:
    """An upgrade of the node a, and the pods beside its driver's that it meets."""
    await bench.machine("a")
    await bench.drivers("580.95.05", upgradePolicy={"autoUpgrade": True, **upgrades})
    bench.start(DRIVERS)
    await bench.clock.advance(10)


async def upgrade(bench: DriverBench, **upgrades: Any) -> None:
    await bench.drivers("595.91.07", upgradePolicy={"autoUpgrade": True, **upgrades})


async def test_pods_with_gpus_alone_leave_where_that_is_enough(bench: DriverBench) -> None:
    limits: Any = {"drain": {"enable": True, "force": True, "deleteEmptyDir": True}}
    await begin(bench, **limits)
    await pod(bench, "train", owner="Job", **GPU)
    await pod(bench, "web", owner="ReplicaSet")
    await upgrade(bench, **limits)
    await bench.until_at_rest()
    assert (await bench.states())["a"] == "upgrade-done"
    assert await there(bench) == {"web"}


async def test_a_drain_takes_the_others_where_a_pod_may_not_be_deleted(bench: DriverBench) -> None:
    """What kubectl drain leaves stays, and so does what its label says."""
    limits: Any = {"drain": {"enable": True, "force": True, "deleteEmptyDir": True}}
    await begin(bench, **limits)
    await pod(bench, "train", spec=FILES, **GPU)
    await pod(bench, "web", owner="ReplicaSet")
    await pod(bench, "each-node", owner="DaemonSet")
    await pod(bench, "kept", labels={"nvidia.com/gpu-driver-upgrade-drain.skip": "true"})
    await upgrade(bench, **limits)
    await bench.until_at_rest()
    assert (await bench.states())["a"] == "upgrade-done"
    assert await there(bench) == {"each-node", "kept"}


async def test_a_drain_may_be_for_some_pods_alone(bench: DriverBench) -> None:
    limits: Any = {
        "podDeletion": {"deleteEmptyDir": False},
        "drain": {"enable": True, "deleteEmptyDir": True, "podSelector": "tier=batch"},
    }
    await begin(bench, **limits)
    await pod(bench, "train", owner="Job", labels={"tier": "batch"}, spec=FILES, **GPU)
    await pod(bench, "web", owner="ReplicaSet", labels={"tier": "front"})
    await upgrade(bench, **limits)
    await bench.until_at_rest()
    assert (await bench.states())["a"] == "upgrade-done"
    assert await there(bench) == {"web"}


async def test_a_pod_with_files_stays_unless_the_policy_says_otherwise(bench: DriverBench) -> None:
    await begin(bench)
    await pod(bench, "train", owner="Job", spec=FILES, **GPU)
    await upgrade(bench)
    assert await state_after(bench, 60) == "upgrade-failed"
    assert await there(bench) == {"train"}
    message = (await bench.condition("tonnage.dev/DriverUpgrade"))["message"]
    assert "default/train may not be evicted: it has files in an emptyDir; delete it, or set" in message


async def test_pods_that_do_not_leave_in_time_are_named(bench: DriverBench) -> None:
    limits: Any = {"podDeletion": {"timeoutSeconds": 100}}
    await begin(bench, **limits)
    await pod(bench, "train", owner="Job", leaves=False, **GPU)
    await upgrade(bench, **limits)
    assert await state_after(bench, 60) == "pod-deletion-required"
    assert await state_after(bench, 90) == "upgrade-failed"
    message = (await bench.condition("tonnage.dev/DriverUpgrade"))["message"]
    assert "pods have not left in 100 s: default/train" in message


async def test_jobs_are_waited_for_as_long_as_the_policy_says(bench: DriverBench) -> None:
    limits: Any = {"waitForCompletion": {"podSelector": "job=long", "timeoutSeconds": 300}}
    await begin(bench, **limits)
    await pod(bench, "train", owner="Job", labels={"job": "long"}, **GPU)
    await upgrade(bench, **limits)
    assert await state_after(bench, 200) == "wait-for-jobs-required"
    assert await there(bench) == {"train"}
    await bench.until_at_rest()
    assert (await bench.states())["a"] == "upgrade-done"
    assert await there(bench) == set()


async def test_a_driver_that_waits_to_be_loaded_gets_an_empty_node(bench: DriverBench) -> None:
    """NVIDIA's annotation for safe loading: the driver's pod sets it, and waits until it is gone."""
    await begin(bench)
    await bench.until_at_rest()
    await pod(bench, "train", owner="Job", **GPU)
    waits: Any = {"metadata": {"annotations": {SAFE_LOAD: "true"}}}
    await bench.api.patch(NODE, "a", waits)
    await bench.until_at_rest()
    node = await bench.api.get(NODE, "a")
    assert SAFE_LOAD not in node.metadata.annotations
    assert not node.spec.unschedulable
    assert await there(bench) == set()
    assert set(await bench.running()) == {"a"}
