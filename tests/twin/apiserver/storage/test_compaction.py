"""How long pages of one list can be asked for."""

from __future__ import annotations

import asyncio

import pytest

from tonnage.model.errors import GoneError
from tonnage.model.json_access import text
from tonnage.twin.apiserver.compaction import compact
from tonnage.twin.apiserver.reading.listing import ListPage, ListQuery, page
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import CONFIG_MAP


async def test_a_page_of_a_list_of_long_ago_is_gone_and_the_rest_can_be_had() -> None:
    clock = VirtualClock()
    server = ApiServer(clock)
    api, served = server.local(), server.registry.find("", "v1", "configmaps")
    assert served is not None
    task = asyncio.create_task(compact(server.store, clock))
    for name in ("a", "b", "c"):
        await api.create(CONFIG_MAP, {"metadata": {"name": name}}, namespace="default")
    token = page(server.store, served, ListQuery("default", limit=1)).continue_token
    await api.delete(CONFIG_MAP, "b", namespace="default")

    await clock.advance(301)
    assert _names(page(server.store, served, ListQuery("default", continue_token=token))) == ["b", "c"]
    await clock.advance(300)
    with pytest.raises(GoneError) as gone:
        page(server.store, served, ListQuery("default", continue_token=token))
    rest = gone.value.resume
    assert _names(page(server.store, served, ListQuery("default", continue_token=rest))) == ["c"]
    task.cancel()


def _names(found: ListPage) -> list[str]:
    return [text(one.object, "metadata", "name") for one in found.items]
