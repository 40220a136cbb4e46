"""A Node that is paused while its MIG layout changes, over an API server, and agents that end meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from support.agent_context import context_of
from support.api_stores import new_store
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.agent.board import NodeBoard
from tonnage.agent.mig.pause import NodePauses
from tonnage.decide.node.mig.pause import ANNOTATION, PAUSED
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.model.mig.layouts import MigOptions, MigWork
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import NAMESPACE, NODE, POD
from tonnage.wire.objects import Node

DCGM = "nvidia.com/gpu.deploy.dcgm"


class Life:
    """One life of the loop on a node."""

    def __init__(
        self,
        api: KubernetesApi,
        clock: VirtualClock,
        folder: Path,
        *,
        cordon: bool = False,
        pause: bool = False,
    ) -> None:
        self.api: Any = api
        self.refused = False
        self.writes = 0
        context = context_of("n", cast(KubernetesApi, self), clock, FolderCheckpoints(folder))
        self.board = NodeBoard.blank(clock)
        asks = MigOptions("a/b", evict=True, cordon=cordon, pause=pause)
        self.pauses = NodePauses(context, self.board, asks)

    async def list(self, *arguments: Any, **options: Any) -> Any:
        return await self.api.list(*arguments, **options)

    async def patch(self, *arguments: Any, **options: Any) -> Any:
        if self.refused:
            raise ApiError(500, "InternalError", "no")
        self.writes += 1
        return await self.api.patch(*arguments, **options)

    async def node(self) -> Node:
        node: Node = await self.api.get(NODE, "n")
        self.board.node.publish(node)
        return node


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def api(clock: VirtualClock) -> KubernetesApi:
    api = ApiServer(clock, store=new_store()).local()
    await api.create(NAMESPACE, {"metadata": {"name": "gpu-operator"}})
    await api.create(NODE, {"metadata": {"name": "n", "labels": {DCGM: "true"}}})
    return api


@contextlib.asynccontextmanager
async def running(life: Life) -> AsyncIterator[None]:
    task = asyncio.create_task(life.pauses.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def operand(api: KubernetesApi) -> None:
    spec: JsonObject = {
        "nodeName": "n",
        "nodeSelector": {DCGM: "true"},
        "containers": [{"name": "c", "image": "i"}],
    }
    await api.create(POD, {"metadata": {"name": "dcgm"}, "spec": spec}, namespace="gpu-operator")


async def test_a_node_is_cordoned_for_evictions_and_uncordoned_by_whoever_comes_after(
    api: KubernetesApi, clock: VirtualClock, tmp_path: Path
) -> None:
    life = Life(api, clock, tmp_path, cordon=True)
    life.board.mig_work.publish(MigWork.EVICTING)
    assert await life.pauses.pause_and_wait() is None
    assert (await life.node()).spec.unschedulable
    life.board.mig_work.publish(MigWork.CHANGING)
    assert await life.pauses.apply() is None
    assert (await life.node()).spec.unschedulable
    heir = Life(api, clock, tmp_path)  # which may not even cordon
    heir.refused = True
    await heir.node()
    async with running(heir):
        await clock.advance(3)
        assert (await heir.node()).spec.unschedulable
        heir.refused = False
        await clock.advance(100)
    node = await heir.node()
    assert not node.spec.unschedulable
    assert ANNOTATION not in node.metadata.annotations


async def test_a_node_that_an_administrator_cordoned_stays_so(
    api: KubernetesApi, clock: VirtualClock, tmp_path: Path
) -> None:
    await api.patch(NODE, "n", {"spec": {"unschedulable": True}})
    life = Life(api, clock, tmp_path, cordon=True, pause=True)
    for work in (MigWork.EVICTING, MigWork.CHANGING, MigWork.NONE):
        life.board.mig_work.publish(work)
        assert await life.pauses.pause_and_wait() is None
    assert (await life.node()).spec.unschedulable


async def test_operands_are_taken_off_and_waited_for_and_have_their_own_value_again(
    api: KubernetesApi, clock: VirtualClock, tmp_path: Path
) -> None:
    await operand(api)
    life = Life(api, clock, tmp_path, pause=True)
    life.board.mig_work.publish(MigWork.EVICTING)
    assert await life.pauses.pause_and_wait() is None
    assert life.writes == 0
    life.board.mig_work.publish(MigWork.CHANGING)
    waits = asyncio.create_task(life.pauses.pause_and_wait())
    await clock.advance(10)
    assert (await life.node()).metadata.labels[DCGM] == PAUSED
    assert not waits.done()
    await api.delete(POD, "dcgm", namespace="gpu-operator", grace_period_s=0)
    await clock.advance(10)
    assert await waits is None
    life.board.mig_work.publish(MigWork.NONE)
    async with running(life):
        await life.node()
        await clock.advance(1)
    assert (await life.node()).metadata.labels[DCGM] == "true"
    assert life.writes == 2


async def test_while_pods_are_asked_to_leave_again_operands_run(
    api: KubernetesApi, clock: VirtualClock, tmp_path: Path
) -> None:
    life = Life(api, clock, tmp_path, cordon=True, pause=True)
    for work, value in ((MigWork.EVICTING, "true"), (MigWork.CHANGING, PAUSED), (MigWork.EVICTING, "true")):
        life.board.mig_work.publish(work)
        assert await life.pauses.pause_and_wait() is None
        node = await life.node()
        assert (node.metadata.labels[DCGM], node.spec.unschedulable) == (value, True)


async def test_operands_that_do_not_end_are_named_after_five_minutes(
    api: KubernetesApi, clock: VirtualClock, tmp_path: Path
) -> None:
    await operand(api)
    life = Life(api, clock, tmp_path, pause=True)
    life.board.mig_work.publish(MigWork.CHANGING)
    waits = asyncio.create_task(life.pauses.pause_and_wait())
    await clock.advance(310)
    refusal = await waits
    assert refusal is not None
    assert refusal.message == "paused pods have not ended within 300 s: gpu-operator/dcgm"
    assert refusal.pods == ("gpu-operator/dcgm",)


async def test_what_the_api_server_refuses_is_said_and_nothing_is_changed(
    api: KubernetesApi, clock: VirtualClock, tmp_path: Path
) -> None:
    life = Life(api, clock, tmp_path, cordon=True)
    life.board.mig_work.publish(MigWork.EVICTING)
    life.refused = True
    refusal = await life.pauses.pause_and_wait()
    assert refusal is not None
    assert refusal.message == "nothing can be paused: no"
