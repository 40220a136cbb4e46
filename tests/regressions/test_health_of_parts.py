"""NVIDIA's plugin marked one replica of many, and at most one MIG device of several, of a GPU that failed."""

from __future__ import annotations

import pytest

from tonnage.decide.node.allocate import allocate
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.health.device_health import offered_inventory
from tonnage.decide.node.health.faults import HealthState
from tonnage.decide.node.health.xids import state_after_event
from tonnage.decide.node.share import share
from tonnage.model.devices.health import HealthPolicy
from tonnage.model.devices.inventory import Device, Inventory, MigDevice, RawEvent, RawEventKind
from tonnage.model.devices.sharing import PluginConfig, SharedResource
from tonnage.model.names import GPU, ResourceName
from tonnage.model.node.plugin_settings import MigStrategy
from tonnage.model.reasons.reason import Reason

SHARED = ResourceName("nvidia.com/gpu.shared")
MIGS = tuple(MigDevice(f"MIG-{n}", n, "1g.10gb", n, 0, 9728) for n in range(7))
FOUR = Inventory(
    tuple(
        Device(f"GPU-{n}", n, "NVIDIA H100", 81559, migs=MIGS * (n == 3), mig_enabled=n == 3)
        for n in range(4)
    )
)


def struck_inventory(uuid: str, xid: int) -> Inventory:
    event = RawEvent(RawEventKind.XID, uuid, xid)
    return offered_inventory(FOUR, state_after_event(HealthState(), event, FOUR, HealthPolicy(), now=0.0))


def test_every_replica_of_a_failed_gpu_is_unhealthy_and_no_other() -> None:
    """Pain 9, #1929: an Xid 79 on a GPU with 10 replicas marked 1 of 40 ids."""
    config = PluginConfig(shared=(SharedResource(GPU, SHARED, 10, 4),))
    resource = share(struck_inventory("GPU-1", 79), config).resource(SHARED)
    assert resource is not None
    assert {slot.id for slot in resource.slots if not slot.healthy} == {f"GPU-1::{n}" for n in range(10)}
    refused = allocate(resource, ["GPU-1::7"], DeviceHolds())
    assert isinstance(refused, Reason)
    assert "Xid 79: GPU has fallen off the bus" in refused.message


@pytest.mark.parametrize("xid", [79, 95])
def test_every_mig_device_of_a_failed_gpu_is_unhealthy_and_no_whole_gpu_beside_it(xid: int) -> None:
    plan = share(struck_inventory("GPU-3", xid), PluginConfig(mig_strategy=MigStrategy.MIXED))
    health = {slot.id: slot.healthy for resource in plan.resources for slot in resource.slots}
    assert {name for name, healthy in health.items() if not healthy} == {mig.uuid for mig in MIGS}
    assert {name for name, healthy in health.items() if healthy} == {"GPU-0", "GPU-1", "GPU-2"}
