"""gRPC servers on Unix sockets, out of the protocols' table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from tonnage.wire.kubelet.methods import Method

Req = TypeVar("Req", bound=Message)
Res = TypeVar("Res", bound=Message)


def unary_handler(
    method: Method[Req, Res],
    answer: Callable[[Req, grpc.aio.ServicerContext[Req, Res]], Awaitable[Res]],
) -> grpc.RpcMethodHandler[Req, Res]:
    """A handler that answers one message with one."""
    return grpc.unary_unary_rpc_method_handler(
        answer,
        request_deserializer=method.request.FromString,
        response_serializer=method.response.SerializeToString,
    )


async def serve_unix(
    socket: Path, services: Mapping[str, Mapping[str, grpc.RpcMethodHandler[Any, Any]]]
) -> grpc.aio.Server:
    """A started server of services by name, on a fresh socket.

    Raises OSError when the folder or the socket cannot be made.
    """
    _clear(socket)
    server = grpc.aio.server(options=(("grpc.max_receive_message_length", 16 << 20),))
    server.add_generic_rpc_handlers(
        tuple(grpc.method_handlers_generic_handler(name, dict(table)) for name, table in services.items())
    )
    try:
        server.add_insecure_port(f"unix:{socket}")
    except RuntimeError as error:
        raise OSError(f"cannot listen on {socket}: {error}") from error
    await server.start()
    return server


def _clear(socket: Path) -> None:
    socket.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    socket.unlink(missing_ok=True)
