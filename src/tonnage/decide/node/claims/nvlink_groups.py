"""GPUs that NVLink joins, as an attribute: a claim for several may ask for some of one group.

NVIDIA's driver has no such attribute, so that it is of our own domain.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.links import NVSWITCH

NVLINK_GROUP: Final = "tonnage.dev/nvlinkGroup"
_SWITCHES: Final = "switches"


def nvlink_groups(inventory: Inventory) -> Mapping[str, str]:
    """By uuid the group of each whole GPU that has active NVLinks to others, straight or by what is between.

    A group is named after the first of it, so that the name is the same at every look.
    """
    numbers = {
        device.uuid: device.index if device.minor is None else device.minor
        for device in inventory.devices
        if not device.mig_enabled
    }
    groups = {uuid: {uuid} for uuid in (*numbers, _SWITCHES)}
    for link in inventory.links:
        end = _SWITCHES if link.target == NVSWITCH else link.target
        if link.nvlinks and link.source in numbers and end in groups:
            joined = groups[link.source] | groups[end]
            groups.update(dict.fromkeys(joined, joined))
    return {
        uuid: f"gpu-{min(numbers[member] for member in joined)}"
        for uuid in numbers
        if len(joined := groups[uuid] - {_SWITCHES}) > 1
    }
