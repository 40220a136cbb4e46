"""Counts up what containers use of devices, after each reading, safe from the agent's own end."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.agent.exporter.derived import Derived
from tonnage.agent.exporter.sampling import DeviceSampler
from tonnage.decide.node.exporter.holders import Holders, device_key
from tonnage.decide.node.exporter.processes import HolderUse
from tonnage.decide.node.exporter.readings import TimedSample, entities_of
from tonnage.decide.node.exporter.shares import DeviceShare, Replicas, Shares, fractions_of, shares_of
from tonnage.decide.node.exporter.usage import DeviceActivity, ProcessActivity, activity_of, uses_of
from tonnage.decide.node.exporter.usage_counters import UsageCounters, counters_from_json, counters_json
from tonnage.model.actions.checkpoints import SaveCheckpoint
from tonnage.model.errors import HardwareError
from tonnage.model.json import parsed_json
from tonnage.model.node.pod_usage import DeviceUse, DeviceUser
from tonnage.model.node.telemetry import DeviceEntity, Entity, InstanceEntity

_LOG: Final = logging.getLogger(__name__)
CHECKPOINT: Final = "pod-usage"
EVEN: Final = "without --attribute-processes the agent does not see whose processes use a device"


class ProcessSource(Protocol):
    """Tells what processes have of devices that several containers share."""

    async def read(self) -> None:
        """Look at the processes as they are now."""
        ...

    def of(self, entity: DeviceEntity, shares: Sequence[DeviceShare]) -> Sequence[ProcessActivity] | None:
        """Those of a device, each with the container that it is of; None: nobody tells."""
        ...

    def uses(self, entities: Sequence[DeviceEntity], holders: Holders) -> Mapping[Entity, HolderUse]:
        """What each pod's processes have of each device that is held, as dcgm-exporter shows it."""
        ...

    @property
    def reason(self) -> str:
        """Why processes are not known; empty where they are."""
        ...


def offered_replicas(board: NodeBoard) -> Replicas:
    """Into how many replicas the agent divides each device."""
    offer = board.offer.value
    return {
        (resource.name, slot.uuid): resource.replicas
        for resource in (offer.plan.resources if offer is not None else ())
        for slot in resource.first_slots
    }


class UsageMeter:
    """What was used so far, of those who hold a device now: `counters`, and `uses` at the last reading.

    What is shown is on disk first, so that no counter is ever less after a restart than it was shown before.
    """

    def __init__(
        self,
        context: AgentContext,
        board: NodeBoard,
        sampler: DeviceSampler,
        *,
        replicas: Callable[[], Replicas],
        processes: ProcessSource | None = None,
    ) -> None:
        self._node = context.node
        self._checkpoints = context.checkpoints
        self._performer = context.performer
        self._board = board
        self._sampler = sampler
        self.replicas = replicas
        self.processes = processes
        self._before: frozenset[DeviceUser] = frozenset()
        """Who held a device at the reading before: what was used since is theirs."""
        self._shares = Derived[Shares]()
        self._read_at: dict[str, float] = {}
        self._saved = b""
        self._complaint = ""
        self.counters = UsageCounters(round(context.clock.now().timestamp(), 3))
        self.uses: Mapping[DeviceUser, DeviceUse] = {}

    async def run(self) -> None:
        """Count after each reading until cancelled."""
        await self.restore()
        while True:
            await self._sampler.sampled.wait()
            self._sampler.sampled.clear()
            await self.count()

    async def restore(self) -> None:
        """Go on from what an earlier agent counted; where that cannot be used, counting begins now."""
        try:
            payload = await self._checkpoints.load(CHECKPOINT)
            if payload is not None:
                self.counters = counters_from_json(parsed_json(payload))
        except (HardwareError, ValueError) as error:
            _LOG.warning("usage of pods is counted from now on: node=%s error=%s", self._node, error)

    def shares(self) -> Shares:
        """Who holds which part of which device now."""
        inventory = self._board.inventory.value
        if inventory is None:
            return {}
        holds, replicas = self._board.holds.value.holds, self.replicas()
        return self._shares.of(
            (inventory, holds, replicas), lambda: shares_of(holds, entities_of(inventory), replicas)
        )

    def even_reason(self, shares: Shares) -> str:
        """Why a device that is shared is divided evenly; empty where none is."""
        if all(len(of_device) == 1 for of_device in shares.values()):
            return ""
        return EVEN if self.processes is None else self.processes.reason

    async def count(self) -> None:
        """Count what was used since the last reading."""
        shares = self.shares()
        if self.processes is not None and shares:
            await self.processes.read()
        uses = {use.user: use for use in self._uses(shares)}
        users = frozenset(share.user for of_device in shares.values() for share in of_device)
        counters = self.counters.plus(
            use if use.user in self._before else replace(use, seconds=None, compute=None, energy=None)
            for use in uses.values()
        )
        if self._board.holds.value.settled:
            counters = counters.of(users)
        await self._save(counters)
        self.counters, self.uses, self._before = counters, uses, users

    def _uses(self, shares: Shares) -> Iterator[DeviceUse]:
        inventory = self._board.inventory.value
        if inventory is None:
            return
        samples = self._sampler.fresh()
        fractions = {device.uuid: fractions_of(device) for device in inventory.devices if device.mig_enabled}
        for entity in entities_of(inventory):
            of_device = shares.get(device_key(entity), ())
            fraction = 1.0
            if isinstance(entity, InstanceEntity):
                fraction = fractions[entity.gpu.uuid][entity.gpu_instance]
            activity = self._activity(entity, samples, fraction) if of_device else None
            if activity is not None:
                yield from uses_of(activity, of_device, self._processes_of(entity, of_device))
        self._read_at = {uuid: timed.seen_s for uuid, timed in samples.items()}

    def _processes_of(
        self, entity: DeviceEntity, shares: Sequence[DeviceShare]
    ) -> Sequence[ProcessActivity] | None:
        return None if self.processes is None or len(shares) < 2 else self.processes.of(entity, shares)

    def _activity(
        self, entity: DeviceEntity, samples: Mapping[str, TimedSample], part: float
    ) -> DeviceActivity | None:
        """Of a device that did not answer since, only what it said last of the present."""
        activity = activity_of(entity, samples, part)
        gpu = entity.gpu if isinstance(entity, InstanceEntity) else entity
        timed = samples.get(gpu.uuid)
        if activity is None or timed is None or self._read_at.get(gpu.uuid) != timed.seen_s:
            return activity
        return replace(activity, seconds=0.0, energy_j=None)

    async def _save(self, counters: UsageCounters) -> None:
        payload = json.dumps(counters_json(counters)).encode()
        if payload == self._saved:
            return
        try:
            await self._performer.perform(SaveCheckpoint(CHECKPOINT, payload, lasting=False))
        except HardwareError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                _LOG.warning("usage of pods not kept on disk: node=%s error=%s", self._node, error)
            return
        self._saved, self._complaint = payload, ""
