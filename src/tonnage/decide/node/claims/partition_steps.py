"""The next step to a MIG device that a claim gets, or back, from the GPU as it is now."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.decide.node.mig.change import GpuShape, MigPart, create_step
from tonnage.model.actions.devices import DestroyComputeInstance, DestroyGpuInstance, MigStep
from tonnage.model.devices.claims import Partition
from tonnage.model.mig.layouts import DividedGpu, GpuInstance
from tonnage.model.mig.profile_names import parse_profile
from tonnage.model.reasons.gpu.mig import MigModeOff


@dataclass(frozen=True, slots=True)
class StandingMigDevice:
    """There is nothing to be made: the MIG device has this uuid."""

    uuid: str


def making_step(part: Partition, gpu: DividedGpu) -> MigStep | StandingMigDevice | MigModeOff:
    """What is to be done next; the MIG device, once it is there; or why none can be made."""
    if not gpu.enabled:
        return MigModeOff(
            subject=f"GPU {gpu.uuid}",
            message=f"MIG is off on {gpu.uuid}",
            remedy="turn MIG on, or take dynamicMig out of the node's configuration",
            uuid=gpu.uuid,
        )
    whole = (parse_profile(part.profile).slices,)
    step = create_step(GpuShape(gpu.uuid, True, (MigPart(part.profile, part.start, whole),)), gpu)
    if step is not None:
        return step
    instance = _instance(part, gpu)
    assert instance is not None  # nothing is missing of it
    return StandingMigDevice(instance.computes[0].uuid)


def removing_step(part: Partition, gpu: DividedGpu) -> MigStep | None:
    """What is to be done next; None: it is not there any more."""
    instance = _instance(part, gpu)
    if instance is None:
        return None
    if instance.computes:
        return DestroyComputeInstance(gpu.uuid, instance, instance.computes[-1].id)
    return DestroyGpuInstance(gpu.uuid, instance)


def _instance(part: Partition, gpu: DividedGpu) -> GpuInstance | None:
    spot = part.profile, part.start
    return next((other for other in gpu.instances if (other.profile, other.start) == spot), None)
