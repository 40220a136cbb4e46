"""The condition `GPUsHealthy` of the agent's Node, for everybody who looks at nodes."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from typing import Final

from tonnage.adapters.ports import KubernetesApi, PatchType
from tonnage.agent.devices import NodeDevices
from tonnage.agent.world import World
from tonnage.model.devices import Inventory
from tonnage.model.errors import ApiError, ClusterError, HardwareError
from tonnage.model.json import JsonObject
from tonnage.wire.kinds import NODE
from tonnage.wire.timestamps import timestamp

_LOG: Final = logging.getLogger(__name__)
TYPE: Final = "GPUsHealthy"
CHECKPOINT: Final = "node-condition"
_AGAIN_S: Final = 300.0
_RETRY_S: Final = 5.0
_REFUSED_S: Final = 600.0
_NOT_OFTENER_S: Final = 0.5
_LONGEST: Final = 1024


@dataclass(frozen=True, slots=True)
class Finding:
    """What the condition says; `status` is True, False or Unknown."""

    status: str
    reason: str
    message: str


def finding(inventory: Inventory | None, error: str) -> Finding:
    """The condition as it follows from the devices.

    >>> finding(None, "").status
    'Unknown'
    """
    if error:
        return Finding("False", "DevicesNotReadable", _cut(error))
    if inventory is None:
        return Finding("Unknown", "DevicesNotReadYet", "the devices are being read")
    faulty = [f"{device.uuid}: {device.reason}" for device in inventory.devices if not device.healthy]
    parts = [
        f"{mig.uuid}: {mig.reason}"
        for device in inventory.devices
        if device.healthy
        for mig in device.migs
        if not mig.healthy
    ]
    total = len(inventory.devices)
    if not faulty and not parts:
        return Finding("True", "AllGPUsHealthy", f"{total} of {total} GPUs may be used")
    reason = "NoGPUHealthy" if len(faulty) == total else "SomeGPUsUnhealthy"
    head = f"{total - len(faulty)} of {total} GPUs may be used"
    return Finding("False", reason, _cut("; ".join([head, *faulty, *parts])))


class NodeCondition:
    """Keeps the condition like the devices. An API server that refuses it is asked again now and then.

    When it last changed is on disk: the agent may not read its Node for that.
    """

    def __init__(self, world: World, devices: NodeDevices) -> None:
        self._node = world.node
        self._api = world.api
        self._clock = world.clock
        self._checkpoints = world.checkpoints
        self._devices = devices
        self._dirty = asyncio.Event()
        self._since: tuple[str, str] = ("", "")
        """The status that was written last, and since when it has been so."""
        self._written: Finding | None = None
        self._complaint = ""
        self._due = 0.0

    def look(self) -> None:
        """The devices changed."""
        self._dirty.set()

    async def run(self) -> None:
        """Write after every change until cancelled."""
        if self._api is None:
            return
        await self._restore()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tick())
            while True:
                await self._dirty.wait()
                self._dirty.clear()
                found = finding(self._devices.inventory, self._devices.error)
                now = self._clock.monotonic()
                changed = found != self._written and not self._complaint
                if found.status != "Unknown" and (changed or now >= self._due):
                    await self._write(self._api, found)
                await self._clock.sleep(_NOT_OFTENER_S)

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(_RETRY_S)
            if self._clock.monotonic() >= self._due:
                self._dirty.set()

    async def _write(self, api: KubernetesApi, found: Finding) -> None:
        at = timestamp(self._clock.now())
        since = self._since if self._since[0] == found.status else (found.status, at)
        condition: JsonObject = {
            "type": TYPE,
            "status": found.status,
            "reason": found.reason,
            "message": found.message,
            "lastHeartbeatTime": at,
            "lastTransitionTime": since[1],
        }
        patch: JsonObject = {"status": {"conditions": [condition]}}
        try:
            await api.patch(NODE, self._node, patch, patch_type=PatchType.STRATEGIC, subresource="status")
        except ClusterError as error:
            refused = isinstance(error, ApiError) and error.code == 403
            self._due = self._clock.monotonic() + (_REFUSED_S if refused else _RETRY_S)
            if str(error) != self._complaint:
                self._complaint = str(error)
                _LOG.warning("condition %s not written: node=%s error=%s", TYPE, self._node, error)
            return
        self._written, self._complaint = found, ""
        self._due = self._clock.monotonic() + _AGAIN_S
        if since != self._since:
            self._since = since
            await self._save()

    async def _save(self) -> None:
        try:
            await self._checkpoints.save(CHECKPOINT, json.dumps(self._since).encode())
        except HardwareError as error:
            _LOG.warning("condition %s not kept on disk: node=%s error=%s", TYPE, self._node, error)

    async def _restore(self) -> None:
        try:
            payload = await self._checkpoints.load(CHECKPOINT)
            if payload is not None:
                status, since = json.loads(payload)
                self._since = (str(status), str(since))
        except (HardwareError, ValueError, TypeError) as error:
            _LOG.warning("condition %s not known from before: node=%s error=%s", TYPE, self._node, error)


def _cut(text: str) -> str:
    line = "; ".join(part.strip() for part in text.splitlines())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
