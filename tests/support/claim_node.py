"""A node whose agent is the driver for claims, with an API server that validates what is published."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.api_stores import new_store
from support.claim_kubelet import ClaimKubelet, eventually
from tonnage.adapters.clock import SystemClock
from tonnage.agent.main import run_agent
from tonnage.agent.options import AgentOptions
from tonnage.documents.node.gpu_status import node_gpu_status_crd
from tonnage.loop.refusals import or_none
from tonnage.model.devices.claims import DRIVER, ClaimRef
from tonnage.model.kubernetes.feature_gates import FeatureGates
from tonnage.twin.apiserver.server import ApiServer
from tonnage.wire import kinds

NODE = "a100-0"
HARDWARE = (
    "devices:\n- {uuid: GPU-0, model: A100-40, numa: 0}\n- {uuid: GPU-1, model: A100-40, numa: 1}\n"
    "- {uuid: GPU-2, model: T4}\n"
)
ALL = "version: v1\nclaims: {devices: all}\n"
SOME = "version: v1\nclaims: {devices: [0, GPU-1]}\n"


class ClaimNode:
    """Its cluster, its kubelet, and the agents that run there."""

    def __init__(self, root: Path, *gates: str, api: Any = None) -> None:
        """On the twin with these gates, or on another API server."""
        self.root = root
        self.kubelet = ClaimKubelet(root)
        if api is None:
            chosen = tuple((gate, True) for gate in gates)
            self.server = ApiServer(SystemClock(), gates=FeatureGates(35, chosen), store=new_store())
        self.api: Any = self.server.local() if api is None else api

    async def begin(self, config: str, hardware: str = HARDWARE, kubelet: str = "v1.35.0") -> None:
        (self.root / "hardware.yaml").write_text(hardware)
        await self.api.create(kinds.NODE, {"metadata": {"name": NODE}})
        software = {"kubeletVersion": kubelet, "containerRuntimeVersion": "containerd://2.2.1"}
        await self.api.patch(kinds.NODE, NODE, {"status": {"nodeInfo": software}}, subresource="status")
        for namespace in ("tonnage-system", "ml"):
            body: Any = {"metadata": {"name": namespace}}
            await or_none(self.api.create(kinds.NAMESPACE, body), (409,))  # of the node before
        await or_none(self.api.create(kinds.CUSTOM_RESOURCE, node_gpu_status_crd()), (409,))
        await self.configure(config, create=True)

    async def configure(self, config: str, *, create: bool = False) -> None:
        body = {"metadata": {"name": "device-plugin-config"}, "data": {"default": config}}
        if create:
            await self.api.create(kinds.CONFIG_MAP, body, namespace="tonnage-system")
        else:
            patch = {"data": body["data"]}
            await self.api.patch(kinds.CONFIG_MAP, "device-plugin-config", patch, namespace="tonnage-system")

    @asynccontextmanager
    async def agent(self, *, claims: bool = True, pod: str = "", port: int = 0) -> AsyncIterator[None]:
        """With the uid of its pod, and a port of this machine for probes."""
        options = AgentOptions(
            *(NODE, f"scenario:{self.root / 'hardware.yaml'}", self.root),
            kubelet_socket="",
            claims=claims,
            pod_uid=pod,
            metrics_address=f"127.0.0.1:{port}" if port else "",
        )
        running = asyncio.create_task(run_agent(options, api=self.api, clock=SystemClock()))
        try:
            yield
        finally:
            if running.done():
                running.result()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def slices(self, until: Callable[[list[Any]], Any]) -> list[Any]:
        """The slices, once that holds."""

        async def look() -> tuple[list[Any]] | None:
            listing = (await self.api.list(kinds.RESOURCE_SLICE)).items
            return (listing,) if until(listing) else None

        listing: list[Any] = (await eventually(look))[0]
        return listing

    async def events(self) -> list[Any]:
        listing: list[Any] = (await self.api.list(kinds.EVENT, namespace="default")).items
        return listing

    async def claim(
        self, name: str, *devices: str, share: str = "", request: str = "gpu", **allocation: Any
    ) -> ClaimRef:
        """A claim that the scheduler has given these devices, or parts of them."""
        exactly = {"deviceClassName": "gpu.nvidia.com"}
        spec = {"devices": {"requests": [{"name": request, "exactly": exactly}]}}
        made = await self.api.create(
            kinds.RESOURCE_CLAIM, {"metadata": {"name": name}, "spec": spec}, namespace="ml"
        )
        results: list[Any] = [
            {"request": request, "driver": DRIVER, "pool": NODE, "device": device} for device in devices
        ]
        for entry in results if share else ():
            entry |= {"shareID": share, "consumedCapacity": {"memory": "10Gi"}}
        status = {
            "allocation": {"devices": {"results": results, **allocation}},
            "reservedFor": [{"resource": "pods", "name": f"{name}-pod", "uid": f"uid-of-{name}"}],
        }
        await self.api.patch(
            kinds.RESOURCE_CLAIM, name, {"status": status}, namespace="ml", subresource="status"
        )
        return ClaimRef("ml", name, made.metadata.uid)

    def spec(self, claim: ClaimRef) -> Any:
        """The claim's CDI spec; None if there is none."""
        file = self.root / f"var/run/cdi/k8s.gpu.nvidia.com-claim_{claim.uid}.json"
        return json.loads(file.read_text()) if file.exists() else None


def names(listing: list[Any]) -> list[str]:
    return [device["name"] for each in listing for device in each.spec.get("devices") or ()]


def sharing(**how: Any) -> list[Any]:
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": how}
    return [{"source": "FromClaim", "opaque": {"driver": DRIVER, "parameters": parameters}}]
