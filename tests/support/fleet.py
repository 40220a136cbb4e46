"""A whole twin with its real agents, in this process, and a kubectl beside it."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tonnage.adapters.clock import SystemClock
from tonnage.cli.locations.kubectl import kubectl_binary
from tonnage.cli.up.programs import node_programs
from tonnage.documents.scenario import parse_scenario
from tonnage.model.json import JsonObject
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.cluster import Cluster
from tonnage.twin.fleet import TwinNode
from tonnage.twin.kubelet.containers.runtime_port import Program
from tonnage.wire.kinds import NODE, NODE_GPU_STATUS, POD
from tonnage.wire.objects import Pod

PATIENCE_S = 60.0
SCENARIO = """
name: faults
groups:
- {name: t4, nodes: 1, gpu: {model: T4, count: 2}}
- {name: cpu, nodes: 1}
configs:
  default: {version: v1}
  shared:
    version: v1
    sharing:
      timeSlicing:
        renameByDefault: true
        failRequestsGreaterThanOne: true
        resources: [{name: nvidia.com/gpu, replicas: 4}]
"""


@dataclass
class Fleet:
    """A running cluster and the questions that tests ask of it."""

    cluster: Cluster
    kubeconfig: Path

    @property
    def api(self) -> KubernetesApi:
        return self.cluster.api

    @property
    def gpu_node(self) -> TwinNode:
        return self.cluster.nodes["t4-0"]

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Return once `holds`; the test fails when that takes too long."""
        async with asyncio.timeout(PATIENCE_S):
            while not await holds():  # noqa: ASYNC110 - the answer is the cluster's, not an event here
                await asyncio.sleep(0.02)

    async def allocatable(self, resource: str = "nvidia.com/gpu", node: str = "t4-0") -> int:
        status = (await self.api.get(NODE, node)).status
        return int(status.allocatable.get(resource, -1))

    async def gpu_status(self, node: str = "t4-0") -> Any:
        """The `status` of the node's NodeGPUStatus; empty until its agent has written one."""
        reports = (await self.api.list(NODE_GPU_STATUS)).items
        return next((each.status for each in reports if each.metadata.name == node), {})

    async def capacity(self, resource: str = "nvidia.com/gpu", node: str = "t4-0") -> int:
        return int((await self.api.get(NODE, node)).status.capacity.get(resource, -1))

    async def pod(self, name: str) -> Pod:
        return await self.api.get(POD, name, "default")

    async def run_pod(self, name: str, resource: str = "nvidia.com/gpu", count: int = 1) -> None:
        container: JsonObject = {
            "name": "c",
            "image": "busybox:1.37",
            "command": ["sleep", "infinity"],
            "resources": {"limits": {resource: str(count)}},
        }
        spec: JsonObject = {"containers": [container], "terminationGracePeriodSeconds": 0}
        await self.api.create(POD, {"metadata": {"name": name}, "spec": spec}, namespace="default")

    async def until_phase(self, name: str, phase: str) -> Pod:
        await self.until(lambda: self._has_phase(name, phase))
        return await self.pod(name)

    async def _has_phase(self, name: str, phase: str) -> bool:
        return (await self.pod(name)).status.phase == phase

    async def kubectl(self, *arguments: str) -> str:
        """Standard output of the real kubectl; fails the test when kubectl fails."""
        process = await asyncio.create_subprocess_exec(
            str(kubectl_binary("1.35")),
            *arguments,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig), "GOGC": "off"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(PATIENCE_S):
            out, error = await process.communicate()
        assert process.returncode == 0, error.decode()
        return out.decode()

    async def uuids_in(self, pod: str) -> set[str]:
        """What `nvidia-smi` inside the pod says."""
        query = ("nvidia-smi", "--query-gpu=gpu_uuid", "--format=csv,noheader")
        return set((await self.kubectl("exec", pod, "--", *query)).split())


@asynccontextmanager
async def running_fleet(
    scenario: str, programs: Mapping[str, Program] = MappingProxyType({})
) -> AsyncIterator[Fleet]:
    """The fleet of a scenario's text, populated; what its nodes offer may still be to come.

    `programs` are what containers of other images run.
    """
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    parsed = parse_scenario(scenario, source="scenario.yaml")
    cluster = Cluster(
        *(parsed, SystemClock()),
        programs={**node_programs(folder / "kubeconfig"), **programs},
        runtime_dir=folder,
    )
    try:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(kubeconfig_text(await cluster.serve()))
        await cluster.populate(kubeconfig)
        yield Fleet(cluster, kubeconfig)
    finally:
        await cluster.stop()
        shutil.rmtree(folder)
