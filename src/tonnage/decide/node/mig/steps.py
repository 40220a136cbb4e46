"""What is done next in a change of the MIG layout, or why nothing can be done.

It follows from the change and from the GPUs as they are, and from nothing that was done before: whoever takes
over after a crash goes on where it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.mig.change import GpuShape, MigChange, create_step, mode_step, surplus
from tonnage.decide.node.mig.gpu_users import in_the_way
from tonnage.decide.node.mig.obstacles import (
    board_reset_needed,
    device_in_use,
    foreign_instance,
    gpu_gone,
    restart_needed,
)
from tonnage.decide.node.mig.reset_groups import resets_of
from tonnage.model.actions.devices import DestroyComputeInstance, DestroyGpuInstance, MigStep, ResetGpu
from tonnage.model.devices.inventory import Inventory
from tonnage.model.mig.layouts import DividedGpu, GpuInstance
from tonnage.model.reasons.gpu.mig import MigObstacle


def permitted_step(
    change: MigChange,
    gpus: Sequence[DividedGpu],
    held: DeviceHolds,
    inventory: Inventory,
    stubborn: Set[str],
) -> MigStep | MigObstacle | None:
    """The next step, unless somebody uses what the change destroys, or it resets more than was asked for.

    `stubborn` are GPUs for which all that is reset with them was asked already. On the way back nobody is in
    the way: the change made what it destroys.
    """
    step = next_step(change, gpus)
    if step is None or isinstance(step, MigObstacle):
        return step
    if change.refusal is None and (users := in_the_way(change, gpus, held)):
        return device_in_use(users)
    if isinstance(step, ResetGpu) and step.uuid not in change.resets:
        boards = resets_of(inventory)
        if step.uuid not in boards or step.uuid in stubborn:
            return restart_needed(step.uuid)
        return board_reset_needed(step.uuid, boards[step.uuid])
    return step


def next_step(change: MigChange, gpus: Iterable[DividedGpu]) -> MigStep | MigObstacle | None:
    """What is to be done now; None: nothing, it is as it shall be. An obstacle: nothing can be done.

    GPUs that are reset together are changed together, so that one reset does for all of them. A reset of one
    that is not in `resets` is not to be done: whose else it would be was not asked.
    """
    gpu_by_uuid = {gpu.uuid: gpu for gpu in gpus}
    shapes = {shape.uuid: shape for shape in change.target}
    for uuid in (*shapes, *(uuid for group in change.resets.values() for uuid in group)):
        if uuid not in gpu_by_uuid:
            return gpu_gone(uuid)
    for uuid in shapes:
        group = next((group for group in change.resets.values() if uuid in group), (uuid,))
        step = _step(
            change, [(shapes[gpu_uuid], gpu_by_uuid[gpu_uuid]) for gpu_uuid in group if gpu_uuid in shapes]
        )
        if step is not None:
            return step
    return None


def _step(change: MigChange, reset_group: list[tuple[GpuShape, DividedGpu]]) -> MigStep | MigObstacle | None:
    """The next step of GPUs that are reset together: destroy, then turn the mode, then create."""
    for shape, gpu in reset_group:
        kept_ids, spots = change.kept.get(gpu.uuid, ()), change.spots(gpu.uuid)
        own = [
            instance
            for instance in surplus(shape, gpu)
            if instance.id not in kept_ids and (instance.profile, instance.start) in spots
        ]
        if own:
            return _destroyed(gpu, own[0])
    turns = [turn for shape, gpu in reset_group if (turn := mode_step(shape, gpu)) is not None]
    # Resets last: one reset then brings the mode of every GPU of the group.
    for turn in sorted(turns, key=lambda turn: isinstance(turn, ResetGpu)):
        if not isinstance(turn, ResetGpu):
            return turn
        if turn.uuid not in change.resets:
            return turn
        others = tuple(uuid for uuid in change.resets[turn.uuid] if uuid != turn.uuid)
        return _emptied(change, reset_group) or ResetGpu(turn.uuid, others)
    return next((step for shape, gpu in reset_group if (step := create_step(shape, gpu)) is not None), None)


def _emptied(
    change: MigChange, reset_group: list[tuple[GpuShape, DividedGpu]]
) -> MigStep | MigObstacle | None:
    """What a reset would destroy is destroyed before, so that nobody's is; None: nothing is left of it."""
    for _, gpu in reset_group:
        for instance in gpu.instances:
            if (instance.profile, instance.start) not in change.spots(gpu.uuid):
                return foreign_instance(gpu.uuid, instance.profile, instance.start)
            return _destroyed(gpu, instance)
    return None


def _destroyed(gpu: DividedGpu, instance: GpuInstance) -> MigStep:
    if instance.computes:
        return DestroyComputeInstance(gpu.uuid, instance, instance.computes[-1].id)
    return DestroyGpuInstance(gpu.uuid, instance)
