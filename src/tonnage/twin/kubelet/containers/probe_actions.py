"""HandlerRunner: runs a probe's or hook's command in a container, or asks it over the network.

A pretended server answers whatever it is asked over the network, as the server would that it stands for. A
command that the twin really runs (`sleep`) listens nowhere. What a pretended server's image would know and
the twin does not (`pg_isready`) succeeds, too.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any, Final

from tonnage.model.whole_numbers import whole_number
from tonnage.twin.kubelet.containers.backoff import go_duration
from tonnage.twin.kubelet.containers.runtime_port import ExecError, RunningContainer
from tonnage.twin.kubelet.live_pod import LivePod
from tonnage.wire.objects import Container

_OUTPUT_LIMIT: Final = 10 << 10
_NOT_FOUND: Final = 127


class CheckError(Exception):
    """A check could not be made; the text is the kubelet's."""


class _Captured:
    """Streams without input whose output is kept, both kinds together."""

    def __init__(self) -> None:
        self.content = bytearray()

    async def read(self) -> bytes:
        return b""

    def write(self, content: bytes) -> None:
        self.content += content[: _OUTPUT_LIMIT - len(self.content)]

    def write_error(self, content: bytes) -> None:
        self.write(content)


async def command_failure(
    live: LivePod, container: RunningContainer, argv: Sequence[str], limit_s: float = 0
) -> str | None:
    """What a command printed that failed; None where it succeeded. No limit is 0. Raises CheckError."""
    streams = _Captured()
    runtime, clock = live.node.runtime, live.node.clock
    run = asyncio.ensure_future(runtime.execute(container, argv, streams, interactive=False))
    late = asyncio.ensure_future(clock.sleep(limit_s)) if limit_s else None
    try:
        await asyncio.wait({run, late} if late is not None else {run}, return_when=asyncio.FIRST_COMPLETED)
        if not run.done():
            return f'command timed out: "{" ".join(argv)}" timed out after {go_duration(limit_s)}'
        code = await run
    except ExecError as error:
        if container.serving.is_set():
            return None
        process = hashlib.sha256(container.id.encode()).hexdigest()
        why = f'failed to exec in container: failed to start exec "{process}": {error}'
        raise CheckError(f"rpc error: code = Unknown desc = {why}") from None
    finally:
        run.cancel()
        if late is not None:
            late.cancel()
    if code == 0 or (code == _NOT_FOUND and container.serving.is_set()):
        return None
    return bytes(streams.content).decode(errors="replace")


def network_failure(live: LivePod, container: RunningContainer, action: dict[str, Any]) -> str | None:
    """Why an HTTP, TCP or gRPC request fails; None where it succeeds. Raises CheckError."""
    match action:
        case {"httpGet": dict(get)}:
            address = _address(live, container.config.container, get)
            path = "/" + str(get.get("path") or "/").removeprefix("/")
            scheme = str(get.get("scheme") or "http").lower()
            refusal = f'Get "{scheme}://{address}{path}": dial tcp {address}: connect: connection refused'
        case {"tcpSocket": dict(socket)}:
            address = _address(live, container.config.container, socket)
            refusal = f"dial tcp {address}: connect: connection refused"
        case {"grpc": dict(grpc)}:
            address = _address(live, container.config.container, grpc)
            limit = go_duration(float(action.get("timeoutSeconds") or 1))
            refusal = (
                f'timeout: failed to connect service "{address}" within {limit}: context deadline exceeded'
            )
        case _:
            raise CheckError(f"missing probe handler for {live.name}:{container.name}")
    return None if container.serving.is_set() else refusal


def _address(live: LivePod, container: Container, action: dict[str, Any]) -> str:
    host = action.get("host") or live.progress.pod_ip
    return f"{host}:{_port(container, action.get('port'))}"


def _port(container: Container, port: object) -> int:
    if isinstance(port, str):
        named = next(
            (
                container_port.container_port
                for container_port in container.ports
                if container_port.name == port
            ),
            None,
        )
        number = whole_number(port) if named is None else named
        if number is None:
            raise CheckError(f'strconv.Atoi: parsing "{port}": invalid syntax')
        port = number
    if not isinstance(port, int) or not 0 < port < 65536:
        raise CheckError(f"invalid port number: {port}")
    return port
