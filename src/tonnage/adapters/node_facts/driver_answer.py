"""What the driver itself says. It is asked by another process: one that a driver holds can never end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tonnage.adapters.clock import SystemClock
from tonnage.adapters.device_nodes import read_device_nodes
from tonnage.adapters.vendors.driver_thread import NODE, OverdueError
from tonnage.model.devices import Inventory
from tonnage.model.errors import ConfigError, HardwareError
from tonnage.model.node_facts import DriverAnswer

if TYPE_CHECKING:
    from tonnage.adapters.vendors.nvml_process import Helpers

_MOST_HANGING: Final = 8
HANGS: Final = "GPU does not answer"


async def driver_answer(
    root: Path, driver_root: Path | None, deadline_s: float
) -> tuple[DriverAnswer, Mapping[str, int]]:
    """(the devices, memory in use by uuid). No call of the driver is waited for longer than the deadline."""
    from tonnage.adapters.vendors.nvml_child import Request
    from tonnage.adapters.vendors.nvml_process import Helpers

    helpers = Helpers(root, driver_root, deadline_s=deadline_s, on_event=lambda _: None)
    hanging: list[int] = []
    try:
        while True:
            try:
                reply = await helpers.ask(Request("scan", tuple(hanging)))
                break
            except OverdueError as error:
                if error.subject == NODE or len(hanging) >= _MOST_HANGING:
                    return DriverAnswer(error=error.problems[0].what, hangs=True), {}
                hanging.append(error.subject)
        scan = reply.scan
        assert scan is not None
        failed = sorted({**dict(scan.failed), **dict.fromkeys(hanging, HANGS)}.items())
        inventory = Inventory(
            scan.devices,
            scan.driver_version,
            scan.cuda_version,
            (*scan.problems, *(f"device {index}: {why}" for index, why in failed)),
            nodes=read_device_nodes(root, driver_root),
            vitals=scan.vitals,
        )
        used = await _used(helpers, tuple(hanging))
        return DriverAnswer(inventory, hangs=bool(hanging)), used
    except HardwareError as error:
        return DriverAnswer(error=error.problems[0].what), {}
    finally:
        await helpers.close()


async def _used(helpers: Helpers, skip: tuple[int, ...]) -> Mapping[str, int]:
    from tonnage.adapters.vendors.nvml_child import Request

    try:
        samples = (await helpers.ask(Request("sample", skip))).samples or ()
    except HardwareError:
        return {}
    return {each.uuid: each.memory_used_mib for each in samples if each.memory_used_mib is not None}


async def pretended_answer(file: Path) -> tuple[DriverAnswer, Mapping[str, int]]:
    """The devices of a hardware file, as the agent would have them."""
    from tonnage.adapters.vendors.scenario import ScenarioBackend

    backend = ScenarioBackend(file, SystemClock())
    try:
        inventory, samples = await backend.scan(), await backend.sample()
    except (HardwareError, ConfigError) as error:
        return DriverAnswer(error=str(error), pretended=True), {}
    finally:
        await backend.close()
    used = {each.uuid: each.memory_used_mib for each in samples if each.memory_used_mib is not None}
    return DriverAnswer(inventory, pretended=True), used
