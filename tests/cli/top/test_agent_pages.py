"""Pages of a thousand agents behind an API server's proxy: few at once, and who is slow holds up no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from tonnage.adapters.kubernetes.client import connect
from tonnage.cli.top.agent_pages import AgentPages, PageAnswers
from tonnage.wire.objects import Pod

AGENTS = 1000
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
