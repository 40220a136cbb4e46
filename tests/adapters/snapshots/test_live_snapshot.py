"""How a command reads a live cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from tonnage.adapters.kubernetes.http import HttpKubernetes
from tonnage.adapters.snapshots.live import read_live
from tonnage.model.errors import ApiError
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.reading.command_kinds import STATUS_KINDS
from tonnage.reading.documents import READ_KINDS
from tonnage.wire.kinds import Kind


class _Api:
    """A server that counts what it is asked at the same moment; each such request is a connection."""

    server_ahead_s = 0.0

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refused: dict[tuple[str, str | None], ApiError] = {}
        self.most = 0
        self._now = 0

    async def get_raw(self, _path: str) -> object:
        return {"gitVersion": "v1.35.0"}

    async def read_all(
        self, kind: Kind[Any], _read: Callable[[bytes], object], *, namespace: str | None
    ) -> list[object]:
        self.asked.append(f"{namespace}/{kind.plural}" if namespace else kind.plural)
        self._now += 1
        self.most = max(self.most, self._now)
        for _ in range(3):
            await asyncio.sleep(0)
        self._now -= 1
        if (kind.plural, namespace) in self.refused:
            raise self.refused[kind.plural, namespace]
        return []


async def test_all_kinds_are_read_over_few_connections() -> None:
    api = _Api()
    snapshot = await read_live(cast(HttpKubernetes, api))
    assert sorted(api.asked) == sorted(kind.plural for kind in READ_KINDS)
    assert 1 < api.most <= 4
    assert snapshot.complete == {kind.kind for kind in READ_KINDS}


def _forbidden() -> ApiError:
    return ApiError(403, "Forbidden", "pods is forbidden")


async def _seen(api: _Api, *namespaces: str) -> Snapshot:
    return await read_live(cast(HttpKubernetes, api), namespaces=namespaces or ("ml",))


async def test_a_list_that_is_refused_is_read_in_the_users_own_namespace() -> None:
    api = _Api()
    api.refused = {("pods", None): _forbidden(), ("resourcequotas", None): _forbidden()}
    snapshot = await _seen(api)
    assert {"ml/pods", "ml/resourcequotas"} <= set(api.asked)
    assert snapshot.scopes == {"Pod": "ml", "ResourceQuota": "ml"}
    assert snapshot.missing == {"Pod"}, "of the quotas of ml, all are here"
    assert not snapshot.complete & {"Pod", "ResourceQuota"}


async def test_of_several_namespaces_the_first_that_may_be_read_is() -> None:
    api = _Api()
    api.refused = {("pods", None): _forbidden(), ("pods", "infra"): _forbidden()}
    snapshot = await _seen(api, "infra", "ml", "web")
    assert snapshot.scopes == {"Pod": "ml"}
    assert "web/pods" not in api.asked


@pytest.mark.parametrize("namespaces", [(), ("ml",)])
async def test_what_is_refused_in_the_namespace_too_is_missing(namespaces: tuple[str, ...]) -> None:
    api = _Api()
    for within in (None, "ml"):
        api.refused["nodes", within] = api.refused["limitranges", within] = _forbidden()
    snapshot = await read_live(cast(HttpKubernetes, api), namespaces=namespaces)
    assert snapshot.missing == snapshot.forbidden == {"Node", "LimitRange"}
    assert "ml/nodes" not in api.asked, "nodes have no namespace"


async def test_a_kind_that_was_not_asked_for_is_missing_and_not_forbidden() -> None:
    snapshot = await read_live(cast(HttpKubernetes, _Api()), kinds=STATUS_KINDS)
    assert snapshot.complete == {"Pod", "Node", "NodeGPUStatus", "ResourceSlice", "ResourceClaim"}
    assert "ResourceQuota" in snapshot.missing
    assert not snapshot.forbidden


async def test_of_a_cluster_that_may_not_be_listed_everything_is_missing() -> None:
    api = _Api()
    api.refused = {(kind.plural, within): _forbidden() for kind in READ_KINDS for within in (None, "ml")}
    snapshot = await _seen(api)
    assert snapshot.missing == snapshot.forbidden == {kind.kind for kind in READ_KINDS}


async def test_an_api_that_is_not_served_leaves_only_claims_open() -> None:
    api = _Api()
    for plural in ("resourceclaims", "nodegpustatuses"):
        api.refused[plural, None] = ApiError(404, "NotFound", "no such kind")
    snapshot = await _seen(api)
    assert not snapshot.missing
    assert snapshot.unserved == {"ResourceClaim"}
    assert "NodeGPUStatus" not in snapshot.unread_in("ml"), "without the kind nobody reports"


async def test_a_token_that_has_expired_is_no_list_that_is_refused() -> None:
    api = _Api()
    api.refused["pods", None] = ApiError(401, "Unauthorized", "Unauthorized")
    with pytest.raises(ApiError, match="Unauthorized"):
        await _seen(api)
