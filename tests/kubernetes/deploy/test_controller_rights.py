"""The controller on a genuine API server, through a policy's life, with the chart's roles and its token."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from controller.test_operator import Bench
from controller.test_rejected_pods import rejected
from support.audit import AuditLog, requests_of
from support.genuine import GenuinePlane, control_plane
from support.leftovers import own_folder
from support.rights import Right, granted, needed
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.kubernetes.client import connect
from tonnage.documents.node.gpu_status import node_gpu_status_crd
from tonnage.model.catalog.nvidia_kinds import nvidia_definition
from tonnage.model.errors import ApiError
from tonnage.model.validation import NodeStage, Outcome
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.reading.gpu_status import validation_from
from tonnage.wire.kinds import (
    CLUSTER_POLICY,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CUSTOM_RESOURCE,
    DAEMON_SET,
    GPU_CLUSTER,
    NAMESPACE,
    NODE,
    NODE_GPU_STATUS,
    POD,
    PRIORITY_CLASS,
    ROLE,
    ROLE_BINDING,
    RUNTIME_CLASS,
    SERVICE_ACCOUNT,
    Kind,
)

pytestmark = pytest.mark.kubernetes

OURS, OPERATOR = "tonnage-system", "gpu-operator"
ACCOUNT = f"system:serviceaccount:{OURS}:tonnage-controller"
LIMIT_S = 120.0
LABEL = "nvidia.com/gpu.deploy.device-plugin"
_KINDS: Final[dict[str, Kind[Any]]] = {
    kind.kind: kind
    for kind in (SERVICE_ACCOUNT, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING, PRIORITY_CLASS)
}
OBJECTS: Final[list[Any]] = [
    found
    for found in json.loads(files("tonnage.twin").joinpath("controller.json").read_text(encoding="utf-8"))
    if found["kind"] in _KINDS and "driver" not in found["metadata"]["name"]
]
"""Without the installation of drivers, which has roles of its own."""
ROLES: Final = granted(OBJECTS)


def _why_unused(right: Right) -> str:
    """The reason for which the roles grant what this life of a policy does not need; empty: there is none."""
    match right:
        case Right("patch", "", "events"):
            return "an Event that comes again is counted"
        case Right("watch", "kueue.x-k8s.io" | "resource.k8s.io", "workloads" | "devicetaintrules"):
            return "it is followed where it is served"
    return ""


class GenuineBench(Bench):
    """The same cluster on a genuine API server, where time goes by itself."""

    def __init__(self, api: KubernetesApi) -> None:
        self.api = api
        self.clock: Any = SystemClock()

    async def install(self) -> None:
        nvidias = (nvidia_definition(plural) for plural in ("clusterpolicies", "gpuclusters"))
        for definition in (node_gpu_status_crd(), *nvidias):
            await self.api.create(CUSTOM_RESOURCE, definition)
        for name in (OURS, OPERATOR):
            await self.api.create(NAMESPACE, {"metadata": {"name": name}})
        for found in OBJECTS:
            namespace = found["metadata"].get("namespace")
            await self.api.create(_KINDS[found["kind"]], found, namespace=namespace)
        for kind in (CLUSTER_POLICY, GPU_CLUSTER, NODE_GPU_STATUS):
            await until(lambda kind=kind: self._is_served(kind))  # type: ignore[misc]

    async def _is_served(self, kind: Kind[Any]) -> bool:
        with suppress(ApiError):
            await self.api.list(kind)
            return True
        return False

    async def end_pods(self) -> None:
        """Be the kubelet of pods that end well."""
        for pod in (await self.api.list(POD, namespace=OPERATOR)).items:
            state = {"state": {"terminated": {"exitCode": 0}}}
            ended: Any = {"status": {"phase": "Succeeded", "containerStatuses": [state]}}
            with suppress(ApiError):  # it is gone since
                await self.api.patch(POD, pod.metadata.name, ended, namespace=OPERATOR, subresource="status")

    async def standing(self) -> list[str]:
        """DaemonSets and RuntimeClasses, by name."""
        sets = (await self.api.list(DAEMON_SET, namespace=OPERATOR)).items
        return [found.metadata.name for found in (*sets, *(await self.api.list(RUNTIME_CLASS)).items)]

    async def validated(self, node: str) -> bool:
        await self.end_pods()
        report = await self.api.get(NODE_GPU_STATUS, node)
        validation = validation_from(report.status.get("validation"))
        return validation.of(NodeStage.WORKLOAD).outcome is Outcome.PASSED


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Return once it does."""
    async with asyncio.timeout(LIMIT_S):
        while not await holds():  # noqa: ASYNC110 - nobody tells it
            await asyncio.sleep(0.2)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with own_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def plane(folder: Path) -> Iterator[GenuinePlane]:
    flags = AuditLog(folder).flags(ACCOUNT)
    with control_plane(folder, "--disable-admission-plugins=ServiceAccount", *flags) as plane:
        yield plane


@asynccontextmanager
async def running(plane: GenuinePlane, api: KubernetesApi) -> AsyncIterator[Process]:
    """The controller with the token of its account; ended as kubelet ends it."""
    token: Any = await api.create_subresource(
        SERVICE_ACCOUNT, "tonnage-controller", "token", {"spec": {}}, namespace=OURS
    )
    config = yaml.safe_load(plane.kubeconfig.read_text(encoding="utf-8"))
    config["users"][0]["user"] = {"token": token["status"]["token"]}
    file = plane.kubeconfig.with_name("controller")
    file.touch(mode=0o600)
    file.write_text(json.dumps(config), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tonnage", "controller", "--kubeconfig", str(file), "--identity", "one"),
        *("--operand-image", "registry.example.com/tonnage:1", "--evict-rejected-pods"),
        *("--metrics-address", "127.0.0.1:0", "--cluster-metrics-interval", "5"),
        stderr=PIPE,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        async with asyncio.timeout(LIMIT_S):
            _, said = await process.communicate()
        print(said.decode())
    assert process.returncode == 0


async def _live(bench: GenuineBench, controller: Process) -> None:
    """From nodes that join to a policy that goes."""
    gpu = {"name": "nvidia.com/gpu", "devices": 1, "replicas": 1, "capacity": 1, "allocatable": 1}
    await bench.report("a", resources=[{**gpu, "allocated": 0}])
    claims = {
        "driver": "gpu.nvidia.com",
        "reason": "",
        "devices": [{"name": "gpu-0", "uuid": "GPU-1", "reason": ""}],
    }
    await bench.report("claimed", claims=claims)
    for node in ("a", "claimed"):
        await until(lambda node=node: bench.validated(node))  # type: ignore[misc]

    async def all_labelled() -> bool:
        await bench.end_pods()
        return all([LABEL in await bench.labels(node) for node in ("a", "claimed", "bare")])

    await until(all_labelled)

    async def evicted() -> bool:
        return not (await bench.api.list(POD, namespace="default")).items

    await until(evicted)

    assert len(await bench.standing()) > 1
    off = {"enabled": False}
    sections = ("toolkit", "devicePlugin", "dcgmExporter", "gfd", "migManager", "nodeStatusExporter", "dcgm")
    spec: Any = {"spec": dict.fromkeys(sections, off)}
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", spec)

    async def validator_alone() -> bool:
        return await bench.standing() == ["nvidia-operator-validator"]

    await until(validator_alone)
    await bench.api.delete(CLUSTER_POLICY, "cluster-policy")

    async def bare() -> bool:
        labelled = [LABEL in await bench.labels(node) for node in ("a", "claimed", "bare")]
        return not any(labelled) and not await bench.standing()

    await until(bare)
    assert controller.returncode is None


async def test_a_policy_s_life_is_refused_nothing_and_needs_what_the_roles_grant(
    plane: GenuinePlane, folder: Path
) -> None:
    """By the server's audit log: each right is used, or is listed with its reason."""
    async with connect(plane.kubeconfig) as api:
        bench = GenuineBench(api)
        await bench.install()
        await bench.node("a")
        await bench.node("claimed", gpus=0)
        await bench.node("bare", gpus=0)
        boot: Any = {"status": {"nodeInfo": {"bootID": "boot 1"}}}
        await bench.api.patch(NODE, "bare", boot, subresource="status")
        await bench.configs("sharing", any="version: v1")
        await bench.configs("layouts", **{"config.yaml": "version: v1"})
        await bench.configs("counters", **{"dcgm-metrics.csv": "DCGM_FI_DEV_SM_CLOCK, gauge, Clock."})
        await api.create(GPU_CLUSTER, {"metadata": {"name": "gpu-cluster"}, "spec": {"draDriver": {}}})
        await rejected(bench, "replaced", owner="ReplicaSet")
        await bench.policy(
            devicePlugin={"config": {"name": "sharing", "default": "any"}},
            migManager={"config": {"name": "layouts"}},
            dcgmExporter={"config": {"name": "counters"}},
            nodeStatusExporter={"enabled": True},
            dcgm={"enabled": True},
        )
        async with running(plane, api) as controller:
            await _live(bench, controller)
    asked = list(requests_of(folder / "audit.log", ACCOUNT))
    assert [right for right, reason in asked if not reason.startswith("RBAC: allowed by")] == []
    unused = ROLES - needed((right for right, _ in asked), ROLES)
    assert sorted(right for right in unused if not _why_unused(right)) == []
