"""What kubelet says and asks: its checkpoint, its list of pods, and what it sends to the handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from fuzz.documents import INVENTORY
from support.agent_context import context_of
from support.kubelet_side import FastClock
from tonnage.adapters.kubelet.checkpoint_file import holds_in
from tonnage.adapters.kubelet.device_holders import shown_of
from tonnage.adapters.kubelet.plugin_server import PluginServer
from tonnage.adapters.kubelet.unix_socket import reading
from tonnage.agent.board import NodeBoard
from tonnage.agent.holds.hold_ledger import HoldLedger
from tonnage.agent.holds.ledger_file import ledger_bytes
from tonnage.agent.plugin.device_plugin import DevicePlugin
from tonnage.agent.plugin.holders import Holders
from tonnage.decide.node.advertise import advertise
from tonnage.decide.node.choose_config import ConfigChoice, ConfigInForce
from tonnage.decide.node.claims.prepare import prepare
from tonnage.decide.node.claims.sharing import ClaimGround
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.ledger import Evidence, LedgerEntry, gather, holds_of, settle
from tonnage.decide.node.share import share
from tonnage.model.devices.claims import ClaimRef, PreparedClaim, PublishedDevice
from tonnage.model.devices.sharing import Advertisement, Hold, PluginConfig, SharedResource
from tonnage.model.json import parsed_json
from tonnage.model.names import GPU, ResourceName, parse_device_id
from tonnage.ports.node import PluginService, PluginSockets, Shown
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as plugin
from tonnage.wire.kubelet import methods
from tonnage.wire.kubelet import podresources_v1_pb2 as pods

CONFIG = PluginConfig((SharedResource(GPU, ResourceName("nvidia.com/gpu.shared"), 3, ("1",)),))


def checkpoint(data: bytes) -> None:
    try:
        reserved = holds_in(data)
    except (ValueError, KeyError, TypeError, RecursionError):  # what it says it raises
        return
    believe(Shown(), reserved)


def pod_resources(data: bytes) -> None:
    with suppress(DecodeError):
        believe(shown_of(pods.ListPodResourcesResponse.FromString(data)), ())


def believe(shown: Shown, reserved: Sequence[Hold]) -> None:
    """Let the ledger learn from it, write it down, and offer what is left."""
    evidence = gather(Evidence(), shown.holds, tuple(reserved), order=2, settled=True)
    known = tuple(
        LedgerEntry(hold.resource, slot, 1, 0.0) for hold in (*shown.holds, *reserved) for slot in hold.ids
    )[:50]
    ledger = settle((LedgerEntry(GPU, "GPU-1", 1, 0.0), *known), evidence, now=1.0)
    ledger_bytes(ledger, "boot")
    plan = share(INVENTORY, CONFIG)
    held = {(hold.resource, parse_device_id(slot)) for hold in (*shown.holds, *reserved) for slot in hold.ids}
    for offered in advertise(plan, holds_of(evidence, ledger)):
        free = {parse_device_id(slot.id) for slot in offered.slots if slot.healthy}
        others = {
            device.uuid
            for name, device in held
            for own in free
            if (name, device.replica is None) != (offered.resource, own.replica is None)
        }
        assert not {device.uuid for device in free} & others


@contextmanager
def allocate() -> Iterator[Callable[[bytes], None]]:
    with asyncio.Runner() as runner:
        node = runner.run(Node.started())

        def target(data: bytes) -> None:
            with suppress(DecodeError, Refused):
                handle = reading(methods.ALLOCATE, node.server._allocate)
                answer = runner.run(_answered(handle, data))
                for given in answer.container_responses:
                    assert set(given.envs["NVIDIA_VISIBLE_DEVICES"].split(",")) <= {"GPU-0", "GPU-1"}
                node.forget()

        yield target


@contextmanager
def prefer() -> Iterator[Callable[[bytes], None]]:
    with asyncio.Runner() as runner:
        node = runner.run(Node.started())

        def target(data: bytes) -> None:
            with suppress(DecodeError, Refused):
                handle = reading(methods.GET_PREFERRED, node.server._preferred)
                answer = runner.run(_answered(handle, data))
                request = plugin.PreferredAllocationRequest.FromString(data)
                for asked, given in zip(request.container_requests, answer.container_responses, strict=True):
                    chosen = list(given.deviceIDs)
                    assert len(set(chosen)) == len(chosen) <= max(0, asked.allocation_size)
                    assert set(chosen) <= set(asked.available_deviceIDs)

        yield target


async def _answered(handle: Callable[..., Awaitable[Any]], data: bytes) -> Any:
    return await handle(data, Context())


class Refused(Exception):  # noqa: N818 - it is an answer
    """The handler said no, in words."""


class Context:
    """A ServicerContext that can only be refused through."""

    async def abort(self, code: grpc.StatusCode, details: str = "") -> NoReturn:
        assert code is grpc.StatusCode.UNKNOWN
        assert details
        details.encode()
        raise Refused(details)


class Node:
    """An agent's plugin over memory alone: two resources, handlers that can be called."""

    def __init__(self, server: PluginServer, board: NodeBoard, ledger: HoldLedger) -> None:
        self.server = server
        self._board = board
        self._ledger = ledger

    @classmethod
    async def started(cls) -> Node:
        clock = FastClock()
        context = context_of("n", None, clock, Memory())
        board = NodeBoard.blank(clock)
        board.inventory.publish(INVENTORY)
        board.configuration.publish(ConfigInForce(CONFIG, ConfigChoice("", "built-in")))
        ledger = HoldLedger(context, board)
        holders = Holders(context, board, NoKubelet(), ledger)
        await holders._ask()
        sockets = cast("PluginSockets", Sockets())
        made = DevicePlugin(context, board, sockets, ledger, holders, None)
        made._look()
        assert board.offer.value is not None
        await made._act(board.offer.value)
        service = cast("Sockets", sockets).services[GPU]
        return cls(PluginServer(Path("/nowhere"), Advertisement(GPU), service), board, ledger)

    def forget(self) -> None:
        """Containers end at once, or the ledger would grow with every input."""
        self._ledger._entries = {}
        self._board.holds.publish(DeviceHolds(settled=True))


class Memory:
    """Checkpoints that nobody reads."""

    async def load(self, _name: str) -> bytes | None:
        return None

    async def load_added(self, _name: str) -> tuple[bytes, ...]:
        return ()

    async def save(self, _name: str, _payload: bytes, *, lasting: bool = True) -> None: ...

    async def add(self, _name: str, _row: bytes) -> bool:
        return True


class Known:
    def __init__(self, inventory: Any) -> None:
        self.inventory = inventory
        self.error = ""


class Running:
    def __init__(self, current: ConfigInForce) -> None:
        self.current = current


class NoKubelet:
    """A kubelet without pods."""

    def identity(self) -> str:
        return "kubelet"

    async def shown(self) -> Shown:
        return Shown()

    async def checkpoint(self) -> tuple[Hold, ...]:
        return ()

    async def close(self) -> None: ...


class Sockets:
    """Keeps the services that were to be served."""

    def __init__(self) -> None:
        self.services: dict[ResourceName, PluginService] = {}

    def kubelet(self) -> str:
        return "kubelet"

    def present(self, resource: ResourceName) -> bool:
        return resource in self.services

    async def serve(self, advertisement: Advertisement, service: PluginService) -> None:
        self.services[advertisement.resource] = service

    async def publish(self, advertisement: Advertisement) -> None: ...

    async def register(self, resource: ResourceName) -> None: ...


def claim_allocation(data: bytes) -> None:
    """The status of a claim: its devices, who has reserved it, and opaque configurations."""
    with suppress(ValueError):
        status = parsed_json(data)
        if isinstance(status, dict):
            device = PublishedDevice("gpu-0", "GPU-0", {"type": "gpu"})
            ground = ClaimGround("n", {"gpu-0": device}, DeviceHolds())
            decided = prepare(ClaimRef("ml", "c", "u"), "u", status, ground)
            if isinstance(decided, PreparedClaim):
                assert {each.uuid for each in decided.devices} == {"GPU-0"}
