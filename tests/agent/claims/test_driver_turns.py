"""When the driver for claims looks anew at what the node offers, where no beat wakes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from support.agent_context import context_of
from tonnage.adapters.clock import SystemClock
from tonnage.agent.board import NodeBoard
from tonnage.agent.claims.devices import ClaimableDevices
from tonnage.agent.claims.driver import ClaimDriver
from tonnage.decide.node.choose_config import ConfigChoice, ConfigInForce
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.model.devices.inventory import Device, Inventory
from tonnage.model.devices.sharing import Hold, HoldKind, PluginConfig

GPUS = Inventory(tuple(Device(f"GPU-{n}", n, "Tesla T4", 15360, minor=n) for n in range(2)), "580.1.1")


class TimelessClock(SystemClock):
    async def sleep(self, seconds: float) -> None:
        await asyncio.Event().wait()


class CountedSockets:
    """Opened at once, registered never; counts how often somebody looks for another driver."""

    looks = 0
    served = False

    async def other(self) -> str:
        self.looks += 1
        return ""

    async def serve(self, *_: object) -> None:
        self.served = True

    async def close(self) -> None:
        self.served = False

    def present(self) -> bool:
        return self.served

    def standing_by(self) -> bool:
        return False

    def registered(self) -> None:
        return None

    def watch(self, _on_change: object) -> bool:
        return True


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@asynccontextmanager
async def driver(board: NodeBoard, sockets: Any, claims: dict[str, str]) -> AsyncIterator[None]:
    """It runs on a node whose GPUs are all offered as claims."""
    context: Any = context_of("n", SimpleNamespace(), TimelessClock(), Any)  # type: ignore[arg-type]
    board.inventory.publish(GPUS)
    board.configuration.publish(ConfigInForce(PluginConfig(claimed=("all",)), ConfigChoice("", "test")))
    board.holds.publish(DeviceHolds.of((), settled=True))
    devices = ClaimableDevices(context, board, lambda _: {})
    book = SimpleNamespace(uids=lambda: claims, unreadable="")
    sweep: Any = SimpleNamespace(run=asyncio.Event().wait)
    preparation: Any = SimpleNamespace(book=book, metrics=None)
    running = asyncio.create_task(ClaimDriver(context, board, sockets, devices, preparation, sweep).run())
    await settle()
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_claim_that_is_prepared_or_given_back_makes_nobody_look_at_the_node() -> None:
    board, sockets = NodeBoard.blank(SystemClock()), CountedSockets()
    async with driver(board, sockets, {}):
        looks = sockets.looks
        for holds in ((Hold("ml/a", ("GPU-0",), kind=HoldKind.CLAIM),), ()):
            board.holds.publish(DeviceHolds.of(holds, settled=True))
            await settle()
    assert sockets.looks == looks > 0


async def test_a_gpu_that_a_container_has_as_a_resource_is_offered_as_soon_as_it_is_free() -> None:
    board, sockets = NodeBoard.blank(SystemClock()), CountedSockets()
    async with driver(board, sockets, {}):
        for holds, unfit in (((Hold("nvidia.com/gpu", ("GPU-0",), pod="p"),), 1), ((), 0)):
            board.holds.publish(DeviceHolds.of(holds, settled=True))
            await settle()
            offer = board.claims.value
            assert offer is not None
            assert sum(bool(device.unfit) for device in offer.devices) == unfit


async def test_sockets_go_with_the_last_claim_where_none_is_offered_any_more() -> None:
    board, sockets, claims = NodeBoard.blank(SystemClock()), CountedSockets(), {"ml/a": "uid"}
    async with driver(board, sockets, claims):
        board.holds.publish(DeviceHolds.of((Hold("ml/a", ("GPU-0",), kind=HoldKind.CLAIM),), settled=True))
        board.configuration.publish(ConfigInForce(PluginConfig(), ConfigChoice("", "test")))
        await settle()
        assert sockets.served
        claims.clear()
        board.holds.publish(DeviceHolds.of((), settled=True))
        await settle()
        assert not sockets.served
