"""The kubelet's side of plugin registration: `v1beta1.Registration` on `kubelet.sock`."""

from __future__ import annotations

import logging
import re
from typing import Final, Protocol

import grpc
import grpc.aio

from tonnage.twin.kubelet.devices.plugins import PluginEndpoint, PluginError
from tonnage.twin.kubelet.devices.unix_grpc import serve_unix, unary_handler
from tonnage.twin.kubelet.node_spec import NodePaths
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as wire
from tonnage.wire.kubelet import methods

_LOG: Final = logging.getLogger(__name__)
_EXTENDED: Final = re.compile(
    r"(?P<domain>[a-z0-9]([-a-z0-9.]*[a-z0-9])?)/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_LONGEST_NAME: Final = 253


class PluginHost(Protocol):
    """Who wants to know about plugins: the device manager."""

    async def plugin_connected(self, plugin: PluginEndpoint) -> None: ...

    async def devices_listed(self, plugin: PluginEndpoint, devices: list[wire.Device]) -> None: ...

    def plugin_lost(self, plugin: PluginEndpoint) -> None: ...


class Registration:
    """Serves the registration socket and dials every plugin that registers."""

    def __init__(self, paths: NodePaths, host: PluginHost) -> None:
        self._paths = paths
        self._host = host
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Clear the plugin folder as a starting kubelet does, then listen. Raises OSError.

        Every file but the checkpoint goes, so plugins that stand must notice and register again.
        """
        _clear(self._paths)
        self._server = await serve_unix(
            self._paths.registration_socket,
            {"v1beta1.Registration": {"Register": unary_handler(methods.REGISTER, self._register)}},
        )

    async def stop(self) -> None:
        """Close the socket."""
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def _register(
        self,
        request: wire.RegisterRequest,
        context: grpc.aio.ServicerContext[wire.RegisterRequest, wire.Empty],
    ) -> wire.Empty:
        problem = _refusal(request)
        if problem:
            await context.abort(grpc.StatusCode.UNKNOWN, problem)
        try:
            plugin = await PluginEndpoint.connect(
                request.resource_name, self._paths.device_plugins / request.endpoint
            )
        except PluginError as error:
            _LOG.warning("device plugin not reached: resource=%s error=%s", request.resource_name, error)
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        _LOG.info("device plugin registered: resource=%s", request.resource_name)
        await self._host.plugin_connected(plugin)
        plugin.watch(
            lambda devices: self._host.devices_listed(plugin, devices), lambda: self._host.plugin_lost(plugin)
        )
        return wire.Empty()


def _clear(paths: NodePaths) -> None:
    paths.device_plugins.mkdir(parents=True, exist_ok=True, mode=0o755)
    for entry in paths.device_plugins.iterdir():
        if entry != paths.checkpoint and not entry.is_dir():
            entry.unlink(missing_ok=True)


def _refusal(request: wire.RegisterRequest) -> str:
    """Why a registration is refused, in the kubelet's words; empty when it is not."""
    if request.version != methods.PLUGIN_VERSION:
        return (
            f'requested API version "{request.version}" is not supported by kubelet. '
            f'Supported version is "{methods.PLUGIN_VERSION}"'
        )
    name = request.resource_name
    match = _EXTENDED.fullmatch(name) if len(name) <= _LONGEST_NAME else None
    if match is None or match["domain"].endswith("kubernetes.io") or name.startswith("requests."):
        return f'the ResourceName "{name}" is invalid'
    if not request.endpoint or "/" in request.endpoint or request.endpoint in {".", ".."}:
        return f'the Endpoint "{request.endpoint}" is not a name in the plugin folder'
    return ""
