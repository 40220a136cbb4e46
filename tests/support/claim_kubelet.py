"""kubelet's side of a driver for claims: finds its socket, registers it, and asks it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from tonnage.model.devices.claims import DRIVER, ClaimRef
from tonnage.wire.kubelet import claim_methods as methods
from tonnage.wire.kubelet import dra_v1_pb2 as wire
from tonnage.wire.kubelet import drahealth_v1_pb2 as health
from tonnage.wire.kubelet import pluginregistration_pb2 as registration

PATIENCE_S = 30.0
_LOOK_S = 0.01
_OPTIONS = (("grpc.use_local_subchannel_pool", 1),)


class ClaimKubelet:
    """A kubelet of the node whose files lie below `root`; `pod` is the uid of the agent's that it asks."""

    def __init__(self, root: Path, pod: str = "") -> None:
        self.root = root
        self._infix = f"-{pod}" if pod else ""
        self.registry = root / "var/lib/kubelet/plugins_registry"
        self.registry.mkdir(parents=True, exist_ok=True)

    @property
    def socket(self) -> Path:
        """Where our driver registers."""
        return self.registry / f"{DRIVER}-tonnage{self._infix}-reg.sock"

    async def until_there(self) -> None:
        await eventually(self.socket.exists)

    async def until_gone(self) -> None:
        await eventually(lambda: not self.socket.exists())

    async def register(self, *, refused: str = "") -> registration.PluginInfo:
        """Ask the socket who it is, and say that it is registered, or why not."""
        await self.until_there()
        info: registration.PluginInfo = await _call(self.socket, methods.GET_INFO, registration.InfoRequest())
        status = registration.RegistrationStatus(plugin_registered=not refused, error=refused)
        await _call(self.socket, methods.NOTIFY, status)
        return info

    async def prepare(self, *claims: ClaimRef, version: str = methods.V1) -> Any:
        """The answers by uid."""
        request = wire.NodePrepareResourcesRequest(claims=_claims(claims))
        return (await _call(self.endpoint, methods.prepare_method(version), request)).claims

    async def unprepare(self, *claims: ClaimRef, version: str = methods.V1) -> dict[str, str]:
        """The errors by uid."""
        request = wire.NodeUnprepareResourcesRequest(claims=_claims(claims))
        answer = await _call(self.endpoint, methods.unprepare_method(version), request)
        return {uid: each.error for uid, each in answer.claims.items()}

    @asynccontextmanager
    async def health(self, version: str) -> AsyncIterator[AsyncIterator[dict[str, str]]]:
        """Reports by `pool/device`, as they come."""
        method = methods.health_method(version)
        async with grpc.aio.insecure_channel(f"unix:{self.endpoint}", options=_OPTIONS) as channel:
            stub = channel.unary_stream(
                method.path,
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.response.FromString,
            )
            call = stub(method.request(), timeout=PATIENCE_S)

            async def reports() -> AsyncIterator[dict[str, str]]:
                async for answer in call:
                    yield {
                        f"{each.device.pool_name}/{each.device.device_name}": (
                            f"{health.HealthStatus.Name(each.health)} {each.message}".strip()
                        )
                        for each in answer.devices
                    }

            yield reports()
            call.cancel()

    @property
    def endpoint(self) -> Path:
        return self.root / "var/lib/kubelet/plugins" / DRIVER / f"tonnage{self._infix}.sock"

    @asynccontextmanager
    async def other_driver(self, name: str = DRIVER) -> AsyncIterator[Path]:
        """Another driver that has a registration socket."""

        async def info(_request: Any, _context: Any) -> registration.PluginInfo:
            return registration.PluginInfo(type=methods.PLUGIN_TYPE, name=name)

        handler = grpc.unary_unary_rpc_method_handler(
            info, methods.GET_INFO.request.FromString, methods.GET_INFO.response.SerializeToString
        )
        server = grpc.aio.server()
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(methods.REGISTRATION, {"GetInfo": handler}),)
        )
        file = self.registry / f"{DRIVER}-reg.sock"
        server.add_insecure_port(f"unix:{file}")
        await server.start()
        try:
            yield file
        finally:
            await server.stop(None)
            file.unlink(missing_ok=True)


async def eventually(condition: Callable[[], Any]) -> Any:
    """What the condition gives, or what awaiting that gives, once it is true."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            outcome = condition()
            if isinstance(outcome, Awaitable):
                outcome = await outcome
            if outcome:
                return outcome
            await asyncio.sleep(_LOOK_S)


def _claims(claims: Sequence[ClaimRef]) -> list[wire.Claim]:
    return [wire.Claim(namespace=claim.namespace, name=claim.name, uid=claim.uid) for claim in claims]


async def _call(socket: Path, method: Any, request: Any) -> Any:
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=_OPTIONS) as channel:
        stub = channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        return await stub(request, timeout=PATIENCE_S)
