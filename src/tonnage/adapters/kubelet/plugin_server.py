"""One resource's device-plugin server on a Unix socket, for any number of listening kubelets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from tonnage.adapters.kubelet.unix_socket import Context, file_identity, probe_socket, reading, refuse
from tonnage.model.devices.sharing import Advertisement, Injection
from tonnage.model.errors import HardwareError, Problem, TonnageError, words_of
from tonnage.model.reasons.reason import Reason
from tonnage.ports.node import PluginService
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as wire
from tonnage.wire.kubelet import methods

_LOG: Final = logging.getLogger(__name__)
_LAST_WORDS_S: Final = 1.0


class PluginServer:
    """Serves `DevicePlugin`. The list is a state, not a queue: a slow listener skips to the latest."""

    def __init__(self, file: Path, advertisement: Advertisement, service: PluginService) -> None:
        self._file = file
        self._service = service
        self._list = _list_message(advertisement)
        self._version = 0
        self._changed = asyncio.Event()
        self._closing = False
        self._server: grpc.aio.Server | None = None
        self._identity: tuple[int, int] | None = None
        self.streams = 0
        """How many ListAndWatch streams are open."""

    async def start(self) -> None:
        """Listen. Raises HardwareError when the socket cannot be made."""
        # Bound under another name and renamed: the library removes the name it bound when a server ends,
        # which may be after a successor has taken the real one.
        bound = self._file.with_name(f".{self._file.name}")
        probe_socket(self._file, bound)
        server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
        server.add_generic_rpc_handlers((self._handlers(),))
        try:
            server.add_insecure_port(f"unix:{bound}")
            await server.start()
            bound.replace(self._file)
            self._identity = file_identity(self._file)
        except (OSError, RuntimeError) as error:
            await server.stop(None)
            raise HardwareError(
                Problem("the plugin's socket cannot be opened", str(self._file), words_of(error))
            ) from None
        self._server = server

    def publish(self, advertisement: Advertisement) -> None:
        """Show the list on every open stream, and first on every later one."""
        self._list = _list_message(advertisement)
        self._version += 1
        self._wake()

    def present(self) -> bool:
        """Whether the socket's file still is this server's."""
        return self._identity is not None and file_identity(self._file) == self._identity

    async def stop(self, *, last_words: bool = False) -> None:
        """Close, with `last_words` after every stream has shown the latest list; remove the file if ours."""
        self._closing = True
        self._wake()
        if self.present():
            self._file.unlink(missing_ok=True)
        if self._server is not None:
            await self._server.stop(_LAST_WORDS_S if last_words else None)
            self._server = None

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _handlers(self) -> grpc.GenericRpcHandler:
        unary: Mapping[methods.Method[Any, Any], Callable[..., Any]] = {
            methods.GET_OPTIONS: self._options,
            methods.GET_PREFERRED: self._preferred,
            methods.ALLOCATE: self._allocate,
            methods.PRE_START: self._pre_start,
        }
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            method.path.rpartition("/")[2]: grpc.unary_unary_rpc_method_handler(
                reading(method, answer), None, method.response.SerializeToString
            )
            for method, answer in unary.items()
        }
        watch = methods.LIST_AND_WATCH
        handlers["ListAndWatch"] = grpc.unary_stream_rpc_method_handler(
            self._list_and_watch, None, watch.response.SerializeToString
        )
        return grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", handlers)

    async def _options(self, _request: wire.Empty, _context: Context) -> wire.DevicePluginOptions:
        return wire.DevicePluginOptions(get_preferred_allocation_available=True)

    async def _list_and_watch(
        self, _request: bytes, _context: Context
    ) -> AsyncIterator[wire.ListAndWatchResponse]:
        shown = -1
        self.streams += 1
        try:
            while True:
                changed = self._changed
                if shown != self._version:
                    shown = self._version
                    yield self._list
                elif self._closing:
                    return
                else:
                    await changed.wait()
        finally:
            self.streams -= 1

    async def _preferred(
        self, request: wire.PreferredAllocationRequest, _context: Context
    ) -> wire.PreferredAllocationResponse:
        answers = [
            await self._service.prefer(
                tuple(container.available_deviceIDs),
                tuple(container.must_include_deviceIDs),
                container.allocation_size,
            )
            for container in request.container_requests
        ]
        return wire.PreferredAllocationResponse(
            container_responses=[
                wire.ContainerPreferredAllocationResponse(deviceIDs=answer) for answer in answers
            ]
        )

    async def _allocate(self, request: wire.AllocateRequest, context: Context) -> wire.AllocateResponse:
        try:
            answer = await self._service.allocate(
                [tuple(container.devices_ids) for container in request.container_requests]
            )
        except TonnageError as error:
            _LOG.warning("allocation failed: %s", error)
            await refuse(context, "; ".join(problem.what for problem in error.problems))
        if isinstance(answer, Reason):
            await refuse(context, answer.message)
        return wire.AllocateResponse(container_responses=[_response(injection) for injection in answer])

    async def _pre_start(
        self, _request: wire.PreStartContainerRequest, _context: Context
    ) -> wire.PreStartContainerResponse:
        return wire.PreStartContainerResponse()


def _list_message(advertisement: Advertisement) -> wire.ListAndWatchResponse:
    return wire.ListAndWatchResponse(
        devices=[
            wire.Device(
                ID=slot.id,
                health=methods.HEALTHY if slot.healthy else methods.UNHEALTHY,
                topology=None
                if slot.numa_node is None
                else wire.TopologyInfo(nodes=[wire.NUMANode(ID=slot.numa_node)]),
            )
            for slot in advertisement.slots
        ]
    )


def _response(injection: Injection) -> wire.ContainerAllocateResponse:
    response = wire.ContainerAllocateResponse(envs=injection.env, annotations=injection.annotations)
    for mount in injection.mounts:
        response.mounts.add(
            container_path=mount.container_path, host_path=mount.host_path, read_only=mount.read_only
        )
    for node in injection.nodes:
        response.devices.add(container_path=node.container_path, host_path=node.host_path, permissions="rw")
    for name in injection.cdi_devices:
        response.cdi_devices.add(name=name)
    return response
