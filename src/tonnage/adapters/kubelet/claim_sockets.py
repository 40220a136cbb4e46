"""The sockets of a driver for ResourceClaims (DRA): one that kubelet finds, and one on which it asks."""

from __future__ import annotations

import asyncio
import logging
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from tonnage.adapters.kubelet.folder_watch import FolderWatch
from tonnage.adapters.kubelet.plugin_folder import CHANNEL_OPTIONS
from tonnage.adapters.kubelet.unix_socket import Context, file_identity, probe_socket, reading
from tonnage.model.devices.claims import DRIVER, ClaimRef, HealthReport
from tonnage.model.errors import HardwareError, Problem, words_of
from tonnage.ports.claims import ClaimAnswer, ClaimService, HealthStream
from tonnage.wire.kubelet import claim_methods as methods
from tonnage.wire.kubelet import dra_v1_pb2 as wire
from tonnage.wire.kubelet import drahealth_v1_pb2 as health_wire
from tonnage.wire.kubelet import pluginregistration_pb2 as registration
from tonnage.wire.kubelet.methods import Method

_LOG: Final = logging.getLogger(__name__)
_ASK_S: Final = 1.0
_MOST_SOCKETS: Final = 64
_OWN: Final = f"{DRIVER}-tonnage-reg.sock"
"""Not the name that NVIDIA's driver takes: ours never replaces another driver's socket."""
_ENDPOINT: Final = f"{DRIVER}/tonnage.sock"
_VERSIONS: Final = (methods.V1, methods.V1BETA1, *methods.HEALTH_SERVICES)
_HEALTH_TIMEOUT_S: Final = 60
"""After so long without a report kubelet does not know a device's health any more."""


class ClaimFolder:
    """ClaimSockets below kubelet's folder, `folder` on the host and `root / folder` here."""

    def __init__(self, root: Path, folder: str) -> None:
        here = root / folder.lstrip("/")
        self._registry = here / "plugins_registry"
        self._registering = self._registry / _OWN
        self._endpoint = here / "plugins" / _ENDPOINT
        self._told_endpoint = f"{folder.rstrip('/')}/plugins/{_ENDPOINT}"
        self._watch = FolderWatch()
        self._server: grpc.aio.Server | None = None
        self._identities: dict[Path, tuple[int, int] | None] = {}
        self._status: str | None = None
        self._on_change: Callable[[], None] = lambda: None

    async def other(self) -> str:
        for file in await asyncio.to_thread(lambda: list(islice(self._others(), _MOST_SOCKETS))):
            if await _name_at(file) == DRIVER:
                return str(file)
        return ""

    def registered(self) -> str | None:
        return self._status

    def present(self) -> bool:
        return bool(self._identities) and all(
            identity is not None and file_identity(file) == identity
            for file, identity in self._identities.items()
        )

    def watch(self, on_change: Callable[[], None]) -> bool:
        self._on_change = on_change
        return self._watch.over(self._registry, on_change)

    async def serve(self, service: ClaimService, health: HealthStream) -> None:
        await self._stop()
        server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
        server.add_generic_rpc_handlers((self._registration(), *_plugins(service), *_health(health)))
        try:
            pairs = [(file, file.with_name(f".{file.name}")) for file in (self._endpoint, self._registering)]
            for file, bound in pairs:
                probe_socket(file, bound)
                server.add_insecure_port(f"unix:{bound}")
            await server.start()
            for file, bound in pairs:  # the one that kubelet finds last
                bound.replace(file)
                self._identities[file] = file_identity(file)
        except (OSError, RuntimeError) as error:
            await server.stop(None)
            where = str(self._registering)
            raise HardwareError(
                Problem("the driver's sockets cannot be opened", where, words_of(error))
            ) from None
        except BaseException:
            await server.stop(None)
            raise
        self._server = server

    async def close(self) -> None:
        await self._stop()
        self._watch.close()

    async def _stop(self) -> None:
        for file, identity in reversed(self._identities.items()):
            if identity is not None and file_identity(file) == identity:
                file.unlink(missing_ok=True)
        self._identities, self._status = {}, None
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    def _others(self) -> Iterator[Path]:
        """Sockets of that driver's name which are not ours."""
        try:
            files = sorted(self._registry.iterdir())
        except OSError:
            return
        for file in files:
            if not file.name.startswith(DRIVER) or file.name == _OWN or file.suffix != ".sock":
                continue
            try:
                if stat.S_ISSOCK(file.stat().st_mode):
                    yield file
            except OSError:
                continue

    def _registration(self) -> grpc.GenericRpcHandler:
        async def plugin_info(
            _request: registration.InfoRequest, _context: Context
        ) -> registration.PluginInfo:
            return registration.PluginInfo(
                type=methods.PLUGIN_TYPE,
                name=DRIVER,
                endpoint=self._told_endpoint,
                supported_versions=_VERSIONS,
            )

        async def notify(
            request: registration.RegistrationStatus, _context: Context
        ) -> registration.RegistrationStatusResponse:
            refused = request.error[:500] or "kubelet gives no reason"
            self._status = "" if request.plugin_registered else refused
            self._on_change()
            return registration.RegistrationStatusResponse()

        handlers = {
            "GetInfo": _unary(methods.GET_INFO, plugin_info),
            "NotifyRegistrationStatus": _unary(methods.NOTIFY, notify),
        }
        return grpc.method_handlers_generic_handler(methods.REGISTRATION, handlers)


def _plugins(service: ClaimService) -> Iterator[grpc.GenericRpcHandler]:
    """The service in both versions."""

    async def prepare(
        request: wire.NodePrepareResourcesRequest, _context: Context
    ) -> wire.NodePrepareResourcesResponse:
        answers = await service.prepare([_ref(claim) for claim in request.claims])
        return wire.NodePrepareResourcesResponse(
            claims={uid: _prepared(answer) for uid, answer in answers.items()}
        )

    async def unprepare(
        request: wire.NodeUnprepareResourcesRequest, _context: Context
    ) -> wire.NodeUnprepareResourcesResponse:
        errors = await service.unprepare([_ref(claim) for claim in request.claims])
        answers = {uid: wire.NodeUnprepareResourceResponse(error=error) for uid, error in errors.items()}
        return wire.NodeUnprepareResourcesResponse(claims=answers)

    for version, name in methods.SERVICES.items():
        handlers = {
            "NodePrepareResources": _unary(methods.prepare_method(version), prepare),
            "NodeUnprepareResources": _unary(methods.unprepare_method(version), unprepare),
        }
        yield grpc.method_handlers_generic_handler(name, handlers)


def _health(reports: HealthStream) -> Iterator[grpc.GenericRpcHandler]:
    """The stream of reports in both versions."""

    async def watch(
        _request: bytes, _context: Context
    ) -> AsyncIterator[health_wire.NodeWatchResourcesResponse]:
        async for devices in reports():
            yield health_wire.NodeWatchResourcesResponse(devices=map(_health_of, devices))

    for version, name in methods.HEALTH_SERVICES.items():
        method = methods.health_method(version)
        handler: grpc.RpcMethodHandler[Any, Any] = grpc.unary_stream_rpc_method_handler(
            watch, None, method.response.SerializeToString
        )
        yield grpc.method_handlers_generic_handler(name, {"NodeWatchResources": handler})


def _health_of(report: HealthReport) -> health_wire.DeviceHealth:
    return health_wire.DeviceHealth(
        device=health_wire.DeviceIdentifier(pool_name=report.pool, device_name=report.device),
        health=health_wire.HEALTHY if report.healthy else health_wire.UNHEALTHY,
        last_updated_time=int(time.time()),
        health_check_timeout_seconds=_HEALTH_TIMEOUT_S,
        message=report.message,
    )


def _unary(method: Method[Any, Any], answer: Callable[..., Any]) -> grpc.RpcMethodHandler[Any, Any]:
    return grpc.unary_unary_rpc_method_handler(
        reading(method, answer), None, method.response.SerializeToString
    )


def _ref(claim: wire.Claim) -> ClaimRef:
    return ClaimRef(claim.namespace, claim.name, claim.uid)


def _prepared(answer: ClaimAnswer) -> wire.NodePrepareResourceResponse:
    if isinstance(answer, str):
        return wire.NodePrepareResourceResponse(error=answer)
    prepared, names = answer
    return wire.NodePrepareResourceResponse(
        devices=[
            wire.Device(
                request_names=[device.request],
                pool_name=device.pool,
                device_name=device.device,
                cdi_device_ids=[name],
            )
            for device, name in zip(prepared.devices, names, strict=True)
        ]
    )


async def _name_at(file: Path) -> str:
    """The name of the driver that answers at a registration socket; empty where nobody does."""
    method = methods.GET_INFO
    async with grpc.aio.insecure_channel(f"unix:{file}", options=CHANNEL_OPTIONS) as channel:
        call = channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        try:
            answer = await call(registration.InfoRequest(), timeout=_ASK_S)
        except grpc.aio.AioRpcError:
            return ""
    return str(answer.name)
