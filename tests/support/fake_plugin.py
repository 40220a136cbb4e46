"""A device plugin that says what a test tells it, over real gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import grpc
import grpc.aio

from support.memory_api import Body, Changed
from tonnage.twin.kubelet.node_spec import NodePaths
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as wire
from tonnage.wire.kubelet import methods

GPU = "nvidia.com/gpu"


class FakePlugin(Changed):
    """A device plugin with its own idea of health and preference, that remembers what it was asked."""

    def __init__(
        self,
        paths: NodePaths,
        resource: str,
        devices: Body,
        *,
        prefers: bool = True,
        pre_start: bool = False,
        numa: dict[str, int] | None = None,
        cdi: str = "",
    ) -> None:
        super().__init__()
        self.pre_start = pre_start
        self.numa = numa or {}
        self.cdi = cdi
        self.started: list[list[str]] = []
        self.paths = paths
        self.resource = resource
        self.devices = devices
        self.prefers = prefers
        self.socket = paths.device_plugins / f"{resource.replace('/', '-')}.sock"
        self.allocations: list[list[str]] = []
        self.preferences: list[tuple[list[str], list[str], int]] = []
        self.refusal = ""
        self.start_refusal = ""
        self.streams = 0
        self.asked = Changed()
        self._server: grpc.aio.Server | None = None

    def set_health(self, device: str, *, healthy: bool) -> None:
        self.devices[device] = healthy
        self.tell()

    async def start(self) -> None:
        server = grpc.aio.server()
        table: dict[str, Any] = {
            "GetDevicePluginOptions": (
                methods.GET_OPTIONS,
                self._options,
                grpc.unary_unary_rpc_method_handler,
            ),
            "ListAndWatch": (methods.LIST_AND_WATCH, self._watch, grpc.unary_stream_rpc_method_handler),
            "GetPreferredAllocation": (
                methods.GET_PREFERRED,
                self._prefer,
                grpc.unary_unary_rpc_method_handler,
            ),
            "PreStartContainer": (methods.PRE_START, self._pre_start, grpc.unary_unary_rpc_method_handler),
            "Allocate": (methods.ALLOCATE, self._allocate, grpc.unary_unary_rpc_method_handler),
        }
        handlers = {
            name: make(
                answer,
                request_deserializer=method.request.FromString,
                response_serializer=method.response.SerializeToString,
            )
            for name, (method, answer, make) in table.items()
        }
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", cast(Any, handlers)),)
        )
        self.socket.unlink(missing_ok=True)
        server.add_insecure_port(f"unix:{self.socket}")
        await server.start()
        self._server = server

    async def register(self, **changes: str) -> None:
        """Register as a plugin does; raises AioRpcError when the kubelet refuses."""
        request: dict[str, Any] = {
            "version": "v1beta1",
            "endpoint": self.socket.name,
            "resource_name": self.resource,
        } | changes
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(f"unix:{self.paths.registration_socket}", options) as channel:
            stub = channel.unary_unary(
                methods.REGISTER.path,
                request_serializer=methods.REGISTER.request.SerializeToString,
                response_deserializer=methods.REGISTER.response.FromString,
            )
            await stub(wire.RegisterRequest(**request))

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def _options(self, request: Any, context: Any) -> Any:
        del request, context
        return wire.DevicePluginOptions(
            get_preferred_allocation_available=self.prefers, pre_start_required=self.pre_start
        )

    async def _watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        del request, context
        self.streams += 1
        self.asked.tell()
        while True:
            changed = self._event
            yield wire.ListAndWatchResponse(
                devices=[
                    wire.Device(
                        ID=name,
                        health="Healthy" if healthy else "Unhealthy",
                        topology=wire.TopologyInfo(nodes=[wire.NUMANode(ID=self.numa[name])])
                        if name in self.numa
                        else None,
                    )
                    for name, healthy in self.devices.items()
                ]
            )
            await changed.wait()

    async def _prefer(self, request: Any, context: Any) -> Any:
        del context
        asked = request.container_requests[0]
        self.preferences.append(
            (list(asked.available_deviceIDs), list(asked.must_include_deviceIDs), asked.allocation_size)
        )
        best = sorted(asked.available_deviceIDs, reverse=True)[: asked.allocation_size]
        answer = wire.ContainerPreferredAllocationResponse(deviceIDs=best)
        return wire.PreferredAllocationResponse(container_responses=[answer])

    async def _allocate(self, request: Any, context: Any) -> Any:
        ids = list(request.container_requests[0].devices_ids)
        if self.refusal:
            await context.abort(grpc.StatusCode.UNKNOWN, self.refusal)
        self.allocations.append(ids)
        self.asked.tell()
        answer = wire.ContainerAllocateResponse(
            envs={"NVIDIA_VISIBLE_DEVICES": ",".join(i.split("::")[0] for i in ids)}
        )
        if self.cdi:
            answer = wire.ContainerAllocateResponse(
                cdi_devices=[wire.CDIDevice(name=f"{self.cdi}={device}") for device in ids]
            )
        return wire.AllocateResponse(container_responses=[answer])

    async def _pre_start(self, request: Any, context: Any) -> Any:
        if self.start_refusal:
            await context.abort(grpc.StatusCode.UNKNOWN, self.start_refusal)
        self.started.append(list(request.devices_ids))
        return wire.PreStartContainerResponse()
