"""The DaemonSets under the names of NVIDIA's operands, as long as a policy asks for them."""

from __future__ import annotations

from collections.abc import Callable

from tonnage.controller.context import ControllerWorld
from tonnage.decide.cluster.operate.operand_sets import APPLIED_HASH, OperandSets, SeenObject, operand_sets
from tonnage.loop.informer import Informer, Key
from tonnage.model.errors import ApiError
from tonnage.model.gpu_policy import GpuPolicy
from tonnage.model.operands import OPERAND_LABEL
from tonnage.wire.kinds import DAEMON_SET
from tonnage.wire.objects import DaemonSet


class OperandLoop:
    """Keeps them like the policy; without an image for their pods it leaves all alone."""

    def __init__(self, world: ControllerWorld, changed: Callable[[Key], None]) -> None:
        self._world = world
        self._sets = Informer(
            world.api, DAEMON_SET, world.clock, namespace=world.operator_namespace, on_change=changed
        )

    @property
    def copies(self) -> tuple[Informer[DaemonSet], ...]:
        """What has to be kept fresh for it."""
        return (self._sets,) if self._world.operand_image else ()

    async def follow(self, policy: GpuPolicy) -> str:
        """Have the DaemonSets be as the policy says; why one cannot."""
        world = self._world
        if not world.operand_image:
            return ""
        seen = [_seen(found) for found in self._sets]
        wanted = operand_sets(policy, world.operand_image, world.operator_namespace, seen)
        try:
            await self._perform(wanted)
        except ApiError as error:
            return f"the DaemonSets in {world.operator_namespace} are not as the policy says: {error.message}"
        return wanted.problem

    async def _perform(self, wanted: OperandSets) -> None:
        performer = self._world.performer
        for action in wanted.applied:
            await performer.perform(action)
        for gone in wanted.deleted:
            reading = self._world.api.get(DAEMON_SET, gone.name, gone.namespace)
            _, sight = await performer.look(gone.subject, reading)
            await performer.perform(gone, sight)


def _seen(found: DaemonSet) -> SeenObject:
    meta = found.metadata
    part = meta.labels.get(OPERAND_LABEL, "")
    return SeenObject(meta.name, meta.uid, part, meta.annotations.get(APPLIED_HASH, ""))
