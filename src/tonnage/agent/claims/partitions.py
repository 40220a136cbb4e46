"""Makes the MIG devices that a claim has at their exact places, and removes them with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.agent.holds.claim_book import ClaimBook
from tonnage.decide.node.claims.partition_steps import StandingMigDevice, making_step, removing_step
from tonnage.model.actions.subjects import MIG_LAYOUT
from tonnage.model.devices.claims import Partition, PreparedClaim, PreparedDevice
from tonnage.model.errors import HardwareError, Problem
from tonnage.model.mig.layouts import DividedGpu, MigWork
from tonnage.model.reasons.gpu.mig import MigModeOff
from tonnage.ports.node import DeviceReader

_MOST_STEPS: Final = 32


class ClaimPartitions:
    """Each step follows from the GPU as it is, so that whoever comes after a crash goes on where it stands.

    What is to be made is in the book first, and stays there until it is removed.
    """

    def __init__(
        self,
        context: AgentContext,
        board: NodeBoard,
        book: ClaimBook,
        hardware: DeviceReader,
        rescan: Callable[[], Awaitable[None]],
    ) -> None:
        self._performer = context.performer
        self._board = board
        self._book = book
        self._hardware = hardware
        self._rescan = rescan
        self._changing = asyncio.Lock()

    async def begin(self, prepared: PreparedClaim) -> PreparedClaim:
        """The claim with its MIG devices, once they are there. Raises HardwareError: why they are not."""
        if all(device.partition is None for device in prepared.devices):
            return prepared
        async with self._changing:
            devices = tuple([await self._with_part(device) for device in prepared.devices])
            await self._rescan()
        return replace(prepared, devices=devices)

    async def end(self, prepared: PreparedClaim) -> None:
        """Remove the MIG devices that were made for the claim. Raises HardwareError: one stays, and why."""
        parts = [device.partition for device in prepared.devices if device.partition is not None]
        if not parts:
            return
        async with self._changing:
            for part in parts:
                await self._removed(part)
            await self._rescan()

    def of_others(self, uid: str) -> dict[str, tuple[Partition, ...]]:
        """What is made for other claims, by `namespace/name`."""
        return {
            str(noted.claim): tuple(device.partition for device in noted.devices if device.partition)
            for noted in self._book.current_claims()
            if noted.claim.uid != uid
        }

    async def _with_part(self, device: PreparedDevice) -> PreparedDevice:
        """The device with the UUID of its MIG device, which is made step by step. Raises HardwareError."""
        part = device.partition
        if part is None:
            return device
        for _ in range(_MOST_STEPS):
            gpu, sight = await self._performer.look(MIG_LAYOUT, self._gpu(part))
            if gpu is None:
                raise HardwareError(Problem(f"GPU {part.gpu} does not answer"))
            step = making_step(part, gpu)
            if isinstance(step, StandingMigDevice):
                return replace(device, uuid=step.uuid)
            if isinstance(step, MigModeOff):
                raise HardwareError(Problem(step.message, remedy=step.remedy))
            await self._performer.perform(step, sight)
        raise HardwareError(
            Problem(f"{part.profile} cannot be made on {part.gpu}", why="somebody removes it")
        )

    async def _removed(self, part: Partition) -> None:
        for _ in range(_MOST_STEPS):
            gpu, sight = await self._performer.look(MIG_LAYOUT, self._gpu(part))
            step = None if gpu is None else removing_step(part, gpu)
            if step is None:
                return
            await self._performer.perform(step, sight)
        raise HardwareError(Problem(f"{part.profile} cannot be removed from {part.gpu}"))

    async def _gpu(self, part: Partition) -> DividedGpu | None:
        """Raises HardwareError: no GPU answers, or another change of the layout is under way."""
        if self._board.mig_work.value is MigWork.CHANGING:
            raise HardwareError(Problem("the node's MIG layout is being changed", why="try again after it"))
        gpus = await self._hardware.divided()
        return next((gpu for gpu in gpus if gpu.uuid == part.gpu), None)
