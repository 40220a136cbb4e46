"""The audit log: a file that stays small, and requests that last."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.api_stores import new_store
from tonnage.adapters.certificates import Authority
from tonnage.adapters.clock import SystemClock
from tonnage.model.errors import ApiError, ConfigError
from tonnage.twin.apiserver.audit import AuditLog
from tonnage.twin.apiserver.authentication.users import account_user
from tonnage.twin.apiserver.in_process_client import kubelet_client
from tonnage.twin.apiserver.server import ApiServer
from tonnage.wire.kinds import NODE, POD
from twin.apiserver.conftest import Client


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_full_file_makes_room_and_three_older_ones_stay(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(path, largest=100)
    for number in range(40):
        log.write({"number": number, "filler": "x" * 30})
    log.close()
    files = sorted(file.name for file in tmp_path.iterdir())
    assert files == ["audit.log", "audit.log.1", "audit.log.2", "audit.log.3"]
    numbers = [event["number"] for name in reversed(files) for event in events(tmp_path / name)]
    assert numbers == list(range(40 - len(numbers), 40)), "whole lines in their order, the youngest"
    assert all(file.stat().st_size <= 100 for file in tmp_path.iterdir())
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_log_goes_on_where_an_earlier_one_ended(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    for number in range(2):
        log = AuditLog(path)
        log.write({"number": number})
        log.close()
    assert [event["number"] for event in events(path)] == [0, 1]


@pytest.mark.parametrize("where", ["no/such/folder", "."])
def test_a_file_that_cannot_be_opened_is_said(tmp_path: Path, where: str) -> None:
    with pytest.raises(ConfigError, match="the audit log cannot be written"):
        AuditLog(tmp_path / where)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "audit.log").symlink_to(tmp_path / "other")
    with pytest.raises(ConfigError):
        AuditLog(tmp_path / "audit.log")


def test_lost_events_are_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = AuditLog(tmp_path / "audit.log")
    log.close()
    for _ in range(3):
        log.write({})
    assert [record.message.partition(":")[0] for record in caplog.records] == ["audit events are lost"]


async def test_a_watch_is_told_when_it_begins_and_when_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    server = ApiServer(SystemClock(), audit=AuditLog(path), store=new_store())
    client = Client(await server.start(Authority.generate(datetime.now(UTC))))
    head = f"host: x\r\nauthorization: Bearer {client.token}\r\nuser-agent: probe\r\n"
    async with client.open() as (reader, writer), asyncio.timeout(60):
        writer.write(f"GET /api/v1/pods?watch=1 HTTP/1.1\r\n{head}\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        [started] = events(path)
        assert (started["stage"], started["verb"]) == ("ResponseStarted", "watch")
        assert (started["userAgent"], started["sourceIPs"]) == ("probe", ["127.0.0.1"])
        await server.stop()
    ended = events(path)[1]
    assert (ended["stage"], ended["auditID"]) == ("ResponseComplete", started["auditID"])
    assert client.token not in path.read_text()


async def test_what_the_twins_own_programs_write_is_told_under_their_names(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    server = ApiServer(SystemClock(), audit=AuditLog(path), store=new_store())
    controller = server.local().acting_as(account_user("kube-system", "job-controller"))
    kubelet = kubelet_client(server.local("kubelet"), "n1", {"kubernetes.io/hostname": "n1"})
    await kubelet.create(NODE, {"metadata": {"name": "n1"}})
    with pytest.raises(ApiError):
        await controller.patch(POD, "none", {"metadata": {}}, namespace="default", subresource="status")
    with pytest.raises(ApiError, match="not allowed to modify node"):
        await kubelet.create(NODE, {"metadata": {"name": "n2"}})
    told = events(path)
    assert [
        (one["user"]["username"], one["verb"], one["requestURI"], one["responseStatus"]["code"])
        for one in told
    ] == [
        ("system:node:n1", "create", "/api/v1/nodes", 201),
        (
            "system:serviceaccount:kube-system:job-controller",
            "patch",
            "/api/v1/namespaces/default/pods/none/status",
            404,
        ),
        ("system:node:n1", "create", "/api/v1/nodes", 403),
    ]
    assert told[0]["user"]["groups"] == ["system:nodes", "system:authenticated"]
    assert told[0]["userAgent"] == "kubelet/v1.35.8 (linux/amd64)"
    assert told[0]["objectRef"] == {"resource": "nodes", "name": "n1", "apiVersion": "v1"}


def test_a_node_with_labels_that_no_kubelet_may_set_is_kept_by_another_hand() -> None:
    api = ApiServer(SystemClock(), store=new_store()).local("kubelet")
    assert kubelet_client(api, "n", {"node-role.kubernetes.io/gpu": ""}) is api
    assert kubelet_client(api, "n", {"topology.kubernetes.io/zone": "a", "gpu": "yes"}) is not api
