"""Unix sockets of our gRPC servers for kubelet: opened so that errors are known, read without tracebacks."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, NoReturn

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from tonnage.adapters.checkpoints import file_problem
from tonnage.model.errors import HardwareError, Problem
from tonnage.wire.kubelet import methods

_LONGEST_PATH: Final = 107
_LOOK_S: Final = 1.0

Context = grpc.aio.ServicerContext[Any, Any]


def reading(
    method: methods.Method[Any, Any], answer: Callable[[Any, Context], Awaitable[Any]]
) -> Callable[[bytes, Context], Awaitable[Any]]:
    """The handler for messages as they come: the library would log a traceback for each that is none."""

    async def handle(message: bytes, context: Context) -> Any:
        try:
            request = method.request.FromString(message)
        except DecodeError:
            await refuse(context, f"no {method.request.DESCRIPTOR.name}: the bytes are no such message")
        return await answer(request, context)

    return handle


async def refuse(context: Context, message: str) -> NoReturn:
    """End the call as plugins do: kubelet puts the text behind `rpc error: code = Unknown desc =`."""
    await context.abort(grpc.StatusCode.UNKNOWN, message)
    raise AssertionError  # abort does not return


def file_identity(file: Path) -> tuple[int, int] | None:
    """Tells a file from its successor at the same path; None when there is none."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def fits(file: Path) -> bool:
    """Whether a socket may have that path."""
    return len(os.fsencode(file)) <= _LONGEST_PATH


def is_deserted(file: Path) -> bool:
    """Whether nobody listens at a socket's file any more."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
            trial.settimeout(_LOOK_S)
            trial.connect(str(file))
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def probe_socket(file: Path, bound: Path) -> None:
    """Bind and let go once, because the library does not say why it could not. Raises HardwareError."""
    if not fits(bound):
        raise HardwareError(
            Problem(
                "the path of the plugin's socket is too long",
                str(file),
                f"a Unix socket's path has at most {_LONGEST_PATH} bytes",
                "use a shorter --root",
            )
        )
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        bound.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
            trial.bind(str(bound))
        bound.unlink(missing_ok=True)
    except OSError as error:
        raise HardwareError(file_problem("cannot be opened as a socket", file, error)) from None
