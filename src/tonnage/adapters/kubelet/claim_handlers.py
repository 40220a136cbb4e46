"""The methods that a driver for ResourceClaims (DRA) serves, in every version that kubelet may speak."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final

import grpc
import grpc.aio

from tonnage.adapters.kubelet.claim_relay import ClaimRelay
from tonnage.adapters.kubelet.unix_socket import Context, reading
from tonnage.model.devices.claims import ClaimRef, HealthReport
from tonnage.ports.claims import ClaimAnswer, ClaimService, HealthStream
from tonnage.wire.kubelet import claim_methods as methods
from tonnage.wire.kubelet import dra_v1_pb2 as wire
from tonnage.wire.kubelet import drahealth_v1_pb2 as health_wire
from tonnage.wire.kubelet.methods import Method

_HEALTH_TIMEOUT_S: Final = 60
"""After so long without a report kubelet does not know a device's health any more."""

Served = Callable[[], tuple[ClaimService, HealthStream]]
"""What answers, once the relay says that this agent has the node."""


def claim_handlers(served: Served, relay: ClaimRelay) -> Iterator[grpc.GenericRpcHandler]:
    """All of them."""
    yield from _plugins(served, relay)
    yield from _health(served, relay)


def _plugins(served: Served, relay: ClaimRelay) -> Iterator[grpc.GenericRpcHandler]:
    async def prepare(
        request: wire.NodePrepareResourcesRequest, _context: Context
    ) -> wire.NodePrepareResourcesResponse:
        answers = await served()[0].prepare([_ref(claim) for claim in request.claims])
        return wire.NodePrepareResourcesResponse(
            claims={uid: _prepared(answer) for uid, answer in answers.items()}
        )

    async def unprepare(
        request: wire.NodeUnprepareResourcesRequest, _context: Context
    ) -> wire.NodeUnprepareResourcesResponse:
        errors = await served()[0].unprepare([_ref(claim) for claim in request.claims])
        answers = {uid: wire.NodeUnprepareResourceResponse(error=error) for uid, error in errors.items()}
        return wire.NodeUnprepareResourcesResponse(claims=answers)

    for version, name in methods.SERVICES.items():
        handlers = {
            "NodePrepareResources": _call(methods.prepare_method(version), prepare, relay),
            "NodeUnprepareResources": _call(methods.unprepare_method(version), unprepare, relay),
        }
        yield grpc.method_handlers_generic_handler(name, handlers)


def _call(
    method: Method[Any, Any], answer: Callable[[Any, Context], Awaitable[Any]], relay: ClaimRelay
) -> grpc.RpcMethodHandler[Any, Any]:
    own = reading(method, answer)

    async def handle(message: bytes, context: Context) -> bytes:
        passed_on = await relay.answer(method.path, message, context)
        if passed_on is not None:
            return passed_on
        response = await own(message, context)
        serialized: bytes = response.SerializeToString()
        return serialized

    return grpc.unary_unary_rpc_method_handler(handle)


def _health(served: Served, relay: ClaimRelay) -> Iterator[grpc.GenericRpcHandler]:
    for version, name in methods.HEALTH_SERVICES.items():
        path = methods.health_method(version).path

        async def watch(message: bytes, _context: Context, path: str = path) -> AsyncIterator[bytes]:
            async for passed_on in relay.stream(path, message):
                yield passed_on
            async for devices in served()[1]():
                response = health_wire.NodeWatchResourcesResponse(devices=map(_health_of, devices))
                yield response.SerializeToString()

        handler: grpc.RpcMethodHandler[Any, Any] = grpc.unary_stream_rpc_method_handler(watch)
        yield grpc.method_handlers_generic_handler(name, {"NodeWatchResources": handler})


def _health_of(report: HealthReport) -> health_wire.DeviceHealth:
    return health_wire.DeviceHealth(
        device=health_wire.DeviceIdentifier(pool_name=report.pool, device_name=report.device),
        health=health_wire.HEALTHY if report.healthy else health_wire.UNHEALTHY,
        last_updated_time=int(time.time()),
        health_check_timeout_seconds=_HEALTH_TIMEOUT_S,
        message=report.message,
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
                share_id=device.share or None,
            )
            for device, name in zip(prepared.devices, names, strict=True)
        ]
    )
