"""A scan as an inventory, with devices that cannot be read now but were before."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from tonnage.adapters.vendors.nvml_reader import Scan
from tonnage.model.devices.inventory import Device, Inventory, Vitals

HANGS: Final = "GPU does not answer"


def inventory_of(scan: Scan, hung: Collection[int], before: Mapping[str, Device]) -> Inventory:
    """The scan with the devices of `before`, by UUID, that cannot be read, or whose index hangs."""
    by_index = {device.index: device for device in scan.devices}
    problems = list(scan.problems)
    hanging: list[Vitals] = []
    uuids = frozenset(device.uuid for device in scan.devices)
    failed = dict(scan.failed) | dict.fromkeys(hung, HANGS)
    for index, reason in sorted(failed.items()):
        earlier = next((d for d in before.values() if d.index == index and d.uuid not in uuids), None)
        if earlier is None:
            problems.append(f"device {index}: {reason}")
            continue
        by_index[index] = replace(earlier, healthy=False, reason=reason)
        if index in hung:
            hanging.append(Vitals(earlier.uuid, hangs=True))
    return Inventory(
        tuple(by_index[index] for index in sorted(by_index)),
        scan.driver_version,
        scan.cuda_version,
        tuple(problems),
        vitals=(*scan.vitals, *hanging),
        incarnation=scan.incarnation,
    )
