"""From a policy to nodes that are ready, at rest, and one node's change."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any, Final

from benchmarks.operating.planes import Controller, Plane, controller, install
from benchmarks.operating.pretended_nodes import NAMESPACE, PretendedNodes, policy_body
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.kubernetes.client import connect
from tonnage.loop.informer import Delta, Informer
from tonnage.loop.refusals import or_none
from tonnage.model.json_access import text
from tonnage.model.operands import OPERANDS
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.wire.kinds import CLUSTER_POLICY, NODE, NODE_GPU_STATUS
from tonnage.wire.kinds import NAMESPACE as NAMESPACE_KIND
from tonnage.wire.nvidia import ClusterPolicy
from tonnage.wire.objects import Node


@dataclass(frozen=True)
class Course:
    """What is measured; `at_rest`: nodes that the controller has left labelled and validated already."""

    nodes: int
    at_rest: bool
    rest_s: float
    cluster_metrics_s: float
    """How often the controller works out metrics of the cluster; 0: it does not."""


PlaneMaker = Callable[[bool, int], AbstractContextManager[Plane]]
LABEL: Final = "nvidia.com/gpu.deploy.device-plugin"
_MANAGER_RATE: Final = 20.0
"""Requests a second of each of the controller manager's loops (--kube-api-qps); the scheduler binds 50."""
_PATIENCE_S: Final = 900.0
_PODS_S: Final = 60.0
_PROGRESS_S: Final = 10.0
_CHANGE_S: Final = 120.0
_CHANGES: Final = 5
"""As many nodes as a condition names."""
_THOUSAND: Final = 1_000


def measure(side: str, make: PlaneMaker, course: Course, _rounds: int) -> dict[str, list[float]]:
    """The figures of one side; the units are in the names."""
    with make(not course.at_rest, course.nodes if course.at_rest else 0) as plane:
        return asyncio.run(_measured(side, plane, course))


async def _measured(side: str, plane: Plane, course: Course) -> dict[str, list[float]]:
    async with connect(plane.kubeconfig, program="benchmark") as api:
        fleet = PretendedNodes(api, SystemClock(), course.nodes)
        if await or_none(api.get(NAMESPACE_KIND, NAMESPACE)) is None:
            await install(api)
            await fleet.make(at_rest=course.at_rest)
        else:
            fleet.found()
        policies: Informer[ClusterPolicy] = Informer(api, CLUSTER_POLICY, SystemClock())
        pretending = asyncio.gather(fleet.run(), fleet.beat(), policies.run())
        measuring = asyncio.create_task(_figures(fleet, policies, api, plane, course))
        await asyncio.wait((pretending, measuring), return_when=asyncio.FIRST_COMPLETED)
        if not measuring.done():
            measuring.cancel()
            await asyncio.gather(measuring, return_exceptions=True)
            pretending.result()
        pretending.cancel()
        await asyncio.gather(pretending, return_exceptions=True)
    return {f"{side}, {course.nodes} nodes: {name}": values for name, values in measuring.result().items()}


async def _figures(
    fleet: PretendedNodes,
    policies: Informer[ClusterPolicy],
    api: KubernetesApi,
    plane: Plane,
    course: Course,
) -> dict[str, list[float]]:
    await fleet.nodes.synced()
    metrics_s = course.cluster_metrics_s
    arguments = ["--cluster-metrics-interval", f"{metrics_s:g}"] if metrics_s else []
    async with controller(plane.kubeconfig, *arguments) as process, _progress(fleet, plane, process):
        figures = await _to_ready(fleet, policies, process, api, course.at_rest)
        if not course.at_rest:
            figures |= await _operands(fleet)
        figures |= await _resting(fleet, process, course.rest_s)
        figures |= await _one_change(fleet, policies, api)
        now, most = process.memory_mb()
    wanted = 150 if fleet.count <= _THOUSAND else 500
    return figures | {f"controller's memory, MB (wanted: under {wanted})": [now], "  at its peak": [most]}


@asynccontextmanager
async def _progress(fleet: PretendedNodes, plane: Plane, process: Controller) -> AsyncIterator[None]:
    """A line on standard error now and then: a fleet that never gets ready says how far it came."""

    async def tell() -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(_PROGRESS_S)
            counts = ", ".join(f"{count} {what}" for what, count in fleet.done.items())
            used = {"controller": process.cpu_s(), "control plane": plane.cpu_s(), "nodes": process_time()}
            cores = ", ".join(f"{who} {used_s:.0f}" for who, used_s in used.items())
            took, load = time.monotonic() - began, os.getloadavg()[0]
            line = f"  {took:.0f} s: {counts}; seconds of a core: {cores}; load {load:.1f}"
            print(f"{line}; {process.memory_mb()[0]:.0f} MB", file=sys.stderr, flush=True)

    telling = asyncio.create_task(tell())
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def _to_ready(
    fleet: PretendedNodes,
    policies: Informer[ClusterPolicy],
    process: Controller,
    api: KubernetesApi,
    at_rest: bool,
) -> dict[str, list[float]]:
    began = time.monotonic()
    await api.create(CLUSTER_POLICY, policy_body())
    async with asyncio.timeout(_PATIENCE_S):
        await fleet.nodes.wait_for(lambda _copy: fleet.done["labelled"] == fleet.count)
        labelled = time.monotonic()
        await policies.wait_for(lambda copy: any(_says_ready(p, fleet.count) for p in copy))
    ready = time.monotonic()
    asked = await process.requests()
    figures = {
        "policy to the last node's labels, s": [labelled - began],
        "policy to all nodes Ready, s": [ready - began],
        "  the controller meanwhile: processor, s": [process.cpu_s()],
        "  its requests a node": [asked.total() / fleet.count],
        **{f"    {what}": [n / fleet.count] for what, n in asked.most_common() if n >= fleet.count / 10},
    }
    if not at_rest:
        figures["last NodeGPUStatus to all nodes Ready, s (wanted: under 60)"] = [
            ready - fleet.last["reported"]
        ]
        figures["last validation to all nodes Ready, s"] = [ready - fleet.last["validated"]]
    return figures


def _says_ready(policy: ClusterPolicy, count: int) -> bool:
    conditions: Any = policy.status.get("conditions") or []
    message = f"all {count} GPU nodes are ready"
    said = any(c["type"] == "Ready" and c["message"] == message for c in conditions)
    return said and text(policy.status, "state") == "ready"


async def _operands(fleet: PretendedNodes) -> dict[str, list[float]]:
    """How fast operands' pods come, beside the rate that the control plane allows."""
    wanted = (len(OPERANDS) - 1) * fleet.count  # without the MIG manager, for which no node is labelled
    with suppress(TimeoutError):
        async with asyncio.timeout(_PODS_S):
            await fleet.pods.wait_for(lambda _copy: len(fleet.running) >= wanted)
    took = fleet.last["operands"] - fleet.first["operands"]
    return {
        f"operands' pods that run, of {wanted}": [len(fleet.running)],
        "  of them a second from the first to the last": [len(fleet.running) / took],
        "  what kube-controller-manager's default limit allows a second": [_MANAGER_RATE],
    }


async def _resting(fleet: PretendedNodes, process: Controller, rest_s: float) -> dict[str, list[float]]:
    requests, busy = await process.requests(), process.cpu_s()
    beats, began = fleet.done["heartbeats"], time.monotonic()
    await asyncio.sleep(rest_s)
    minutes = (time.monotonic() - began) / 60
    asked = (await process.requests() - requests).total()
    return {
        "at rest: controller's requests a minute and node (wanted: under 1)": [asked / minutes / fleet.count],
        "  agents' heartbeats a minute and node": [
            (fleet.done["heartbeats"] - beats) / minutes / fleet.count
        ],
        "  controller: per cent of a core": [(process.cpu_s() - busy) / minutes / 60 * 100],
    }


async def _one_change(
    fleet: PretendedNodes, policies: Informer[ClusterPolicy], api: KubernetesApi
) -> dict[str, list[float]]:
    """A label that somebody takes away, and a configuration that a node refuses."""
    labels, reports = [], []
    back: asyncio.Queue[str] = asyncio.Queue()

    def labelled_again(change: Delta[Node]) -> None:
        if change.before and change.after and not _labelled(change.before) and _labelled(change.after):
            back.put_nowait(change.after.metadata.name)

    fleet.nodes.subscribe(labelled_again)
    for number in range(_CHANGES):
        name = f"gpu-{number}"
        await api.patch(NODE, name, {"metadata": {"labels": {LABEL: None}}})
        labels.append(await _seconds(_until_named(back, name)))
        broken: Any = {"status": {"config": {"error": "unknown field: replica"}}}
        await api.patch(NODE_GPU_STATUS, name, broken, subresource="status")
        reports.append(await _seconds(policies.wait_for(partial(_speaks_of, name))))
        mended: Any = {"status": {"config": {"error": None}}}
        await api.patch(NODE_GPU_STATUS, name, mended, subresource="status")
        await asyncio.sleep(1)
    return {
        "one node's label taken away, and set again, s (wanted: under 1)": labels,
        "one node's configuration refused, and the policy's condition says so, s (wanted: under 1)": reports,
    }


async def _seconds(waiting: Awaitable[None]) -> float:
    """How long it took; infinite where it did not end."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(_CHANGE_S):
            await waiting
    except TimeoutError:
        return math.inf
    return time.monotonic() - began


async def _until_named(back: asyncio.Queue[str], name: str) -> None:
    while await back.get() != name:
        pass


def _speaks_of(node: str, policies: Informer[ClusterPolicy]) -> bool:
    return any(f"{node}: " in str(policy.status) for policy in policies)


def _labelled(node: Node) -> bool:
    return LABEL in node.metadata.labels
