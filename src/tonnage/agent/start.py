"""What happens when the devices cannot be read at start."""

from __future__ import annotations

from tonnage.adapters.clock import next_beat
from tonnage.adapters.ports import Clock
from tonnage.agent.config import NodeConfig
from tonnage.agent.devices import NodeDevices
from tonnage.model.errors import HardwareError, Problem


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
