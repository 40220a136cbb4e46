"""`tonnage top` for somebody who may read nothing: unknown, and not none."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tonnage.cli.main import run

KUBECONFIG = """apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: u, user: {{}}}}]
"""
STATUS = {
    "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
    "message": "it is forbidden",
}  # fmt: skip
EMPTY = {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Lists of nodes and slices are empty; whatever shows GPUs is refused."""
    try:
        while request := await reader.readuntil(b"\r\n\r\n"):
            refused = b"/pods" in request or b"/nodegpustatuses" in request
            body = json.dumps(STATUS if refused else EMPTY).encode()
            line = "403 Forbidden" if refused else "200 OK"
            head = f"HTTP/1.1 {line}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


@pytest.mark.parametrize("view", ["nodes", "devices", "pods"])
async def test_what_may_not_be_read_is_unknown(
    view: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with await asyncio.start_server(_refuse, "127.0.0.1", 0) as server:
        kubeconfig = tmp_path / "config"
        kubeconfig.write_text(KUBECONFIG.format(port=server.sockets[0].getsockname()[1]))
        words = ["top", "--once", "--view", view, "--kubeconfig", str(kubeconfig)]
        await asyncio.to_thread(run, words, "tonnage")
    told = capsys.readouterr().err
    assert "you may not list the agents' pods" in told
    assert "UNKNOWN: no reading of any GPU could be read." in told
