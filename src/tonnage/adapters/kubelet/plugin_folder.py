"""kubelet's plugin folder: our servers in it, and registration at kubelet's socket."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

import grpc
import grpc.aio

from tonnage.adapters.kubelet.folder_watch import FolderWatch
from tonnage.adapters.kubelet.plugin_server import PluginServer
from tonnage.model.devices.sharing import Advertisement
from tonnage.model.errors import ClusterError, Problem
from tonnage.model.names import ResourceName
from tonnage.ports.node import PluginService
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as wire
from tonnage.wire.kubelet import methods

_REGISTER_S: Final = 10.0
_NOBODY: Final = "nobody"

CHANNEL_OPTIONS: Final = (
    ("grpc.default_authority", "localhost"),
    # A pool shared by all channels would make a new kubelet wait out the back-off of the old one's socket.
    ("grpc.use_local_subchannel_pool", 1),
)


def socket_name(resource: ResourceName) -> str:
    """The name of a resource's socket, which kubelet is told as the endpoint.

    >>> socket_name(ResourceName("nvidia.com/gpu.shared"))
    'nvidia-gpu.shared.sock'
    """
    vendor, _, name = resource.partition("/")
    prefix = "nvidia" if vendor == "nvidia.com" else vendor
    return f"{prefix}-{name}.sock"


def socket_identity(file: Path) -> str:
    """Tells one socket file from its successor at the same path; empty when there is no socket."""
    try:
        status = file.stat()
    except OSError:
        return ""
    return f"{status.st_dev}:{status.st_ino}:{status.st_ctime_ns}" if stat.S_ISSOCK(status.st_mode) else ""


def file_stamp(file: Path) -> str:
    """Changes whenever the file's content does, as far as a kubelet replaces its files; empty if none."""
    try:
        status = file.stat()
    except OSError:
        return ""
    return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"


class PluginFolder:
    """PluginSockets over the real folder, `/var/lib/kubelet/device-plugins` below some root.

    `kubelet` is its registration socket. None: whoever wants the plugins finds their sockets by himself.
    """

    def __init__(self, folder: Path, kubelet: Path | None) -> None:
        self._folder = folder
        self._kubelet = kubelet
        self._servers: dict[ResourceName, PluginServer] = {}
        self._watch = FolderWatch()

    def kubelet(self) -> str:
        return socket_identity(self._kubelet) if self._kubelet else _NOBODY

    def present(self, resource: ResourceName) -> bool:
        server = self._servers.get(resource)
        return server is not None and server.present()

    def watch(self, on_change: Callable[[], None]) -> bool:
        folders = {self._folder} if self._kubelet is None else {self._folder, self._kubelet.parent}
        return all(self._watch.over(folder, on_change) for folder in folders)

    def streams(self) -> dict[ResourceName, int]:
        """How many ListAndWatch streams are open, by resource."""
        return {name: server.streams for name, server in self._servers.items()}

    async def serve(self, advertisement: Advertisement, service: PluginService) -> None:
        name = advertisement.resource
        if old := self._servers.pop(name, None):
            await old.stop()
        server = PluginServer(self._folder / socket_name(name), advertisement, service)
        await server.start()
        self._servers[name] = server

    async def publish(self, advertisement: Advertisement) -> None:
        if server := self._servers.get(advertisement.resource):
            server.publish(advertisement)

    async def register(self, resource: ResourceName) -> None:
        if self._kubelet is None:
            return
        request = wire.RegisterRequest(
            version=methods.PLUGIN_VERSION,
            endpoint=socket_name(resource),
            resource_name=resource,
            options=wire.DevicePluginOptions(get_preferred_allocation_available=True),
        )
        method = methods.REGISTER
        async with grpc.aio.insecure_channel(f"unix:{self._kubelet}", options=CHANNEL_OPTIONS) as channel:
            call = channel.unary_unary(
                method.path,
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.response.FromString,
            )
            try:
                await call(request, timeout=_REGISTER_S)
            except grpc.aio.AioRpcError as error:
                raise kubelet_error(f"kubelet did not register {resource}", self._kubelet, error) from None

    async def withdraw(self, resource: ResourceName) -> None:
        if server := self._servers.pop(resource, None):
            server.publish(Advertisement(resource))
            await server.stop(last_words=True)

    async def close(self) -> None:
        self._watch.close()
        while self._servers:
            _, server = self._servers.popitem()
            await server.stop()


def kubelet_error(problem: str, file: Path, error: grpc.aio.AioRpcError) -> ClusterError:
    """kubelet's refusal or absence in words."""
    details = (error.details() or "").strip()[:500]
    return ClusterError(Problem(problem, str(file), f"{error.code().name}: {details}"))
