"""A controller that is killed before or after any of its writes: the next one comes to the same end."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from controller.test_operator import OPTIONS, Bench
from tonnage.controller.main import run_controller
from tonnage.model.actions.cluster import (
    ApplyConfigMap,
    ApplyObject,
    ApplyValidation,
    DeleteObject,
    PatchDriverStatus,
    PatchGpuClusterStatus,
    PatchPolicyStatus,
)
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.wire.kinds import (
    CLUSTER_POLICY,
    CONFIG_MAP,
    DAEMON_SET,
    GPU_CLUSTER,
    NODE,
    NODE_GPU_STATUS,
    RUNTIME_CLASS,
)

DRIVERS_ACTIONS = {PatchDriverStatus}
"""Killed at in test_driver_crash."""
ACTIONS_OF_THE_CONTROLLER = {
    *(ApplyConfigMap, ApplyObject, ApplyValidation, DeleteObject, PatchGpuClusterStatus, PatchPolicyStatus),
    *DRIVERS_ACTIONS,
}
"""Those that no agent performs; the others are killed at in the agents' own run."""
_WRITES = frozenset(("create", "patch", "replace", "create_subresource", "delete"))
_OPTIONS = replace(OPTIONS, operand_image="registry.example.com/tonnage:1")
_BEFORE: Any = {
    "metadata": {
        "name": "gpu-feature-discovery",
        "labels": {"tonnage.dev/operand": "gpu-feature-discovery"},
    },
    "spec": {
        "selector": {"matchLabels": {"app": "x"}},
        "template": {
            "metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "x", "image": "x"}]},
        },
    },
}
"""The DaemonSet of a part that the policy has switched off since."""


class Killed(BaseException):
    """The end of the process, at once."""


class Fuse:
    """An API that kills its caller before or after the write of a number, counted from 0.

    `writes` are the kinds that were written, `deleted` the numbers of those that deleted something.
    """

    def __init__(self, api: KubernetesApi, at: int | None, *, after: bool = False) -> None:
        self._api = api
        self._at = at
        self._after = after
        self.writes: list[str] = []
        self.deleted: list[int] = []
        self.blown = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._api, name)
        if name not in _WRITES:
            return method

        async def write(kind: Any, *args: Any, **options: Any) -> Any:
            if self.blown:
                raise Killed  # its other tasks write nothing any more
            here = len(self.writes) == self._at
            self.writes.append(kind.kind)
            if name == "delete":
                self.deleted.append(len(self.writes) - 1)
            if here and not self._after:
                self.blown = True
                raise Killed
            answer = await method(kind, *args, **options)
            if here:
                self.blown = True
                raise Killed
            return answer

        return write


async def _life(at: int | None, *, after: bool = False) -> tuple[list[str], dict[str, Any]]:
    """The writes of a controller that is killed at one, and what the cluster comes to by the next one."""
    bench = Bench()
    await bench.install()
    capable: Any = {"nvidia.com/mig.capable": "true"}
    await bench.node("a", **capable)
    await bench.node("b", gpus=0)
    await bench.report("a")
    await bench.configs("sharing", any="version: v1")
    off = {"enabled": False}
    sections: Any = {"gfd": off, "dcgmExporter": off, "toolkit": off}
    plugin = {"config": {"name": "sharing", "default": "any"}}
    layouts = {"config": {"default": "all-disabled"}}
    await bench.policy(devicePlugin=plugin, migManager=layouts, mig={"strategy": "none"}, **sections)
    await bench.api.create(DAEMON_SET, _BEFORE, namespace="gpu-operator")
    await bench.api.create(GPU_CLUSTER, {"metadata": {"name": "gpu-cluster"}, "spec": {"draDriver": {}}})
    fuse = Fuse(bench.api, at, after=after)
    first = asyncio.create_task(run_controller(_OPTIONS, api=fuse, clock=bench.clock))
    await bench.clock.advance(3)
    writes = list(fuse.writes)
    if at is None:
        first.cancel()
    [ended] = await asyncio.gather(first, return_exceptions=True)
    assert at is None or is_killed(ended), ended
    bench.start(replace(_OPTIONS, identity="next"))
    await bench.clock.advance(40)
    policy = (await bench.api.get(CLUSTER_POLICY, "cluster-policy")).status
    configs = await bench.api.get(CONFIG_MAP, "device-plugin-config", "tonnage-system")
    end = {
        "labels": [await bench.labels("a"), await bench.labels("b")],
        "sets": sorted(found.metadata.name for found in (await bench.api.list(DAEMON_SET)).items),
        "configs": configs.data,
        "source": configs.metadata.annotations,
        "state": policy["state"],
        "of claims": (await bench.api.get(GPU_CLUSTER, "gpu-cluster")).status["state"],
        "reasons": [(c["type"], c["status"], c["reason"]) for c in policy["conditions"]],
    }
    for task in bench.tasks:
        task.cancel()
    await asyncio.gather(*bench.tasks, return_exceptions=True)
    return writes, end


def is_killed(error: object) -> bool:
    """Whether a task ended in the kill."""
    if isinstance(error, BaseExceptionGroup):
        return any(is_killed(inner) for inner in error.exceptions)
    return isinstance(error, Killed)


@pytest.mark.long
async def test_killed_at_any_write_the_next_controller_ends_it() -> None:
    writes, whole = await _life(None)
    policies = {"ClusterPolicy", "GPUCluster"}
    assert {"Lease", "Node", "ConfigMap", *policies, "DaemonSet", "Event", "NodeGPUStatus"} == set(writes)
    assert whole["sets"] == [
        "nvidia-device-plugin-daemonset",
        "nvidia-mig-manager",
        "nvidia-operator-validator",
    ]
    assert whole["labels"][0]["nvidia.com/mig.config"] == "all-disabled"
    assert whole["state"] == "ready"
    assert whole["configs"]["default"] == "version: v1"
    for at in range(len(writes)):
        for after in (False, True):
            _, end = await _life(at, after=after)
            assert end == whole, f"killed {'after' if after else 'before'} write {at} ({writes[at]})"


_LABELS: Any = {"nvidia.com/gpu.deploy.dcgm": "false", "example.com/rack": "7"}


async def _farewell(at: int | None, *, after: bool = False) -> tuple[list[str], dict[str, Any]]:
    """The writes after a policy is deleted, of a controller that is killed at one, and what is left."""
    bench = Bench()
    await bench.install()
    await bench.node("a", **_LABELS)
    await bench.report("a", validation={"subject": "s", "stages": [{"stage": "driver", "outcome": "passed"}]})
    notes: Any = {"tonnage.dev/validated": "true", "tonnage.dev/probed-boot": "x"}
    probed: Any = {"tonnage.dev/pci-10de.present": "true"}
    await bench.api.patch(NODE, "a", {"metadata": {"annotations": notes, "labels": probed}})
    await bench.configs("sharing", any="version: v1")
    off = {"enabled": False}
    few: Any = {"gfd": off, "dcgmExporter": off, "migManager": off}
    await bench.policy(devicePlugin={"config": {"name": "sharing", "default": "any"}}, **few)
    bench.start(_OPTIONS)
    await bench.clock.advance(3)
    assert "nvidia.com/gpu.deploy.driver" in await bench.labels("a")
    assert (await bench.api.list(DAEMON_SET)).items
    bench.tasks[0].cancel()
    await asyncio.gather(*bench.tasks, return_exceptions=True)
    await bench.api.delete(CLUSTER_POLICY, "cluster-policy")
    await bench.clock.advance(20)
    fuse = Fuse(bench.api, at, after=after)
    first = asyncio.create_task(run_controller(_OPTIONS, api=fuse, clock=bench.clock))
    await bench.clock.advance(3)
    writes = list(fuse.writes)
    if at is None:
        first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    bench.tasks.clear()
    bench.start(replace(_OPTIONS, identity="next"))
    await bench.clock.advance(40)
    node = await bench.api.get(NODE, "a")
    left = {
        "labels": node.metadata.labels,
        "annotations": node.metadata.annotations,
        "sets": [found.metadata.name for found in (await bench.api.list(DAEMON_SET)).items],
        "classes": [found.metadata.name for found in (await bench.api.list(RUNTIME_CLASS)).items],
        "configs": (await bench.api.get(CONFIG_MAP, "device-plugin-config", "tonnage-system")).data,
        "validation": (await bench.api.get(NODE_GPU_STATUS, "a")).status.get("validation"),
    }
    for task in bench.tasks:
        task.cancel()
    await asyncio.gather(*bench.tasks, return_exceptions=True)
    return writes, left


@pytest.mark.long
async def test_without_a_policy_nothing_of_the_controller_s_is_left() -> None:
    """A user's own labels are; from any write at which it is killed."""
    writes, left = await _farewell(None)
    assert {"Node", "ConfigMap", "DaemonSet", "RuntimeClass", "NodeGPUStatus"} <= set(writes)
    pci = {"feature.node.kubernetes.io/pci-10de.present": "true"}
    assert left.pop("validation") in (None, {})
    bare = {"labels": {**pci, **_LABELS}, "annotations": {}, "sets": [], "classes": [], "configs": {}}
    assert left == bare
    for at in range(len(writes)):
        for after in (False, True):
            _, end = await _farewell(at, after=after)
            assert end.pop("validation") in (None, {})
            assert end == bare, f"killed {'after' if after else 'before'} write {at} ({writes[at]})"
