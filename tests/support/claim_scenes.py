"""Agents that prepare, give back and publish claims, and end at any action as if they were killed there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, cast

from support.agent_context import context_of
from support.agent_scenes import Driver, Place, Scene
from tonnage.adapters.cdi.files import FolderCdi
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.agent.board import NodeBoard
from tonnage.agent.claims.claim_specs import ClaimSpecs
from tonnage.agent.claims.devices import ClaimableDevices
from tonnage.agent.claims.partitions import ClaimPartitions
from tonnage.agent.claims.preparation import ClaimPreparation, ClaimWays
from tonnage.agent.claims.publisher import SlicePublisher
from tonnage.agent.claims.sharing import ClaimSharing
from tonnage.agent.holds.claim_book import ClaimBook
from tonnage.agent.holds.hold_ledger import HoldLedger
from tonnage.agent.mps import NodeMps
from tonnage.decide.node.choose_config import ConfigChoice, ConfigInForce
from tonnage.decide.node.claims.sharing import daemon_name
from tonnage.decide.node.claims.slices import desired_specs
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.model.actions.cdi import RemoveSpec, WriteSpec
from tonnage.model.actions.checkpoints import AddRow, SaveCheckpoint
from tonnage.model.actions.cluster import CreateSlice, DeleteSlice, ReplaceSlice
from tonnage.model.actions.devices import (
    CreateComputeInstance,
    CreateGpuInstance,
    DestroyComputeInstance,
    DestroyGpuInstance,
    SetComputeMode,
    SetTimeSlice,
)
from tonnage.model.actions.mps import StartDaemon, StopDaemon
from tonnage.model.devices.claims import DRIVER, ClaimRef, PublishedDevice
from tonnage.model.devices.inventory import Device
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.errors import ClusterError, Problem
from tonnage.wire.kinds import NODE, RESOURCE_CLAIM, RESOURCE_SLICE
from tonnage.wire.objects import Node, ObjectMeta

_AWAY: Final = "the API server is away"
_LATE: Final = ("has not answered for", "control daemon does not serve")
"""The clock runs fast: on a busy machine what is waited for may come too late, and kubelet asks again."""
_REFUSALS: Final = 2
CLAIMS: Final = (ClaimRef("ml", "a", "uid-a"), ClaimRef("ml", "b", "uid-b"))
_DEVICES: Final = tuple(Device(f"GPU-{n}", n, "Tesla T4", 15360, minor=n) for n in range(2))
_SHARING: Final = (
    {"strategy": "MPS"},
    {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}},
)
_SHOW_S: Final = 0.1


def claimed(place: Place) -> None:
    """The scheduler has given each claim a GPU, the first with an MPS daemon, the other with a time slice."""
    place.devices(*(f"{{uuid: {device.uuid}, model: T4}}" for device in _DEVICES))
    for number, (claim, how) in enumerate(zip(CLAIMS, _SHARING, strict=True)):
        _allocated(place, claim, {"device": f"gpu-{number}"}, how)


def _allocated(place: Place, claim: ClaimRef, device: dict[str, Any], how: Any = None) -> None:
    """The claim has that device, shared like that."""
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": how}
    config = {"source": "FromClaim", "opaque": {"driver": DRIVER, "parameters": parameters}}
    devices = {
        "results": [{"request": "gpu", "driver": DRIVER, "pool": "n", **device}],
        "config": [config] if how else [],
    }
    meta, status = {"uid": claim.uid}, {"allocation": {"devices": devices}}
    place.cluster.put(RESOURCE_CLAIM, claim.name, claim.namespace, metadata=meta, status=status)


class AwayAtFirst:
    """The cluster, whose API server does not answer what is read until it was asked some times."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._left = _REFUSALS

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def get(self, *arguments: Any, **options: Any) -> Any:
        self._refuse()
        return await self._cluster.get(*arguments, **options)

    async def list(self, *arguments: Any, **options: Any) -> Any:
        self._refuse()
        return await self._cluster.list(*arguments, **options)

    def _refuse(self) -> None:
        if self._left:
            self._left -= 1
            raise ClusterError(Problem(_AWAY))


@asynccontextmanager
async def _begun(place: Place, offer: dict[str, Any]) -> AsyncIterator[tuple[ClaimPreparation, NodeBoard]]:
    """An agent that has just started; what an earlier one answered is held, whatever became of the claims."""
    context = context_of(
        *("n", AwayAtFirst(place.cluster), place.clock),
        FolderCheckpoints(place.root / "var/lib/tonnage"),
        specs=FolderCdi(place.root),
        devices=Driver(place),
        daemons=place,
    )
    board = NodeBoard.blank(place.clock)
    board.inventory.publish(await Driver(place).scan())
    config = PluginConfig(claimed=("all",), mps_root="/mps", **offer)
    board.configuration.publish(ConfigInForce(config, ConfigChoice("", "test")))
    ledger = HoldLedger(context, board)
    await ledger.restore()
    book = ClaimBook(context, ledger, boot="")
    await book.restore()
    holds = board.holds.value
    board.holds.publish(DeviceHolds.of(holds.holds))
    lost = {uuid for uuid, state in place.answered.items() if state == "prepared"}
    lost -= {slot for _, slot in board.holds.value.by_id}
    assert not lost, f"{lost} was answered, and nobody knows"
    devices = ClaimableDevices(context, board, lambda _: {}, book.partitions)
    specs = ClaimSpecs(context, board, FolderCdi(place.root))
    sharing = ClaimSharing(context, board, book)
    sharing.restore()
    driver = Driver(place)

    async def rescan() -> None:
        board.inventory.publish(await driver.scan())

    ways = ClaimWays(specs, sharing, ClaimPartitions(context, board, book, driver, rescan))
    preparation = ClaimPreparation(context, board, ledger, book, devices, ways)
    running = asyncio.ensure_future(NodeMps(context, board, cast(Any, place)).run())
    try:
        yield preparation, board
    finally:
        if running.done():  # by itself, which it must not
            running.result()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def partitioned(place: Place) -> None:
    """The scheduler has given each claim a MIG device that does not exist yet."""
    place.devices("{uuid: GPU-0, model: A100-40, mig: []}")
    for claim, device in zip(CLAIMS, ("gpu-0-mig-3g20gb-9-4", "gpu-0-mig-1g5gb-19-0"), strict=True):
        _allocated(place, claim, {"device": device})


def divided(place: Place) -> None:
    """The scheduler has given each claim a part of one GPU, with the same time slice."""
    place.devices("{uuid: GPU-0, model: T4}")
    for claim, digit in zip(CLAIMS, "12", strict=True):
        share = {"shareID": f"{digit * 8}-0000-4000-8000-000000000000", "consumedCapacity": {"shares": "1"}}
        _allocated(place, claim, {"device": "gpu-0", **share}, _SHARING[1])


def whole(place: Place) -> None:
    """The scheduler has given each claim a GPU of its own."""
    place.devices(*(f"{{uuid: {device.uuid}, model: T4}}" for device in _DEVICES))
    for number, claim in enumerate(CLAIMS):
        _allocated(place, claim, {"device": f"gpu-{number}"})


async def prepares(place: Place, **offer: Any) -> None:
    """kubelet asks for one claim after the other, and again until each is answered.

    The API server is away at first: what an earlier agent noted is answered without it.
    """
    async with _begun(place, offer) as (preparation, _):
        await _prepare(place, preparation)
        await asyncio.Event().wait()


async def _prepare(place: Place, preparation: ClaimPreparation) -> None:
    noted = _noted(place)
    for claim in CLAIMS:
        while isinstance(answer := (await preparation.prepare([claim]))[claim.uid], str):
            late = any(text in answer for text in _LATE)
            assert late or (_AWAY in answer and claim.uid not in noted), answer
        _, names = answer
        assert place.answered.setdefault(claim.uid, " ".join(names)) == " ".join(names)
        for device in answer[0].devices:
            place.answered[device.uuid] = "prepared"
        place.note(f"after answering {claim.name}")


async def gives_back(place: Place, **offer: Any) -> None:
    """The same, then kubelet takes the claims back, whose objects are gone."""
    async with _begun(place, offer) as (preparation, board):
        if "over" not in place.answered:
            await _prepare(place, preparation)
            place.answered = {"over": "yes"}
            for claim in CLAIMS:
                place.cluster.remove(RESOURCE_CLAIM, claim.name, claim.namespace)
            place.note("after the claims are deleted")
        for claim in CLAIMS:
            assert await preparation.unprepare([claim]) == {claim.uid: ""}
            place.note(f"after giving back {claim.name}")
        assert not board.holds.value.holds, "nothing is left in the ledger"
        place.answered["done"] = "yes"
        await asyncio.Event().wait()


def _specs(place: Place) -> list[str]:
    """The claims that have specs; also a file that was to become one."""
    names = sorted(file.name for file in (place.root / "var/run/cdi").glob("*claim_*"))
    return [name.removeprefix("k8s.gpu.nvidia.com-claim_").removesuffix(".json") for name in names]


def _noted(place: Place) -> list[str]:
    content = place.checkpoint("claims")
    return [row["claim"][2] for row in json.loads(content)["claims"]] if content else []


def _answered(place: Place) -> list[str]:
    return sorted(key for key in place.answered if key.startswith("uid"))


_BOTH: Final = ["uid-a", "uid-b"]
_NOTHING_SHARED: Final[tuple[Any, ...]] = ([], {}, {})


def stands(*shared: Any, made: Sequence[str] = ()) -> Callable[[Place], str]:
    """What is wrong until both claims are answered, and devices are shared and made like that."""

    def wrong(place: Place) -> str:
        seen = _noted(place), _specs(place), _answered(place), _shared(place), place.made()
        right = _BOTH, _BOTH, _BOTH, shared or _NOTHING_SHARED, [*made]
        return "" if seen == right else f"claims: {seen}"

    return wrong


def given_back(place: Place) -> str:
    """What is wrong until nothing is left of the claims."""
    seen = _noted(place), _specs(place), "done" in place.answered, _shared(place), place.made()
    return "" if seen == ([], [], True, _NOTHING_SHARED, []) else f"claims: {seen}"


def _shared(place: Place) -> tuple[list[str], dict[str, int], dict[str, int]]:
    """The daemons, and the modes and time slices of GPUs that are not as they were."""
    driver = Driver(place)
    modes, slices = driver.settings()
    return (
        sorted(place.daemons),
        {uuid: int(mode) for uuid, mode in modes.items() if mode},
        {uuid: int(interval) for uuid, interval in slices.items() if interval},
    )


async def publishes(place: Place) -> None:
    """Has slices say how many devices `place.answered` has, once the API server answers."""
    context = context_of("n", AwayAtFirst(place.cluster), place.clock, FolderCheckpoints(place.root))
    board = NodeBoard.blank(place.clock)
    board.node.publish(Node(metadata=ObjectMeta(name="n", uid="uid-n")))
    publisher = SlicePublisher(context, board, lambda: None)
    running = asyncio.ensure_future(publisher.run())
    try:
        while not running.done():
            count = int(place.answered.get("devices", "1"))
            devices = [PublishedDevice(f"gpu-{n}", f"GPU-{n}") for n in range(count)]
            publisher.show(desired_specs(devices, "n"))
            await place.clock.sleep(_SHOW_S)
    finally:
        running.cancel()
        (ended,) = await asyncio.gather(running, return_exceptions=True)
    if isinstance(ended, Exception):
        raise ended


def with_node(place: Place) -> None:
    place.cluster.put(NODE, "n", metadata={"uid": "uid-n"})


def published(*counts: int) -> Any:
    """What is wrong until there are slices with so many devices, all of one generation."""

    def wrong(place: Place) -> str:
        slices = [
            obj for key, obj in sorted(place.cluster.objects.items()) if key[0] == RESOURCE_SLICE.plural
        ]
        seen = [len(obj["spec"]["devices"]) for obj in slices]
        pools = {json.dumps(obj["spec"]["pool"], sort_keys=True) for obj in slices}
        return "" if seen == [*counts] and len(pools) <= 1 else f"slices: {seen}, pools {pools}"

    return wrong


def shows(count: int) -> Any:
    return lambda place: place.answered.update(devices=str(count))


_SHARED: Final = ([daemon_name("uid-a", 0)], {"GPU-0": 3}, {"GPU-1": 3})
_PARTS: Final[dict[str, Any]] = {"partitioned": True}
_SHARES: Final[dict[str, Any]] = {"claim_shares": "4"}

CLAIM_SCENES: Final = (
    Scene(
        "claims of whole GPUs prepared",
        (SaveCheckpoint, AddRow, WriteSpec),
        *(whole, stands()),
        life=prepares,
    ),
    Scene(
        "claims of whole GPUs given back",
        (SaveCheckpoint, RemoveSpec),
        *(whole, given_back),
        life=gives_back,
    ),
    Scene(
        "claims by MPS and by time slices prepared",
        (SaveCheckpoint, AddRow, WriteSpec, SetComputeMode, SetTimeSlice, StartDaemon),
        *(claimed, stands(*_SHARED)),
        life=prepares,
        variant=True,
    ),
    Scene(
        "claims by MPS and by time slices given back",
        (SaveCheckpoint, RemoveSpec, SetComputeMode, SetTimeSlice, StopDaemon),
        *(claimed, given_back),
        life=gives_back,
        variant=True,
    ),
    Scene(
        "claims of parts of a GPU prepared",
        (SaveCheckpoint, AddRow, WriteSpec, SetTimeSlice),
        *(divided, stands([], {}, {"GPU-0": 3})),
        life=partial(prepares, **_SHARES),
    ),
    Scene(
        "claims of parts of a GPU given back",
        (SaveCheckpoint, RemoveSpec, SetTimeSlice),
        *(divided, given_back),
        life=partial(gives_back, **_SHARES),
    ),
    Scene(
        "MIG devices made for claims",
        (CreateGpuInstance, CreateComputeInstance, SaveCheckpoint, WriteSpec),
        *(partitioned, stands(made=("1g.5gb", "3g.20gb"))),
        life=partial(prepares, **_PARTS),
    ),
    Scene(
        "MIG devices of claims removed",
        (DestroyComputeInstance, DestroyGpuInstance, SaveCheckpoint, RemoveSpec),
        *(partitioned, given_back),
        life=partial(gives_back, **_PARTS),
    ),
    Scene(
        "slices published",
        (CreateSlice, ReplaceSlice, DeleteSlice),
        with_node,
        published(),
        (
            (published(1), shows(100)),
            (published(64, 36), shows(3)),
            (published(3), shows(0)),
        ),
        life=publishes,
    ),
)
