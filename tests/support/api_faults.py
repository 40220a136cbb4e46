"""What can happen to an API server: gone, silent, slow, refusing, and forgetful of the past."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc

from support.deadlines import join
from support.genuine_cluster import GenuineCluster
from tonnage.adapters.control_plane import LOOPBACK, ControlPlaneFolder

T = TypeVar("T")
_CHUNK: Final = 1 << 16
_MANY_SECONDS: Final = 60.0


class Relay:
    """A port of its own in front of the API server; TLS goes through as it is.

    `latency_s` is added in each direction; while `cut`, connections break and new ones are refused; while
    `silence` lasts, nothing comes through and nothing breaks, as when a cable is out.
    """

    def __init__(self, port: int) -> None:
        """`port` is the API server's."""
        self.latency_s = 0.0
        self._upstream = port
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._thread.start()
        self.port = 0
        self.mend()

    @property
    def url(self) -> str:
        return f"https://{LOOPBACK}:{self.port}"

    def cut(self) -> None:
        """Break every connection and take no new ones."""
        self._do(self._cut())

    def mend(self) -> None:
        """Listen again, at the same port."""
        self._do(self._listen())

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Let nothing through for a while."""
        self._loop.call_soon_threadsafe(self._flowing.clear)
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._flowing.set)

    def close(self) -> None:
        """End it for good."""
        self._do(self._cut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        join(self._thread)
        self._loop.close()

    def _do(self, deed: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(deed, self._loop).result(_MANY_SECONDS)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._carry, LOOPBACK, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._writers:
            writer.transport.abort()
        while tasks := asyncio.all_tasks(self._loop) - {asyncio.current_task(self._loop)}:
            await asyncio.wait(tasks)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            there, back = await asyncio.open_connection(LOOPBACK, self._upstream)
        except OSError:
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(back)
        await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
        self._writers -= {writer, back}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await reader.read(_CHUNK):
                await asyncio.sleep(self.latency_s)
                await self._flowing.wait()
                writer.write(chunk)
                await writer.drain()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def end_api_server(cluster: GenuineCluster, *, at_once: bool = False) -> None:
    """The process is gone; etcd goes on."""
    asyncio.run(cluster.plane.end("kube-apiserver", 0 if at_once else 10))


def start_api_server(cluster: GenuineCluster) -> None:
    """Start it again, with the same flags, and wait until it is ready."""
    cluster.plane.start_again("kube-apiserver")
    asyncio.run(cluster.plane.ready())


def compact_etcd(cluster: GenuineCluster) -> int:
    """Forget all revisions but the latest, which is returned."""
    revision = newest_version(cluster)
    files = ControlPlaneFolder(cluster.kubeconfig.parent / "control-plane")
    credentials = grpc.ssl_channel_credentials(
        files.certificate("ca").read_bytes(),
        files.key("etcd").read_bytes(),
        files.certificate("etcd").read_bytes(),
    )
    with grpc.secure_channel(_etcd_address(cluster), credentials) as channel:
        compact: Callable[..., bytes] = channel.unary_unary("/etcdserverpb.KV/Compact")
        # CompactionRequest: field 1 is the revision, field 2 says to wait until it is done.
        compact(b"\x08" + _varint(revision) + b"\x10\x01", timeout=30)
    return revision


def newest_version(cluster: GenuineCluster) -> int:
    """etcd's revision, as a list of any kind names it; kubectl leaves it out of what it prints of one."""
    listing = json.loads(cluster.kubectl("get", "--raw", "/api/v1/namespaces?limit=1"))
    return int(listing["metadata"]["resourceVersion"])


def _etcd_address(cluster: GenuineCluster) -> str:
    command = Path(f"/proc/{cluster.plane.pids['etcd']}/cmdline").read_bytes().split(b"\0")
    (url,) = [word for word in command if word.startswith(b"--advertise-client-urls=")]
    return url.decode().rpartition("//")[2]


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


@contextmanager
def starved(cluster: GenuineCluster, user: str) -> Iterator[None]:
    """The API server answers every request of that user with 429, as API priority and fairness does it.

    AssertionError at the end when it refused none.
    """
    group, name = "flowcontrol.apiserver.k8s.io/v1", "tonnage-starved"
    nothing = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    rule = {
        "subjects": [{"kind": "User", "user": {"name": user}}],
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True,
                           "namespaces": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }  # fmt: skip
    cluster.apply(
        {"apiVersion": group, "kind": "PriorityLevelConfiguration", "metadata": {"name": name}, "spec": {
            "type": "Limited", "limited": {**nothing, "limitResponse": {"type": "Reject"}},
        }},
        {"apiVersion": group, "kind": "FlowSchema", "metadata": {"name": name}, "spec": {
            "priorityLevelConfiguration": {"name": name}, "matchingPrecedence": 2, "rules": [rule],
        }},
    )  # fmt: skip
    try:
        yield
        assert refused_requests(cluster, name) > 0
    finally:
        for kind in ("flowschema", "prioritylevelconfiguration"):
            cluster.kubectl("delete", kind, name, "--ignore-not-found")


def refused_requests(cluster: GenuineCluster, flow_schema: str) -> int:
    """How many the API server has answered with 429 by that FlowSchema, as its metrics say."""
    lines = cluster.kubectl("get", "--raw", "/metrics").splitlines()
    counts = [line for line in lines if line.startswith("apiserver_flowcontrol_rejected_requests_total{")]
    return sum(int(line.split()[-1]) for line in counts if f'flow_schema="{flow_schema}"' in line)
