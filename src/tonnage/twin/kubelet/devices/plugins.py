"""devicemanager's endpointImpl, one device plugin: the connection back to its socket, and its calls.

Source: Kubernetes 1.36, pkg/kubelet/cm/devicemanager/plugin/v1beta1 and endpoint.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from tonnage.decide.kubernetes.kubelet.devices import Ids
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as wire
from tonnage.wire.kubelet import methods
from tonnage.wire.kubelet.methods import Method

Req = TypeVar("Req", bound=Message)
Res = TypeVar("Res", bound=Message)

_LOG: Final = logging.getLogger(__name__)
_DIAL_S: Final = 10.0
CHANNEL_OPTIONS: Final = (
    ("grpc.default_authority", "localhost"),  # what kubelet sends to device plugins
    ("grpc.use_local_subchannel_pool", 1),  # a restarted plugin must not inherit the dead one's back-off
    ("grpc.max_receive_message_length", 16 << 20),
    ("grpc.enable_retries", 0),
)
_CODE_NAMES: Final = {"OK": "OK", "CANCELLED": "Canceled"}


class PluginError(Exception):
    """A call to a plugin failed; the text is what the kubelet would put into the pod's status."""


class PluginEndpoint:
    """A registered endpoint of one resource. Made by `connect`; `stop` ends it for good."""

    def __init__(self, resource: str, channel: grpc.aio.Channel, options: wire.DevicePluginOptions) -> None:
        self.resource = resource
        self._channel = channel
        self._options = options
        self._stream: asyncio.Task[None] | None = None
        self.stopped = False

    @classmethod
    async def connect(cls, resource: str, socket: Path) -> PluginEndpoint:
        """Dial the plugin's socket and ask its options. Raises PluginError after ten seconds in vain."""
        channel = grpc.aio.insecure_channel(f"unix:{socket}", options=CHANNEL_OPTIONS)
        try:
            async with asyncio.timeout(_DIAL_S):
                await channel.channel_ready()
            options = await ask_plugin(channel, methods.GET_OPTIONS, wire.Empty())
        except (PluginError, TimeoutError) as error:
            await channel.close(None)
            raise PluginError(f"failed to dial device plugin {resource} at {socket}: {error}") from error
        return cls(resource, channel, options)

    @property
    def prefers(self) -> bool:
        """Whether the plugin wants to be asked which devices it would rather give."""
        return self._options.get_preferred_allocation_available

    @property
    def wants_pre_start(self) -> bool:
        return self._options.pre_start_required

    def watch(
        self, on_list: Callable[[list[wire.Device]], Awaitable[None]], on_loss: Callable[[], None]
    ) -> None:
        """Follow ListAndWatch: `on_list` for every list, `on_loss` once if it breaks before `stop`."""
        self._stream = asyncio.create_task(
            self._follow(on_list, on_loss), name=f"list-and-watch {self.resource}"
        )

    async def preferred(self, available: Ids, must: Ids, size: int) -> Ids:
        """The plugin's preference, possibly useless."""
        request = wire.PreferredAllocationRequest(
            container_requests=[
                wire.ContainerPreferredAllocationRequest(
                    available_deviceIDs=sorted(available),
                    must_include_deviceIDs=sorted(must),
                    allocation_size=size,
                )
            ]
        )
        answer = await self._ask(methods.GET_PREFERRED, request)
        return (
            frozenset(answer.container_responses[0].deviceIDs) if answer.container_responses else frozenset()
        )

    async def allocate(self, ids: Iterable[str]) -> wire.ContainerAllocateResponse:
        """What to inject for these devices. Raises PluginError with the plugin's own words."""
        request = wire.AllocateRequest(
            container_requests=[wire.ContainerAllocateRequest(devices_ids=sorted(ids))]
        )
        answer = await self._ask(methods.ALLOCATE, request)
        if not answer.container_responses:
            raise PluginError(f"no containers return in allocation response {answer}")
        return answer.container_responses[0]

    async def pre_start(self, ids: Iterable[str]) -> None:
        """Tell the plugin that a container is about to start with these devices."""
        await self._ask(methods.PRE_START, wire.PreStartContainerRequest(devices_ids=sorted(ids)))

    async def stop(self) -> None:
        """Close the connection; nothing is reported any more."""
        self.stopped = True
        if self._stream is not None and self._stream is not asyncio.current_task():
            self._stream.cancel()
            await asyncio.gather(self._stream, return_exceptions=True)
        await self._channel.close(None)

    async def _ask(self, method: Method[Req, Res], request: Req) -> Res:
        if self.stopped:
            raise PluginError(f"endpoint {self.resource} has been stopped")
        return await ask_plugin(self._channel, method, request)

    async def _follow(
        self, on_list: Callable[[list[wire.Device]], Awaitable[None]], on_loss: Callable[[], None]
    ) -> None:
        method = methods.LIST_AND_WATCH
        stub = self._channel.unary_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        try:
            async for answer in stub(wire.Empty()):
                await on_list(list(answer.devices))
            _LOG.info("device plugin ended its stream: resource=%s", self.resource)
        except grpc.aio.AioRpcError as error:
            _LOG.info("device plugin lost: resource=%s error=%s", self.resource, rpc_text(error))
        if not self.stopped:
            self.stopped = True
            on_loss()
            await self._channel.close(None)


def rpc_text(error: grpc.aio.AioRpcError) -> str:
    """The error as Go's gRPC prints it, because that is what stands in a pod's status."""
    name = error.code().name
    title = _CODE_NAMES.get(name) or "".join(part.title() for part in name.split("_"))
    return f"rpc error: code = {title} desc = {error.details() or ''}"


async def ask_plugin(channel: grpc.aio.Channel, method: Method[Req, Res], request: Req) -> Res:
    """The answer to one message. Raises PluginError."""
    stub = channel.unary_unary(
        method.path,
        request_serializer=method.request.SerializeToString,
        response_deserializer=method.response.FromString,
    )
    try:
        answer: Res = await stub(request)
    except grpc.aio.AioRpcError as error:
        raise PluginError(rpc_text(error)) from error
    return answer
