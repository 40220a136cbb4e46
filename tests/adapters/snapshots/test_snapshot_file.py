"""A captured cluster on its way into a file and back: pages, refusals, all ways to damage it."""

from __future__ import annotations

import gzip
import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.adapters.snapshots.capture import PAGE, Captured, Order, capture
from tonnage.adapters.snapshots.file import whole_file
from tonnage.adapters.snapshots.limit import SizeLimit
from tonnage.adapters.snapshots.load import decompressed, is_snapshot, load_captured
from tonnage.adapters.snapshots.redact import Level, Redactor
from tonnage.model.errors import ApiError, ConfigError, GoneError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.cluster import Snapshot

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class PagedApi:
    """A cluster of pods and nodes that gives out pages, and remembers what it was asked."""

    def __init__(self, pods: int = 3, nodes: int = 2) -> None:
        own = {"/api/v1/namespaces/ml/pods": pods, "/api/v1/namespaces/ml/resourcequotas": 0}
        self.amounts = {"/api/v1/pods": pods, "/api/v1/nodes": nodes, **own}
        self.refused: dict[str, ApiError] = {}
        self.expired: dict[str, GoneError] = {}
        self.asked: list[str] = []
        self.server_ahead_s = 0.0

    async def get_raw(self, path: str) -> JsonValue:
        self.asked.append(path)
        if path == "/version":
            return {"gitVersion": "v1.35.8"}
        collection, _, query = path.partition("?")
        parameters = dict(part.split("=") for part in query.split("&"))
        if collection in self.refused:
            raise self.refused[collection]
        if collection not in self.amounts:
            raise ApiError(404, "NotFound", "no such kind")
        token = parameters.get("continue", "")
        if token in self.expired:
            raise self.expired.pop(token)
        start, limit = int(token or 0), int(parameters["limit"])
        total = self.amounts[collection]
        end = min(start + limit, total)
        items: list[JsonValue] = [self._item(collection, number) for number in range(start, end)]
        more: JsonObject = {"continue": str(end), "remainingItemCount": total - end} if end < total else {}
        return {"metadata": {"resourceVersion": "7", **more}, "items": items}

    def _item(self, collection: str, number: int) -> JsonObject:
        if collection.endswith("nodes"):
            return {"metadata": {"name": f"n{number}"}}
        spec: JsonObject = {"nodeName": "n0", "containers": [{"name": "c"}]}
        return {"metadata": {"name": f"p{number}", "namespace": "ml"}, "spec": spec}


async def captured(
    api: PagedApi, namespace: str = "", told: list[Any] | None = None, fallback: str = ""
) -> tuple[Captured, bytes]:
    lines: list[bytes] = []
    order = Order(Level.VALUES, AT, "tonnage 1", namespace, fallback)
    result = await capture(
        api, order, Redactor(Level.VALUES, b"k"), lines.append, lambda *now: (told or []).append(now)
    )
    return result, b"".join(lines)


def loaded(content: bytes) -> Snapshot:
    stream = decompressed(io.BytesIO(content))
    assert is_snapshot(stream, "c.jsonl")
    return load_captured(stream, "c.jsonl", SizeLimit())[1]


async def test_pages_come_one_by_one_and_are_read_back() -> None:
    api, told = PagedApi(pods=2 * PAGE + 1), [("", 0, 0)]
    result, content = await captured(api, told=told)
    snapshot = loaded(content)
    assert (len(snapshot.pods), len(snapshot.nodes), snapshot.missing) == (2 * PAGE + 1, 2, frozenset())
    assert (snapshot.server_version, snapshot.now) == ("v1.35.8", AT)
    assert result.counts["Pod"].resource_version == "7"
    assert [now for now in told if now[0] == "Pod"] == [
        ("Pod", PAGE, 2 * PAGE + 1), ("Pod", 2 * PAGE, 2 * PAGE + 1), ("Pod", 2 * PAGE + 1, 2 * PAGE + 1),
    ]  # fmt: skip


async def test_what_may_not_be_listed_is_missing_and_what_is_not_there_is_not() -> None:
    api = PagedApi()
    api.refused["/api/v1/resourcequotas"] = ApiError(403, "Forbidden", "resourcequotas is forbidden")
    result, content = await captured(api)
    assert loaded(content).missing == {"ResourceQuota"}
    assert [absence.kind for absence in result.missing] == ["ResourceQuota"]
    header = json.loads(content.split(b"\n")[0])
    assert header["missing"] == [{"kind": "ResourceQuota", "apiVersion": "v1", "reason": "Forbidden"}]
    assert "v1/Pod" in header["kinds"]


async def test_a_kind_refused_across_namespaces_is_captured_in_the_callers_own() -> None:
    api = PagedApi()
    for path in ("/api/v1/pods", "/api/v1/nodes", "/api/v1/resourcequotas", "/api/v1/limitranges"):
        api.refused[path] = ApiError(403, "Forbidden", "no")
    api.refused["/api/v1/namespaces/ml/limitranges"] = ApiError(403, "Forbidden", "no")
    _, content = await captured(api, fallback="ml")
    snapshot = loaded(content)
    assert len(snapshot.pods) == 3
    assert snapshot.scopes == {"Pod": "ml", "ResourceQuota": "ml"}
    assert snapshot.missing == {"Pod", "Node", "LimitRange"}, "other namespaces' pods bear on a placement"
    assert snapshot.forbidden == {"Pod", "Node", "LimitRange", "ResourceQuota"}
    assert snapshot.unread_in("ml") >= snapshot.missing
    assert "ResourceQuota" not in snapshot.unread_in("ml")
    assert "ResourceQuota" in snapshot.unread_in("other")


async def test_of_one_namespace_nothing_is_known_of_the_quotas_of_another() -> None:
    api = PagedApi()
    snapshot = loaded((await captured(api, "ml"))[1])
    assert "ResourceQuota" in snapshot.unread_in("other")
    assert "ResourceQuota" not in snapshot.unread_in("ml")


async def test_a_token_that_is_refused_is_no_kind_that_is_missing() -> None:
    api = PagedApi()
    api.refused["/api/v1/resourcequotas"] = ApiError(401, "Unauthorized", "Unauthorized")
    with pytest.raises(ApiError, match="Unauthorized"):
        await captured(api)


async def test_with_neither_nodes_nor_pods_there_is_nothing_to_capture() -> None:
    api = PagedApi()
    for path in ("/api/v1/pods", "/api/v1/nodes"):
        api.refused[path] = ApiError(403, "Forbidden", "no")
    with pytest.raises(ApiError, match=r"^no$"):
        await captured(api)


async def test_a_list_that_expires_goes_on_where_the_server_says() -> None:
    api = PagedApi(pods=PAGE + 2)
    api.expired[str(PAGE)] = GoneError("expired", resume=f"{PAGE + 1}")
    result, content = await captured(api)
    assert not result.counts["Pod"].consistent
    assert (len(loaded(content).pods), loaded(content).missing) == (PAGE + 1, frozenset())


async def test_a_list_that_cannot_go_on_is_missing() -> None:
    api = PagedApi(pods=PAGE + 2)
    api.expired[str(PAGE)] = GoneError("expired")
    result, content = await captured(api)
    assert loaded(content).missing == {"Pod"}
    assert [(absence.kind, absence.reason) for absence in result.missing] == [("Pod", "Expired")]


async def test_of_one_namespace_the_other_pods_are_missing() -> None:
    api = PagedApi()
    _, content = await captured(api, "ml")
    snapshot = loaded(content)
    assert len(snapshot.pods) == 3
    assert snapshot.missing == {"Pod", "PodDisruptionBudget", "ResourceClaim"}
    assert not [path for path in api.asked if path.startswith("/api/v1/pods")]


async def test_an_object_that_refers_to_nothing_is_read_all_the_same() -> None:
    snapshot = loaded((await captured(PagedApi(nodes=0)))[1])
    assert {pod.node_name for pod in snapshot.pods} == {"n0"}
    assert snapshot.nodes == ()


def problem_of(content: bytes) -> Any:
    with pytest.raises(ConfigError) as caught:
        loaded(content)
    (problem,) = caught.value.problems
    return problem


async def test_a_file_that_is_cut_says_where() -> None:
    _, content = await captured(PagedApi())
    lines = content.splitlines(keepends=True)
    problem = problem_of(b"".join(lines[:4]))
    assert (problem.what, problem.where) == ("the snapshot is truncated", "c.jsonl:5")
    assert f"{len(b''.join(lines[:4]))} bytes, 3 objects" in problem.why
    assert problem_of(content[:-1]).what == "the snapshot is truncated"


@given(st.data())
async def test_cut_at_any_byte_it_is_no_cluster(data: st.DataObject) -> None:
    _, content = await captured(PagedApi())
    packed = gzip.compress(content, mtime=0)
    for whole in (content, packed):
        cut = whole[: data.draw(st.integers(1, len(whole) - 1))]
        stream = decompressed(io.BytesIO(cut))
        try:
            known = is_snapshot(stream, "c")
        except ConfigError:
            continue
        if known:
            with pytest.raises(ConfigError):
                load_captured(stream, "c", SizeLimit())[1]


async def test_damage_is_named_by_line_and_byte() -> None:
    _, content = await captured(PagedApi())
    lines = content.splitlines(keepends=True)
    broken = [*lines[:2], lines[2].replace(b'"kind"', b"'kind'"), *lines[3:]]
    problem = problem_of(b"".join(broken))
    assert (problem.what, problem.where) == ("not valid JSON", "c.jsonl:3:20")
    wrong = [*lines[:3], lines[3].replace(b'"nodeName":"n0"', b'"nodeName":7'), *lines[4:]]
    problem = problem_of(b"".join(wrong))
    assert (problem.where, problem.why) == ("c.jsonl:4", "spec.nodeName")


async def test_objects_that_went_missing_are_missed() -> None:
    _, content = await captured(PagedApi())
    lines = content.splitlines(keepends=True)
    problem = problem_of(b"".join([*lines[:3], *lines[4:]]))
    assert "2 of 3 Pod" in problem.why


async def test_a_later_format_is_refused_with_who_wrote_it() -> None:
    _, content = await captured(PagedApi())
    problem = problem_of(content.replace(b'"format":1', b'"format":2'))
    assert problem.what == "a snapshot of another version (made by tonnage 1)"


async def test_kinds_and_fields_of_later_versions_are_passed_over() -> None:
    _, content = await captured(PagedApi())
    lines = content.splitlines(keepends=True)
    new = b'{"apiVersion":"v9","kind":"Robot","metadata":{}}\n'
    pod = lines[3].replace(b'"spec":{', b'"spec":{"wings":[2],')
    assert len(loaded(b"".join([*lines[:3], new, pod, *lines[4:]])).pods) == 3


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"{}", b"[]", b"null\n", b"\xff\xfe", b'{"kind":"Snapshot"}\n', b'{"apiVersion":7}'],
    ids=repr,
)
def test_other_files_are_not_taken_for_snapshots(content: bytes) -> None:
    assert not is_snapshot(decompressed(io.BytesIO(content)), "x")


def test_gzip_that_is_none_is_an_error_with_its_place() -> None:
    with pytest.raises(ConfigError, match="not valid gzip"):
        is_snapshot(decompressed(io.BytesIO(b"\x1f\x8bnot really")), "x.gz")


def _fail_half_way(path: Path) -> None:
    with whole_file(path) as write:
        write(b"half")
        raise ZeroDivisionError


@pytest.mark.parametrize("name", ["c.jsonl", "c.jsonl.gz"])
def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"before")
    with pytest.raises(ZeroDivisionError):
        _fail_half_way(path)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"before"]
    with whole_file(path) as write:
        write(b"one\n")
        write(b"two\n")
    content = path.read_bytes()
    assert (gzip.decompress(content) if name.endswith(".gz") else content) == b"one\ntwo\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]
