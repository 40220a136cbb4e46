"""A cluster whose nodes pretend to run driver pods: some bring their driver up, some never do."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from controller.test_operator import OPTIONS, POLICY, Bench
from tonnage.controller.options import ControllerOptions
from tonnage.loop.refusals import passing_over
from tonnage.model.catalog.nvidia_kinds import nvidia_definition
from tonnage.wire.kinds import (
    CLUSTER_POLICY,
    CUSTOM_RESOURCE,
    DAEMON_SET,
    NODE,
    NVIDIA_DRIVER,
    POD,
    SERVICE_ACCOUNT,
)
from tonnage.wire.objects import DaemonSet, Node, Pod

DRIVERS = ControllerOptions(**{**{f: getattr(OPTIONS, f) for f in OPTIONS.__slots__}, "drivers": True})
UPGRADES: dict[str, Any] = {
    "autoUpgrade": True,
    "maxParallelUpgrades": 1,
    "maxUnavailable": "100%",
    "podDeletion": {"force": False, "timeoutSeconds": 30, "deleteEmptyDir": False},
}


class DriverBench(Bench):
    """`bad` are nodes on which a driver of the version never starts."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: dict[str, set[str]] = {}
        self.most_missing = 0

    async def install(self) -> None:
        await self.api.create(CUSTOM_RESOURCE, nvidia_definition("nvidiadrivers"))
        await super().install()
        await self.api.create(
            SERVICE_ACCOUNT, {"metadata": {"name": "nvidia-driver"}}, namespace="gpu-operator"
        )
        self.tasks.append(asyncio.create_task(self._pretend()))

    async def let_policies_have_any_field(self) -> None:
        """As where the definition is that of another release, or an old one that prunes nothing."""
        definition: Any = nvidia_definition("clusterpolicies")
        [version] = definition["spec"]["versions"]
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        driver = spec["properties"]["driver"]["properties"]
        for section in (spec, driver["upgradePolicy"]):
            section["x-kubernetes-preserve-unknown-fields"] = True
        body: Any = {"spec": {"versions": [version]}}
        await self.api.patch(CUSTOM_RESOURCE, "clusterpolicies.nvidia.com", body)

    async def machine(
        self,
        name: str,
        *,
        system: str = "ubuntu",
        version: str = "22.04",
        image: str = "Ubuntu 22.04.3 LTS",
        **host: Any,
    ) -> None:
        """A node whose agent reports its host, and no driver of the host's own."""
        await self.node(name)
        info = {"kernelVersion": "5.15.0-84-generic", "osImage": image}
        body: Any = {
            "status": {"nodeInfo": info, "conditions": [{"type": "Ready", "status": "True"}]},
        }
        await self.api.patch(NODE, name, body, subresource="status")
        facts = {
            "systemID": system,
            "systemVersion": version,
            "kernel": "5.15.0-84-generic",
            "kernelHeaders": True,
            "nouveauBound": 0,
            "secureBoot": False,
            "driverOwner": "container",
        }
        await self.report(name, host={**facts, **host}, heartbeatAt="2100-01-01T00:00:00Z")

    async def drivers(self, version: str, **more: Any) -> None:
        """The policy, with another driver than before."""
        driver = {**POLICY["spec"]["driver"], "version": version, "upgradePolicy": UPGRADES, **more}
        body: Any = {"spec": {"driver": driver}}
        existing = (await self.api.list(CLUSTER_POLICY)).items
        if existing:
            await self.api.patch(CLUSTER_POLICY, existing[0].metadata.name, body)
        else:
            await self.policy(driver=driver)

    async def driver(self, name: str, **spec: Any) -> None:
        body: Any = {"metadata": {"name": name}, "spec": {"driverType": "gpu", **spec}}
        await self.api.create(NVIDIA_DRIVER, body)

    async def driver_condition(self, kind: str, name: str) -> dict[str, Any]:
        """A condition of an NVIDIADriver."""
        conditions = (await self.api.get(NVIDIA_DRIVER, name)).status["conditions"]
        return next(condition for condition in conditions if condition["type"] == kind)

    async def sets(self) -> list[DaemonSet]:
        return (await self.api.list(DAEMON_SET, namespace="gpu-operator")).items

    async def states(self) -> dict[str, str]:
        label = "nvidia.com/gpu-driver-upgrade-state"
        return {node.metadata.name: node.metadata.labels.get(label, "") for node in await self.nodes()}

    async def nodes(self) -> list[Node]:
        return (await self.api.list(NODE)).items

    async def running(self) -> dict[str, str]:
        """The driver's image by node, where it is ready."""
        pods = (await self.api.list(POD, namespace="gpu-operator")).items
        return {pod.spec.node_name: pod.spec.containers[0].image for pod in pods if is_ready(pod)}

    async def until_at_rest(self, most_s: float = 4000) -> None:
        """Advance until no node is on its way."""
        label, passed = "nvidia.com/gpu-driver-upgrade-state", 0.0
        resting = ("upgrade-done", "upgrade-failed")
        while passed < most_s:
            await self.clock.advance(10)
            passed += 10
            if all(node.metadata.labels.get(label) in resting for node in await self.nodes()):
                return
        raise AssertionError(f"still on their way: {await self.states()}")

    async def _pretend(self) -> None:
        """DaemonSets' pods come and go, and drivers start or do not."""
        while True:
            await self._once()
            await self.clock.sleep(1)

    async def _once(self) -> None:
        sets = await self.sets()
        pods = (await self.api.list(POD, namespace="gpu-operator")).items
        nodes = {node.metadata.name: node for node in await self.nodes()}
        self.most_missing = max(self.most_missing, sum(node.spec.unschedulable for node in nodes.values()))
        there = {(pod.metadata.owner_references[0].uid, pod.spec.node_name) for pod in pods}
        for pod in pods:
            owner = next((s for s in sets if s.metadata.uid == pod.metadata.owner_references[0].uid), None)
            node = nodes.get(pod.spec.node_name)
            fits = owner is not None and node is not None and _selects(owner, node)
            if pod.metadata.deletion_timestamp or not fits:
                await self._delete(pod)
            elif not is_ready(pod):
                await self._start(pod)
        for daemon_set in sets:
            for name, node in nodes.items():
                if _selects(daemon_set, node) and (daemon_set.metadata.uid, name) not in there:
                    await self._create(daemon_set, name)

    async def _create(self, daemon_set: DaemonSet, node: str) -> None:
        template: Any = json.loads(json.dumps(daemon_set.spec.template))
        meta = daemon_set.metadata
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": meta.name, "uid": meta.uid}
        body: Any = {
            "metadata": {
                **template["metadata"],
                "generateName": f"{meta.name}-",
                "ownerReferences": [{**owner, "controller": True}],
            },
            "spec": {**template["spec"], "nodeName": node},
        }
        body["spec"].pop("priorityClassName")
        await self.api.create(POD, body, namespace="gpu-operator")

    async def _start(self, pod: Pod) -> None:
        bad = self.is_bad(pod)
        restarts = sum(status.get("restartCount", 0) for status in pod.status.container_statuses)
        state = {"waiting": {"reason": "CrashLoopBackOff"}} if bad else {"running": {}}
        status = {
            "name": "nvidia-driver-ctr",
            "restartCount": restarts + 1 if bad else restarts,
            "ready": not bad,
            "state": state,
            "lastState": {"terminated": {"exitCode": 1, "message": "Could not resolve Linux kernel version"}}
            if bad
            else {},
        }
        ready = {"type": "Ready", "status": "False" if bad else "True"}
        body: Any = {"status": {"phase": "Running", "conditions": [ready], "containerStatuses": [status]}}
        with passing_over(404):
            await self.api.patch(
                POD, pod.metadata.name, body, namespace=pod.metadata.namespace, subresource="status"
            )

    def is_bad(self, pod: Pod) -> bool:
        """Whether its driver never starts there."""
        versions = self.bad.get(pod.spec.node_name, ())
        return any(version in pod.spec.containers[0].image for version in versions)

    async def _delete(self, pod: Pod) -> None:
        with passing_over(404):
            await self.api.delete(POD, pod.metadata.name, namespace=pod.metadata.namespace, grace_period_s=0)


def _selects(daemon_set: DaemonSet, node: Node) -> bool:
    selector = daemon_set.spec.template["spec"]["nodeSelector"]
    return all(node.metadata.labels.get(key) == value for key, value in selector.items())


def is_ready(pod: Pod) -> bool:
    """Whether kubelet says so."""
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
