"""The next step to a MIG device that a claim gets, or why there is none."""

from __future__ import annotations

from tonnage.decide.node.claims.partition_steps import StandingMigDevice, making_step, removing_step
from tonnage.model.actions.devices import DestroyComputeInstance, DestroyGpuInstance
from tonnage.model.devices.claims import Partition
from tonnage.model.mig.layouts import ComputeInstance, DividedGpu, GpuInstance
from tonnage.model.reasons.gpu.mig import MigModeOff

PART = Partition("GPU-0", "3g.20gb", 4, 4)


def gpu(*instances: GpuInstance, enabled: bool = True) -> DividedGpu:
    """An A100 with these."""
    return DividedGpu("GPU-0", 0, "NVIDIA A100-SXM4-40GB", enabled, enabled, instances)


def test_nothing_is_made_where_mig_is_off() -> None:
    refusal = making_step(PART, gpu(enabled=False))
    assert isinstance(refusal, MigModeOff)
    assert (refusal.subject, refusal.facts) == ("GPU GPU-0", {"uuid": "GPU-0"})
    assert refusal.message == "MIG is off on GPU-0"
    assert refusal.remedy == "turn MIG on, or take dynamicMig out of the node's configuration"


def test_a_mig_device_that_stands_is_taken_as_it_is_and_removed_from_within() -> None:
    compute = ComputeInstance(0, 3, "MIG-a")
    whole, empty = GpuInstance(2, "3g.20gb", 4, (compute,)), GpuInstance(2, "3g.20gb", 4)
    assert making_step(PART, gpu(whole)) == StandingMigDevice("MIG-a")
    assert removing_step(PART, gpu(whole)) == DestroyComputeInstance("GPU-0", whole, 0)
    assert removing_step(PART, gpu(empty)) == DestroyGpuInstance("GPU-0", empty)
    assert removing_step(PART, gpu()) is None
