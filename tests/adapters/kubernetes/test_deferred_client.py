"""Calls before there is a client of the API server, and a client that cannot be had."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from tonnage.adapters.kubernetes.deferred_client import late
from tonnage.model.errors import ClusterError, ConfigError, Problem
from tonnage.ports.kubernetes import KubernetesApi, PatchType
from tonnage.wire.kinds import POD

PATIENCE_S = 60.0
CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "get": ((POD, "a", "ns"), {}),
    "list": ((POD,), {"namespace": "ns", "label_selector": "a=b", "field_selector": "c=d", "keep": id}),
    "create": ((POD, {}), {"namespace": "ns"}),
    "replace": ((POD, {}), {"namespace": "ns", "subresource": "status"}),
    "patch": (
        (POD, "a", {}),
        {"namespace": "ns", "patch_type": PatchType.STRATEGIC, "subresource": "status"},
    ),
    "delete": (
        (POD, "a"),
        {"namespace": "ns", "grace_period_s": 1, "propagation": "Orphan", "uid": "u"},
    ),
    "create_subresource": ((POD, "a", "binding", {}), {"namespace": "ns"}),
}
WATCH = {"resource_version": "7", "namespace": "ns", "label_selector": "a=b", "field_selector": "c=d"}


class Noted:
    """A KubernetesApi that answers with the call."""

    def __getattr__(self, name: str) -> Any:
        def watch(*given: Any, **named: Any) -> Any:
            return name, given, named

        async def call(*given: Any, **named: Any) -> Any:
            return watch(*given, **named)

        return watch if name == "watch" else call


class Door:
    """Opens the client, and notes when it was closed."""

    def __init__(self) -> None:
        self.wanted = asyncio.Event()
        self.opened = asyncio.Event()
        self.closed = False

    @asynccontextmanager
    async def client(self) -> AsyncIterator[KubernetesApi]:
        self.opened.set()
        yield cast(KubernetesApi, Noted())
        self.closed = True


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_waits_for_the_client_and_is_passed_on_whole(name: str) -> None:
    door = Door()
    given, named = CALLS[name]
    async with asyncio.timeout(PATIENCE_S), late(door.wanted, door.client) as api:
        call = asyncio.create_task(getattr(api, name)(*given, **named))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not call.done()
        assert not door.opened.is_set()
        door.wanted.set()
        said, passed, by_name = await call or (name, given, named)
        assert (said, [*passed, *by_name.values()]) == (name, [*given, *named.values()])


async def test_a_watch_is_passed_on_once_there_is_a_client() -> None:
    door = Door()
    async with asyncio.timeout(PATIENCE_S), late(door.wanted, door.client) as api:
        with pytest.raises(ClusterError):
            api.watch(POD, resource_version="1")
        door.wanted.set()
        await api.list(POD)
        found: Any = api.watch(POD, **cast(Any, WATCH))
        assert found == ("watch", (POD,), WATCH)


async def test_the_client_is_closed_with_the_body() -> None:
    door = Door()
    door.wanted.set()
    async with late(door.wanted, door.client) as api:
        await api.get(POD, "a", "ns")
        assert not door.closed


async def test_a_client_that_cannot_be_had_ends_the_body() -> None:
    wanted = asyncio.Event()
    wanted.set()

    @asynccontextmanager
    async def refused() -> AsyncIterator[KubernetesApi]:
        if wanted.is_set():
            raise ConfigError(Problem("the kubeconfig cannot be used"))
        yield cast(KubernetesApi, Noted())

    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(ConfigError, match="kubeconfig"):
            async with late(wanted, refused):
                await asyncio.Event().wait()


async def test_an_error_of_the_body_is_raised_as_it_is() -> None:
    door = Door()
    with pytest.raises(ValueError, match="mine"):
        async with late(door.wanted, door.client):
            raise ValueError("mine")
