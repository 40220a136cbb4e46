"""Pages of a thousand agents behind an API server's proxy: few at once, and who is slow holds up no other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from tonnage.adapters.kubernetes.client import connect
from tonnage.cli.top.agent_pages import FORBIDDEN, AgentPages, PageAnswers
from tonnage.model.kubernetes.scrape_target import PART_OF
from tonnage.wire.objects import Pod

AGENTS = 300
KUBECONFIG = """apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: u, user: {{}}}}]
"""
PAGE = 'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-{0}",Hostname="node-{0}"}} 40\n'


class Proxy:
    """Answers for every agent, but for those that are `slow`, whose callers wait until `released`."""

    def __init__(self, *slow: int) -> None:
        self.slow = set(slow)
        self.released = asyncio.Event()
        self.asked: dict[int, int] = {}
        self.most_at_once = 0
        self._at_once = 0

    @asynccontextmanager
    async def served(self) -> AsyncIterator[int]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            yield server.sockets[0].getsockname()[1]
            self.released.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                number = int(head.split(b"/pods/agent-")[1].split(b":")[0])
                self.asked[number] = self.asked.get(number, 0) + 1
                self._at_once += 1
                self.most_at_once = max(self.most_at_once, self._at_once)
                if number in self.slow:
                    await self.released.wait()
                self._at_once -= 1
                page = PAGE.format(number).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(page), page))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def agent(number: int) -> Pod:
    container = {"name": "agent", "ports": [{"name": "exporter", "containerPort": 9400}]}
    spec = {"nodeName": f"node-{number}", "containers": [container]}
    return msgspec.convert({"metadata": {"name": f"agent-{number}"}, "spec": spec}, Pod)


@asynccontextmanager
async def reading(folder: Path, proxy: Proxy, patience_s: float) -> AsyncIterator[AgentPages]:
    async with asyncio.timeout(60), proxy.served() as port:
        (folder / "kubeconfig").write_text(KUBECONFIG.format(port=port))
        async with connect(folder / "kubeconfig") as api:
            pages = AgentPages(api, "tonnage-system", patience_s)
            try:
                yield pages
            finally:
                await pages.close()


async def test_who_is_slow_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tonnage.cli.top.agent_pages._PAGE_S", 120
    )  # a busy machine is slow to read the others
    slow = (0, 1, 2, AGENTS - 1)
    proxy, agents = Proxy(*slow), [agent(number) for number in range(AGENTS)]
    async with reading(tmp_path, proxy, patience_s=0.1) as pages:
        answers = await pages.read(agents)
        while len(answers.pages) < AGENTS - len(slow):
            answers = await pages.read(agents)
        assert not {f"node-{number}" for number in slow} & answers.pages.keys()
        assert (answers.late, answers.refusals) == (len(slow), [])
        assert {proxy.asked[number] for number in slow} <= {1}, "nobody is asked twice at once"
    assert proxy.most_at_once <= 16


async def test_who_answers_late_is_shown_then_and_who_is_gone_no_longer(tmp_path: Path) -> None:
    proxy, agents = Proxy(1), [agent(number) for number in range(3)]

    async with reading(tmp_path, proxy, patience_s=0.1) as pages:
        shown: PageAnswers = await pages.read(agents)
        while shown.pages.keys() != {"node-0", "node-2"}:
            shown = await pages.read(agents)
        proxy.released.set()
        while shown.late:
            shown = await pages.read(agents)
        assert shown.pages.keys() == {"node-0", "node-1", "node-2"}
        assert (await pages.read(agents[:2])).pages.keys() == {"node-0", "node-1"}
        assert (await pages.read([])).pages == {}


NO_RIGHT = 'pods "agent-0:9400" is forbidden: User "x" cannot get resource "pods/proxy" in API group ""'


@asynccontextmanager
async def answering(status: str, content: bytes) -> AsyncIterator[int]:
    """A server that gives everybody this answer."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + content)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def refusal_of(code: int, message: str) -> bytes:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message}
    return json.dumps(status).encode()


def pretended(number: int, address: str) -> Pod:
    pod = agent(number)
    pod.metadata.labels = {PART_OF[0]: PART_OF[1]}
    pod.metadata.annotations = {"tonnage.dev/loopback-9400": address}
    pod.status.phase = "Running"
    return pod


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ("503 Service Unavailable", "error trying to reach service: dial tcp 10.244.0.2:9400: i/o timeout"),
        ("403 Forbidden", "of a proxy on the way"),
    ],
)
async def test_a_pretended_node_that_the_api_server_does_not_reach_is_read_on_loopback(
    tmp_path: Path, status: str, message: str
) -> None:
    async with (
        asyncio.timeout(60),
        answering(status, refusal_of(int(status[:3]), message)) as port,
        answering("200 OK", PAGE.format(0).encode()) as local,
    ):
        (tmp_path / "kubeconfig").write_text(KUBECONFIG.format(port=port))
        async with connect(tmp_path / "kubeconfig") as api:
            pages = AgentPages(api, "tonnage-system", patience_s=30)
            answers = await pages.read([pretended(0, f"127.0.0.1:{local}"), agent(1)])
            assert {*answers.pages} == {"node-0"}
            assert answers.refusals == [message]
            answers = await pages.read([pretended(0, f"127.0.0.1:{local}")])
            assert answers.pages.keys() == {"node-0"}
            elsewhere = await pages.read([pretended(2, f"192.0.2.1:{local}")])
            assert (elsewhere.pages, elsewhere.refusals) == ({}, [message])
            await pages.close()


async def test_who_lacks_the_right_reads_no_page_on_loopback_either(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(60),
        answering("403 Forbidden", refusal_of(403, NO_RIGHT)) as port,
        answering("200 OK", PAGE.format(0).encode()) as local,
    ):
        (tmp_path / "kubeconfig").write_text(KUBECONFIG.format(port=port))
        async with connect(tmp_path / "kubeconfig") as api:
            pages = AgentPages(api, "tonnage-system", patience_s=30)
            answers = await pages.read([pretended(0, f"127.0.0.1:{local}")])
            assert (answers.pages, answers.refusals) == ({}, [FORBIDDEN])
            await pages.close()
