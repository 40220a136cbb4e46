"""What a driver would say of pretended devices, for `tonnage doctor`."""

from __future__ import annotations

from pathlib import Path

from tonnage.model.devices.inventory import MEMORY_IN_USE
from tonnage.model.errors import ConfigError, HardwareError
from tonnage.model.node.facts import DriverAnswer
from tonnage.ports.clock import Clock
from tonnage.twin.devices.scenario import ScenarioBackend


async def pretended_answer(file: Path, clock: Clock) -> DriverAnswer:
    """The devices of a hardware file, as the agent would have them."""
    backend = ScenarioBackend(file, clock)
    try:
        inventory, samples = await backend.scan(), await backend.sample((MEMORY_IN_USE,))
    except (HardwareError, ConfigError) as error:
        return DriverAnswer(error=str(error), pretended=True)
    finally:
        await backend.close()
    used = {sample.uuid: mib for sample in samples if (mib := sample.whole(MEMORY_IN_USE)) is not None}
    return DriverAnswer(inventory, pretended=True, used_mib=used)
