"""Which GPUs are reset together: NVLink and the switches of a board do not let a single one go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.model.catalog.gpus import gpu_models
from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.links import NVSWITCH

_LAST: Final = 8
"""The major compute capability of those that take another MIG mode by a reset; newer ones do without."""


def resets_of(inventory: Inventory) -> Mapping[str, tuple[str, ...]]:
    """All that are reset (uuids, in index order) so that a GPU takes another MIG mode, by that GPU's uuid.

    GPUs that need no reset for it are not in it. A divided GPU shows no NVLinks, so that a product which
    comes on boards with NVSwitches counts as behind them unless other links of it are seen.
    Source: the driver's documentation of `nvidia-smi --gpu-reset`, and of MIG mode on Ampere and Hopper.
    """
    boards = _boards(inventory)
    by_uuid: dict[str, tuple[str, ...]] = {}
    for device in inventory.devices:
        major = device.compute_capability.partition(".")[0]
        if device.mig_enabled is not None and major.isdecimal() and int(major) <= _LAST:
            board = boards[device.uuid]
            by_uuid[device.uuid] = tuple(
                neighbour.uuid for neighbour in inventory.devices if boards[neighbour.uuid] == board
            )
    return by_uuid


def _boards(inventory: Inventory) -> dict[str, str]:
    """A name of the board for each GPU: one of those that reach each other by NVLink."""
    boards = {device.uuid: device.uuid for device in inventory.devices}
    products = {device.uuid: device.product for device in inventory.devices}
    ends = [(link.source, link.target) for link in inventory.links if link.nvlinks]
    linked = {uuid for pair in ends for uuid in pair}
    switched = {model.product for model in gpu_models().values() if model.nvswitch_links}
    ends += [
        (uuid, NVSWITCH) for uuid, product in products.items() if uuid not in linked and product in switched
    ]
    for end, other in ends:
        switches = f"switches of {products.get(end, '')}"  # a board has GPUs of one product
        new = boards.setdefault(other or switches, other or switches)
        old = boards.get(end, end)
        boards = {uuid: new if board == old else board for uuid, board in boards.items()}
    return boards
