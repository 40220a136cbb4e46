"""Processes on shared devices, and whose they are: looked at after each reading of the devices."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.decide.node.exporter.holders import DeviceKey, Holders, device_key
from tonnage.decide.node.exporter.process_owners import (
    PodProcesses,
    activities_of,
    by_clients,
    pods_by_uid,
)
from tonnage.decide.node.exporter.processes import HolderUse, holder_use
from tonnage.decide.node.exporter.shares import DeviceShare
from tonnage.decide.node.exporter.usage import ProcessActivity
from tonnage.model.devices.inventory import GpuProcess
from tonnage.model.errors import ConfigError, HardwareError
from tonnage.model.node.processes import ProcessTable
from tonnage.model.node.telemetry import DeviceEntity, Entity, GpuEntity, ProcessUse
from tonnage.ports.node import DeviceReader, ProcessView

_LOG: Final = logging.getLogger(__name__)
_MIB: Final = 1 << 20
_NO_PODS: Final = "the agent has not read the pods of this node yet"
_OTHER_NUMBERS: Final = "processes of other pods cannot be seen: the agent's pod needs hostPID"
_NOT_READ: Final = "the driver does not list processes"


class DeviceProcesses:
    """What the driver, the kernel and the API server say of processes together."""

    def __init__(
        self, context: AgentContext, board: NodeBoard, backend: DeviceReader, processes: ProcessView
    ) -> None:
        self._clock = context.clock
        self._board = board
        self._backend = backend
        self._view = processes
        self._listed: Mapping[DeviceKey, Sequence[GpuProcess]] | None = None
        self._owners = PodProcesses(ProcessTable(), 0.0, {})

    @property
    def reason(self) -> str:
        """Why processes are not known; empty where they are."""
        if self._listed is None:
            return _NOT_READ
        if not self._owners.table.is_host:
            return _OTHER_NUMBERS
        return "" if self._owners.pods else _NO_PODS

    async def read(self) -> None:
        """Ask the driver, then the kernel: what began in between has another's number, and does not count."""
        listed_s = self._view.uptime_s()
        try:
            processes = await self._backend.processes()
        except (HardwareError, ConfigError) as error:
            if self._listed is not None:
                _LOG.warning("processes not listed: %s", error)
            self._listed = None
            return
        pids = frozenset(process.pid for process in processes)
        table = await self._view.read(pids, self._clock.now().timestamp())
        listed: dict[DeviceKey, list[GpuProcess]] = {}
        for process in processes:
            listed.setdefault((process.uuid, process.gpu_instance), []).append(process)
        self._owners = PodProcesses(table, listed_s, pods_by_uid(self._board.pods.value))
        self._listed = listed

    def of(self, entity: DeviceEntity, shares: Sequence[DeviceShare]) -> Sequence[ProcessActivity] | None:
        """Those of a device, each with the container that it is of; None: nobody tells."""
        if self._listed is None or self.reason:
            return None
        return activities_of(self._listed.get(device_key(entity), ()), self._owners, shares)

    def uses(self, entities: Sequence[DeviceEntity], holders: Holders) -> Mapping[Entity, HolderUse]:
        """What each pod's processes have of each device that is held, as dcgm-exporter shows it."""
        if self._listed is None or self.reason:
            return {}
        uses: dict[Entity, HolderUse] = {}
        identities = dict(self._owners.pods.values())
        for entity in entities:
            key = device_key(entity)
            processes = tuple(by_clients(self._listed.get(key, ()), self._owners))
            owners = {process.pid: self._owners.owner(process.pid) for process in processes}
            uses[entity] = holder_use(
                holders.get(key, ()),
                [_use(process, self._owners) for process in processes],
                {pid: identities[owner[0]].uid for pid, owner in owners.items() if owner is not None},
                identities,
                measures_utilization=isinstance(entity, GpuEntity)
                and all(process.utilization is not None for process in processes),
            )
        return uses


def _use(process: GpuProcess, owners: PodProcesses) -> ProcessUse:
    percent = process.utilization if owners.was_reading_of(process) else None
    memory = None if process.memory_mib is None else process.memory_mib * _MIB
    return ProcessUse(process.pid, memory, None if percent is None else round(percent))
