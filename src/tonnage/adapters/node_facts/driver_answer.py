"""What the driver itself says. It is asked by another process: one that a driver holds can never end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tonnage.adapters.cdi.device_nodes import read_device_nodes
from tonnage.adapters.vendors.driver_thread import NODE, OverdueError
from tonnage.model.devices.inventory import MEMORY_IN_USE, GpuProcess, Inventory
from tonnage.model.errors import HardwareError
from tonnage.model.node.facts import DriverAnswer

if TYPE_CHECKING:
    from tonnage.adapters.vendors.nvml_process import Helpers
    from tonnage.adapters.vendors.nvml_reader import Scan

_MOST_HANGING: Final = 8
HANGS: Final = "GPU does not answer"


async def driver_answer(root: Path, driver_root: Path | None, deadline_s: float) -> DriverAnswer:
    """The devices and who uses them. No call of the driver is waited for longer than the deadline."""
    from tonnage.adapters.vendors.nvml_process import Helpers

    helpers = Helpers(root, driver_root, deadline_s=deadline_s, on_event=lambda _: None)
    try:
        scan, hanging = await _scan(helpers)
        failed = sorted({**dict(scan.failed), **dict.fromkeys(hanging, HANGS)}.items())
        inventory = Inventory(
            scan.devices,
            scan.driver_version,
            scan.cuda_version,
            (*scan.problems, *(f"device {index}: {why}" for index, why in failed)),
            nodes=read_device_nodes(root, driver_root),
            vitals=scan.vitals,
        )
        answer = DriverAnswer(inventory, hangs=bool(hanging), shown=scan.count - len(failed))
        return replace(
            answer, used_mib=await _used(helpers, hanging), processes=await _users(helpers, hanging)
        )
    except OverdueError as error:
        return DriverAnswer(error=error.problems[0].what, hangs=True)
    except HardwareError as error:
        return DriverAnswer(error=error.problems[0].what)
    finally:
        await helpers.close()


async def _scan(helpers: Helpers) -> tuple[Scan, tuple[int, ...]]:
    """(what was read, the indices of devices that hang). Raises HardwareError."""
    from tonnage.adapters.vendors.nvml_child import ReadRequest

    hanging: tuple[int, ...] = ()
    while True:
        try:
            reply = await helpers.ask(ReadRequest("scan", hanging))
        except OverdueError as error:
            if error.subject == NODE or len(hanging) >= _MOST_HANGING:
                raise
            hanging = (*hanging, error.subject)
        else:
            assert reply.scan is not None
            return reply.scan, hanging


async def _used(helpers: Helpers, skip: tuple[int, ...]) -> Mapping[str, int]:
    from tonnage.adapters.vendors.nvml_child import ReadRequest

    try:
        samples = (await helpers.ask(ReadRequest("sample", skip, (MEMORY_IN_USE,)))).samples or ()
    except HardwareError:
        return {}
    return {sample.uuid: used for sample in samples if (used := sample.whole(MEMORY_IN_USE)) is not None}


async def _users(helpers: Helpers, skip: tuple[int, ...]) -> tuple[GpuProcess, ...]:
    from tonnage.adapters.vendors.nvml_child import ReadRequest

    try:
        return (await helpers.ask(ReadRequest("processes", skip))).processes or ()
    except HardwareError:
        return ()
