"""kubelet's `:authority` values: `localhost` to plugins, elsewhere a path, percent-encoded, raw, or nothing.

Source: kubelet's dial options; grpc-go sends the dial target when no authority is set.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import pytest

from support.connections import connection
from tonnage.adapters.kubelet.plugin_server import PluginServer
from tonnage.model.devices.sharing import Advertisement, DeviceSlot, Injection
from tonnage.model.names import GPU
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as wire

PATIENCE_S = 60.0


class Service:
    """Answers nothing of interest."""

    async def allocate(self, requests: Sequence[Sequence[str]]) -> tuple[Injection, ...]:
        return tuple(Injection({"X": ",".join(ids)}) for ids in requests)

    async def prefer(self, available: Sequence[str], required: Sequence[str], size: int) -> tuple[str, ...]:
        return tuple(available)[:size]


@pytest.fixture
async def socket() -> AsyncIterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    server = PluginServer(
        folder / "nvidia-gpu.sock", Advertisement(GPU, (DeviceSlot("GPU-0", "GPU-0"),)), Service()
    )
    await server.start()
    yield folder / "nvidia-gpu.sock"
    await server.stop()
    shutil.rmtree(folder)


async def call(socket: Path, authority: str, path: str, message: bytes) -> tuple[dict[str, str], bytes]:
    """(trailers and headers, body without the gRPC frame) of one call over a bare HTTP/2 connection."""
    config = h2.config.H2Configuration(validate_outbound_headers=False, normalize_outbound_headers=False)
    http = h2.connection.H2Connection(config)
    http.initiate_connection()
    headers = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", authority)]
    headers += [("content-type", "application/grpc"), ("te", "trailers")]
    http.send_headers(1, headers)
    http.send_data(1, b"\0" + len(message).to_bytes(4, "big") + message, end_stream=True)
    seen: dict[str, str] = {}
    body = b""
    ended = False
    opening = asyncio.open_unix_connection(str(socket))
    async with connection(opening) as (reader, writer), asyncio.timeout(PATIENCE_S):
        writer.write(http.data_to_send())
        while not ended:
            data = await reader.read(65536)
            assert data, "the server closed the connection"
            for event in http.receive_data(data):
                if isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
                    seen.update((bytes(k).decode(), bytes(v).decode()) for k, v in event.headers)
                elif isinstance(event, h2.events.DataReceived):
                    body += event.data
                ended = ended or isinstance(event, h2.events.StreamEnded | h2.events.StreamReset)
            writer.write(http.data_to_send())
    return seen, body[5:]


@pytest.mark.parametrize(
    "authority",
    [
        pytest.param("localhost", id="localhost"),
        pytest.param("%2Fvar%2Flib%2Fkubelet%2Fdevice-plugins%2Fnvidia-gpu.sock", id="percent-encoded path"),
        pytest.param("/var/lib/kubelet/device-plugins/nvidia-gpu.sock", id="raw path"),
        pytest.param("", id="nothing"),
    ],
)
async def test_every_authority_is_answered(socket: Path, authority: str) -> None:
    seen, body = await call(socket, authority, "/v1beta1.DevicePlugin/GetDevicePluginOptions", b"")
    assert seen["grpc-status"] == "0"
    assert wire.DevicePluginOptions.FromString(body).get_preferred_allocation_available


async def test_wire_bytes_are_those_of_the_protocol(socket: Path) -> None:
    request = b"\x0a\x07\x0a\x05GPU-0"  # container_requests: 1 { devices_ids: 1 "GPU-0" }
    seen, body = await call(socket, "localhost", "/v1beta1.DevicePlugin/Allocate", request)
    assert seen["grpc-status"] == "0"
    assert body == b"\x0a\x0c\x0a\x0a\x0a\x01X\x12\x05GPU-0"  # container_responses { envs { "X": "GPU-0" } }


@pytest.mark.parametrize(
    ("path", "message", "status"),
    [
        pytest.param("/v1beta1.DevicePlugin/Nothing", b"", "12", id="a method that is not there"),
        pytest.param("/v1beta1.DevicePlugin/Allocate", b"\xff\xff", "2", id="no message"),
    ],
)
async def test_nonsense_is_refused_and_the_server_lives(
    socket: Path, path: str, message: bytes, status: str
) -> None:
    seen, _ = await call(socket, "localhost", path, message)
    assert seen["grpc-status"] == status
    again, _ = await call(socket, "localhost", "/v1beta1.DevicePlugin/GetDevicePluginOptions", b"")
    assert again["grpc-status"] == "0"
