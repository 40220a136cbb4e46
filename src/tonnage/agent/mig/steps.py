"""Takes the steps of a MIG change, one after another, each decided from the GPUs as they are by then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.agent.mig.state import words
from tonnage.decide.node.mig.change import MigChange
from tonnage.decide.node.mig.obstacles import change_refused, layout_contested
from tonnage.decide.node.mig.steps import permitted_step
from tonnage.decide.node.mig.transitions import MigChangeEvent, refusal_of
from tonnage.model.actions.devices import MigStep
from tonnage.model.actions.subjects import MIG_LAYOUT
from tonnage.model.devices.inventory import Inventory
from tonnage.model.errors import ConfigError, HardwareError
from tonnage.model.mig.layouts import DividedGpu
from tonnage.model.reasons.gpu.mig import (
    MigBoardResetNeeded,
    MigObstacle,
    MigRestartNeeded,
)
from tonnage.ports.node import DeviceReader

_TRIES: Final = 3
_TRY_AGAIN_S: Final = 1.0
_MOST_STEPS: Final = 4096


@dataclass(frozen=True, slots=True)
class StepsEnd:
    """How the steps of a change ended, and what refused them where they did not reach their goal.

    `stubborn`: GPUs that were found to want a reset together with their board.
    """

    event: MigChangeEvent
    refusal: MigObstacle | None = None
    stubborn: tuple[str, ...] = ()


class MigSteps:
    """Takes them over the node's driver. `stubborn` are GPUs that took no other mode without a reset."""

    def __init__(self, context: AgentContext, board: NodeBoard, hardware: DeviceReader) -> None:
        self._clock = context.clock
        self._performer = context.performer
        self._board = board
        self._hardware = hardware
        self.stubborn: set[str] = set()

    async def take(self, change: MigChange) -> StepsEnd:
        """Until nothing is left to do, or a step was refused again and again."""
        tries = 0
        for _ in range(_MOST_STEPS):
            step: MigStep | MigObstacle | None = None
            try:
                gpus, sight = await self._performer.look(MIG_LAYOUT, self._hardware.divided())
                step = self._next(change, gpus)
                if step is None:
                    return StepsEnd(MigChangeEvent.REACHED)
                if isinstance(step, MigBoardResetNeeded):
                    self.stubborn.add(step.uuid)
                    return StepsEnd(refusal_of(step), step, (step.uuid,))
                if isinstance(step, MigRestartNeeded):
                    return StepsEnd(refusal_of(step), step)
                if not isinstance(step, MigObstacle):
                    await self._performer.perform(step, sight)
                    continue
                refusal: MigObstacle = step
            except (HardwareError, ConfigError) as error:
                refusal = change_refused(change.config, words(error))
            tries += 1
            if tries >= _TRIES:
                return StepsEnd(refusal_of(step), refusal)
            await self._clock.sleep(_TRY_AGAIN_S)
        return StepsEnd(MigChangeEvent.REFUSED, layout_contested(change.config))

    def _next(self, change: MigChange, gpus: Sequence[DividedGpu]) -> MigStep | MigObstacle | None:
        inventory = self._board.inventory.value or Inventory()
        return permitted_step(change, gpus, self._board.holds.value, inventory, self.stubborn)
