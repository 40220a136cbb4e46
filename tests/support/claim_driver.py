"""A driver for claims with a mind of its own, that remembers what it was asked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from tonnage.wire.kubelet import claim_methods as methods
from tonnage.wire.kubelet import dra_v1_pb2 as wire
from tonnage.wire.kubelet import drahealth_v1_pb2 as health
from tonnage.wire.kubelet import pluginregistration_pb2 as registration

_PATIENCE_S: Final = 30.0


class FakeDriver:
    """Serves both its sockets; `errors` are what it answers by the names of claims."""

    def __init__(self, kubelet: Path, name: str = "d.example.com", versions: Any = (methods.V1,)) -> None:
        self.name = name
        self.versions = versions
        self.file = kubelet / "plugins_registry" / f"{name}-reg.sock"
        self.endpoint = kubelet / "plugins" / name / "dra.sock"
        self.told: list[str | None] = []
        """What kubelet said of the registration: None for yes."""
        self.prepared: list[str] = []
        self.unprepared: list[str] = []
        self.errors: dict[str, str] = {}
        self.skips = False
        self.health: asyncio.Queue[Any] = asyncio.Queue()
        """What is said next of device g0: a number of the protocol."""
        self.type = methods.PLUGIN_TYPE
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        server = grpc.aio.server()
        table: list[tuple[Any, Any]] = [
            (methods.GET_INFO, self._info),
            (methods.NOTIFY, self._notify),
            *((methods.prepare_method(version), self._prepare) for version in methods.SERVICES),
            *((methods.unprepare_method(version), self._unprepare) for version in methods.SERVICES),
        ]
        for method, answer in table:
            _, service, name = method.path.split("/")
            handler = grpc.unary_unary_rpc_method_handler(
                answer, method.request.FromString, method.response.SerializeToString
            )
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {name: handler}),))
        for version in methods.HEALTH_SERVICES:
            method = methods.health_method(version)
            _, service, name = method.path.split("/")
            stream = grpc.unary_stream_rpc_method_handler(
                self._watch, method.request.FromString, method.response.SerializeToString
            )
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {name: stream}),))
        for file in (self.endpoint, self.file):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.unlink(missing_ok=True)
            server.add_insecure_port(f"unix:{file}")
        await server.start()
        self._server = server

    async def stop(self) -> None:
        if self._server is not None:
            async with asyncio.timeout(_PATIENCE_S):
                await self._server.stop(None)
            self._server = None
        self.file.unlink(missing_ok=True)

    async def _info(self, _request: Any, _context: Any) -> registration.PluginInfo:
        return registration.PluginInfo(
            type=self.type,
            name=self.name,
            endpoint=f"/var/lib/kubelet/plugins/{self.name}/dra.sock",
            supported_versions=self.versions,
        )

    async def _notify(self, request: registration.RegistrationStatus, _context: Any) -> Any:
        self.told.append(None if request.plugin_registered else request.error)
        return registration.RegistrationStatusResponse()

    async def _watch(self, _request: Any, _context: Any) -> Any:
        while True:
            device = health.DeviceIdentifier(pool_name="p", device_name="g0")
            row = health.DeviceHealth(device=device, health=await self.health.get())
            yield health.NodeWatchResourcesResponse(devices=[row])

    async def _prepare(self, request: wire.NodePrepareResourcesRequest, _context: Any) -> Any:
        self.prepared += [claim.name for claim in request.claims]
        answers = {claim.uid: self._answer(claim) for claim in request.claims if not self.skips}
        return wire.NodePrepareResourcesResponse(claims=answers)

    def _answer(self, claim: wire.Claim) -> wire.NodePrepareResourceResponse:
        if error := self.errors.get(claim.name):
            return wire.NodePrepareResourceResponse(error=error)
        cdi = [f"{self.name}/claim={claim.uid}-g0"]
        device = wire.Device(request_names=["r"], pool_name="p", device_name="g0", cdi_device_ids=cdi)
        return wire.NodePrepareResourceResponse(devices=[device])

    async def _unprepare(self, request: wire.NodeUnprepareResourcesRequest, _context: Any) -> Any:
        self.unprepared += [claim.name for claim in request.claims]
        answers = {
            claim.uid: wire.NodeUnprepareResourceResponse(error=self.errors.get(claim.name, ""))
            for claim in request.claims
        }
        return wire.NodeUnprepareResourcesResponse(claims=answers)
