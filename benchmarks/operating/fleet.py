"""From a policy to nodes that are ready, at rest, and one node's change."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.operating.planes import Controller, controller, install
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

Plane = Callable[[bool, int], AbstractContextManager[Path]]
LABEL: Final = "nvidia.com/gpu.deploy.device-plugin"
_MANAGER_RATE: Final = 20.0
"""Requests a second of each of the controller manager's loops (--kube-api-qps); the scheduler binds 50."""
_REST_S: Final = 120.0
_PATIENCE_S: Final = 900.0
_PODS_S: Final = 60.0
_CHANGES: Final = 5
"""As many nodes as a condition names."""
_THOUSAND: Final = 1_000


def measure(side: str, plane: Plane, nodes: int, at_rest: bool, _rounds: int) -> dict[str, list[float]]:
    """The figures of one side; the units are in the names."""
    with plane(not at_rest, nodes if at_rest else 0) as kubeconfig:
        return asyncio.run(_measured(side, kubeconfig, nodes, at_rest))


async def _measured(side: str, kubeconfig: Path, count: int, at_rest: bool) -> dict[str, list[float]]:
    async with connect(kubeconfig, program="benchmark") as api:
        fleet = PretendedNodes(api, SystemClock(), count)
        if await or_none(api.get(NAMESPACE_KIND, NAMESPACE)) is None:
            await install(api)
            await fleet.make(at_rest=at_rest)
        else:
            fleet.found()
        policies: Informer[ClusterPolicy] = Informer(api, CLUSTER_POLICY, SystemClock())
        pretending = asyncio.gather(fleet.run(), fleet.beat(), policies.run())
        measuring = asyncio.create_task(_figures(fleet, policies, api, kubeconfig, at_rest))
        await asyncio.wait((pretending, measuring), return_when=asyncio.FIRST_COMPLETED)
        if not measuring.done():
            measuring.cancel()
            await asyncio.gather(measuring, return_exceptions=True)
            pretending.result()
        pretending.cancel()
        await asyncio.gather(pretending, return_exceptions=True)
    return {f"{side}, {count} nodes: {name}": values for name, values in measuring.result().items()}


async def _figures(
    fleet: PretendedNodes,
    policies: Informer[ClusterPolicy],
    api: KubernetesApi,
    kubeconfig: Path,
    at_rest: bool,
) -> dict[str, list[float]]:
    await fleet.nodes.synced()
    async with controller(kubeconfig) as process:
        figures = await _to_ready(fleet, policies, process, api, at_rest)
        if not at_rest:
            figures |= await _operands(fleet)
        figures |= await _resting(fleet, process)
        figures |= await _one_change(fleet, policies, api)
        now, most = process.memory_mb()
    wanted = 150 if fleet.count <= _THOUSAND else 500
    return figures | {f"controller's memory, MB (wanted: under {wanted})": [now], "  at its peak": [most]}


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
        await fleet.nodes.wait_for(lambda copy: sum(map(_labelled, copy)) == fleet.count)
        labelled = time.monotonic()
        await policies.wait_for(lambda copy: any(_says_ready(p, fleet.count) for p in copy))
    ready = time.monotonic()
    figures = {
        "policy to the last node's labels, s": [labelled - began],
        "policy to all nodes Ready, s": [ready - began],
        "  the controller meanwhile: processor, s": [process.cpu_s()],
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
    before, began = len(fleet.running), time.monotonic()
    with suppress(TimeoutError):
        async with asyncio.timeout(_PODS_S):
            await fleet.pods.wait_for(lambda _copy: len(fleet.running) >= wanted)
    pods, took = len(fleet.running) - before, time.monotonic() - began
    return {
        f"operands' pods that run, of {wanted}": [len(fleet.running)],
        "  of them a second since nodes are Ready": [pods / took] if pods else [0.0],
        "  what kube-controller-manager's default limit allows a second": [_MANAGER_RATE],
    }


async def _resting(fleet: PretendedNodes, process: Controller) -> dict[str, list[float]]:
    requests, busy = await process.requests(), process.cpu_s()
    beats, began = fleet.done["heartbeats"], time.monotonic()
    await asyncio.sleep(_REST_S)
    minutes = (time.monotonic() - began) / 60
    asked = await process.requests() - requests
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
        began = time.monotonic()
        async with asyncio.timeout(60):
            while await back.get() != name:
                pass
        labels.append(time.monotonic() - began)
        broken: Any = {"status": {"config": {"error": "unknown field: replica"}}}
        await api.patch(NODE_GPU_STATUS, name, broken, subresource="status")
        began = time.monotonic()
        async with asyncio.timeout(60):
            await policies.wait_for(partial(_speaks_of, name))
        reports.append(time.monotonic() - began)
        mended: Any = {"status": {"config": {"error": None}}}
        await api.patch(NODE_GPU_STATUS, name, mended, subresource="status")
        await asyncio.sleep(1)
    return {
        "one node's label taken away, and set again, s (wanted: under 1)": labels,
        "one node's configuration refused, and the policy's condition says so, s (wanted: under 1)": reports,
    }


def _speaks_of(node: str, policies: Informer[ClusterPolicy]) -> bool:
    return any(f"{node}: " in str(policy.status) for policy in policies)


def _labelled(node: Node) -> bool:
    return LABEL in node.metadata.labels
