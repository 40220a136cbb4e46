"""PodResourcesLister, v1: which container holds which devices. Source: k8s.io/kubelet, podresources/v1."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import grpc
import grpc.aio

from tonnage.twin.kubelet.claims.manager import ClaimManager
from tonnage.twin.kubelet.devices.checkpoint import CheckpointEntry
from tonnage.twin.kubelet.devices.manager import DeviceManager
from tonnage.twin.kubelet.devices.unix_grpc import serve_unix, unary_handler
from tonnage.twin.kubelet.node_spec import NodePaths
from tonnage.wire.kubelet import methods
from tonnage.wire.kubelet import podresources_v1_pb2 as wire
from tonnage.wire.objects import Pod

_ENDED: Final = frozenset({"Succeeded", "Failed"})


class PodResources:
    """Serves the API on its socket; `pods` gives the pods that the kubelet knows."""

    def __init__(
        self, paths: NodePaths, devices: DeviceManager, claims: ClaimManager, pods: Callable[[], list[Pod]]
    ) -> None:
        self._paths = paths
        self._devices = devices
        self._claims = claims
        self._pods = pods
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Listen. Raises OSError."""
        self._server = await serve_unix(
            self._paths.pod_resources_socket,
            {
                "v1.PodResourcesLister": {
                    "List": unary_handler(methods.POD_RESOURCES_LIST, self._list),
                    "Get": unary_handler(methods.POD_RESOURCES_GET, self._get),
                    "GetAllocatableResources": unary_handler(
                        methods.POD_RESOURCES_ALLOCATABLE, self._allocatable
                    ),
                }
            },
        )

    async def stop(self) -> None:
        """Close the socket."""
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def _list(
        self,
        request: wire.ListPodResourcesRequest,
        context: grpc.aio.ServicerContext[wire.ListPodResourcesRequest, wire.ListPodResourcesResponse],
    ) -> wire.ListPodResourcesResponse:
        del request, context
        active = [pod for pod in self._pods() if pod.status.phase not in _ENDED]
        return wire.ListPodResourcesResponse(pod_resources=[self._resources(pod) for pod in active])

    async def _get(
        self,
        request: wire.GetPodResourcesRequest,
        context: grpc.aio.ServicerContext[wire.GetPodResourcesRequest, wire.GetPodResourcesResponse],
    ) -> wire.GetPodResourcesResponse:
        key = (request.pod_namespace, request.pod_name)
        pods = [pod for pod in self._pods() if (pod.metadata.namespace, pod.metadata.name) == key]
        if not pods:
            where = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
            await context.abort(grpc.StatusCode.UNKNOWN, where)
        return wire.GetPodResourcesResponse(pod_resources=self._resources(pods[0]))

    async def _allocatable(
        self,
        request: wire.AllocatableResourcesRequest,
        context: grpc.aio.ServicerContext[
            wire.AllocatableResourcesRequest, wire.AllocatableResourcesResponse
        ],
    ) -> wire.AllocatableResourcesResponse:
        """One entry per device, because each has a topology of its own."""
        del request, context
        return wire.AllocatableResourcesResponse(
            devices=[
                wire.ContainerDevices(resource_name=name, device_ids=[device], topology=_topology(mask))
                for name, devices in self._devices.resources.healthy().items()
                for device, mask in devices.items()
            ]
        )

    def _resources(self, pod: Pod) -> wire.PodResources:
        held = self._devices.held(pod.metadata.uid)
        names = [
            *(c.name for c in pod.spec.init_containers if c.restart_policy == "Always"),
            *(c.name for c in pod.spec.containers),
        ]
        return wire.PodResources(
            name=pod.metadata.name,
            namespace=pod.metadata.namespace,
            containers=[
                wire.ContainerResources(
                    name=name,
                    devices=_devices(held.get(name, ())),
                    dynamic_resources=self._claimed(pod, name),
                )
                for name in names
            ],
        )

    def _claimed(self, pod: Pod, container: str) -> list[wire.DynamicResource]:
        """Of every claim of a container each device that was prepared for it."""
        return [
            wire.DynamicResource(
                claim_name=claim.claim_name,
                claim_namespace=claim.namespace,
                claim_resources=[
                    wire.ClaimResource(
                        cdi_devices=[wire.CDIDevice(name=name) for name in device.cdi_device_ids or ()],
                        driver_name=driver,
                        pool_name=device.pool_name,
                        device_name=device.device_name,
                    )
                    for driver, state in claim.driver_state.items()
                    for device in state.devices or ()
                ],
            )
            for claim in self._claims.of_container(pod, container)
        ]


def _devices(entries: Iterable[CheckpointEntry]) -> list[wire.ContainerDevices]:
    return [
        wire.ContainerDevices(
            resource_name=entry.resource,
            device_ids=list(ids),
            topology=_topology(1 << numa if numa >= 0 else 0),
        )
        for entry in entries
        for numa, ids in entry.devices.items()
    ]


def _topology(mask: int) -> wire.TopologyInfo | None:
    if not mask:
        return None
    nodes = [wire.NUMANode(ID=node) for node in range(mask.bit_length()) if mask >> node & 1]
    return wire.TopologyInfo(nodes=nodes)
