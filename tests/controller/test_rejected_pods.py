"""Pods that kubelet rejected before a node's devices were there."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from controller.test_operator import OPTIONS, Bench, bench
from tonnage.controller.main import run_controller
from tonnage.loop.performer import ActionRecord
from tonnage.model.errors import ApiError
from tonnage.wire.kinds import NODE, POD

__all__ = ["bench"]
EVICTING = replace(OPTIONS, rejected_pods=True)
REJECTED = {
    "phase": "Failed",
    "reason": "UnexpectedAdmissionError",
    "message": "Pod was rejected: Allocate failed due to no healthy devices present",
}


async def rejected(bench: Bench, name: str, *, owner: str = "", gpus: int = 1, **status: str) -> None:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    owners = [{"apiVersion": "apps/v1", "kind": owner, "name": "x", "uid": "u", "controller": True}]
    body: Any = {
        "metadata": {"name": name, **({"ownerReferences": owners} if owner else {})},
        "spec": {
            "nodeName": "a",
            "containers": [{"name": "c", "image": "i", "resources": {"limits": limits}}],
        },
    }
    await bench.api.create(POD, body, namespace="default")
    await bench.api.patch(
        POD, name, {"status": {**REJECTED, **status}}, namespace="default", subresource="status"
    )


async def names(bench: Bench) -> list[str]:
    return sorted(found.metadata.name for found in (await bench.api.list(POD, namespace="default")).items)


@pytest.fixture
async def rebooted(bench: Bench) -> Bench:
    """A node whose devices are not there yet, and what kubelet did with its pods."""
    await bench.node("a")
    await bench.api.patch(
        NODE, "a", {"status": {"allocatable": {"nvidia.com/gpu": "0"}}}, subresource="status"
    )
    await bench.report("a")
    await bench.policy()
    await rejected(bench, "replaced", owner="ReplicaSet")
    await rejected(bench, "of-the-resource", owner="StatefulSet", reason="OutOfnvidia.com/gpu")
    await rejected(bench, "bare")
    await rejected(bench, "of-an-operator", owner="PyTorchJob")
    await rejected(bench, "without-gpu", owner="ReplicaSet", gpus=0)
    await rejected(bench, "too-large", owner="ReplicaSet", gpus=4)
    await rejected(bench, "crashed", owner="Job", reason="Error")
    await rejected(bench, "running", owner="ReplicaSet", phase="Running", reason="")
    return bench


async def _devices_come(bench: Bench) -> None:
    await bench.api.patch(
        NODE, "a", {"status": {"allocatable": {"nvidia.com/gpu": "1"}}}, subresource="status"
    )
    await bench.clock.advance(3)


async def test_they_go_once_the_devices_are_there_if_a_controller_makes_others(rebooted: Bench) -> None:
    before = await names(rebooted)
    rebooted.start(EVICTING)
    await rebooted.clock.advance(5)
    assert await names(rebooted) == before, "there are no devices yet"
    await _devices_come(rebooted)
    gone = set(before) - set(await names(rebooted))
    assert gone == {"replaced", "of-the-resource"}
    condition = await rebooted.condition("tonnage.dev/RejectedPods")
    assert (condition["status"], condition["reason"]) == ("True", "PodsWithoutController")
    bare, other = condition["message"].splitlines()
    assert bare.startswith("default/bare on a: kubelet rejected it (UnexpectedAdmissionError: Pod was")
    assert bare.endswith(
        "no controller makes another; the devices are there now: delete it and create it again"
    )
    assert other.startswith("default/of-an-operator on a: ")
    assert "PyTorchJob may make no other" in other


async def test_the_condition_ends_with_the_pods_that_it_names(rebooted: Bench) -> None:
    rebooted.start(EVICTING)
    await _devices_come(rebooted)
    for name in ("bare", "of-an-operator"):
        await rebooted.api.delete(POD, name, namespace="default", grace_period_s=0)
    await rebooted.clock.advance(5)
    condition = await rebooted.condition("tonnage.dev/RejectedPods")
    assert (condition["status"], condition["message"]) == ("False", "")


async def test_a_dry_run_names_them(rebooted: Bench) -> None:
    before = await names(rebooted)
    await _devices_come(rebooted)
    withheld: list[ActionRecord] = []
    rebooted.start(replace(EVICTING, dry_run=True, once=True), withheld=withheld.append)
    await rebooted.clock.advance(5)
    evicted = [record.action for record in withheld if type(record.action).__name__ == "EvictPod"]
    assert [getattr(action, "name", "") for action in evicted] == ["of-the-resource", "replaced"]
    assert await names(rebooted) == before


async def test_without_the_right_to_read_pods_the_other_loops_go_on(rebooted: Bench) -> None:
    class NoPods:
        def __getattr__(self, name: str) -> Any:
            method = getattr(rebooted.api, name)

            async def refused(kind: Any, *args: Any, **options: Any) -> Any:
                if kind is POD:
                    raise ApiError(403, "Forbidden", "pods is forbidden")
                return await method(kind, *args, **options)

            return refused if name == "list" else method

    rebooted.tasks.append(asyncio.create_task(run_controller(EVICTING, api=NoPods(), clock=rebooted.clock)))
    await rebooted.clock.advance(5)
    assert (await rebooted.labels("a"))["nvidia.com/gpu.present"] == "true"
    assert (await rebooted.status())["state"] == "notReady"
