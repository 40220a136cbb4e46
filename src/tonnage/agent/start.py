"""What the agent's start depends on: devices that can be read, and MIG changes that an earlier agent left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tonnage.agent.config.selection import NodeConfig
from tonnage.agent.devices import NodeDevices
from tonnage.loop.ticks import next_beat
from tonnage.model.errors import HardwareError, Problem
from tonnage.model.mig.layouts import MigOptions
from tonnage.ports.clock import Clock
from tonnage.ports.node import DeviceReader

if TYPE_CHECKING:
    from tonnage.agent.mig.layout import NodeMigLayout
    from tonnage.agent.plugin.holders import Holders
    from tonnage.agent.world import World


async def end_without_devices(clock: Clock, devices: NodeDevices, config: NodeConfig) -> None:
    """Return once the devices were read. A driver that is lost later is a matter of health.

    A configuration that only ran last does not count: its successor may say otherwise.

    Raises:
        HardwareError: they cannot be read, and the configuration says `failOnInitError: true`.
    """
    while devices.inventory is None or devices.error:
        current = config.current if config.asked else None
        if devices.error and current is not None and current.config.fail_on_init_error:
            what = "the devices cannot be read, and failOnInitError is true"
            remedy = (
                "see tonnage doctor on the node; with failOnInitError: false the agent waits for the driver"
            )
            raise HardwareError(Problem(what, config.told_by("failOnInitError"), devices.error, remedy))
        await next_beat(clock)


async def layouts_of(
    asks: MigOptions,
    world: World,
    hardware: DeviceReader,
    devices: NodeDevices,
    config: NodeConfig,
    holders: Holders,
) -> list[NodeMigLayout]:
    """What divides the GPUs, if the agent is told to; it knows what an earlier agent began."""
    if not asks.config_map or world.api is None:
        return []
    from tonnage.agent.mig.layout import NodeMigLayout  # nobody else needs its modules

    layout = NodeMigLayout(world, hardware, devices, config, holders, asks)
    await layout.restore()
    devices.withheld = lambda: layout.withheld
    return [layout]
