"""CounterSet: what the devices of a pool share, MIG devices of one GPU for instance.

Source: k8s.io/dynamic-resource-allocation/structured (partitionable devices).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TypeAlias

from tonnage.decide.kubernetes.claims.pools import Pool
from tonnage.decide.kubernetes.claims.supply import Supply
from tonnage.model.kubernetes.resource_claims import SliceDevice

Left: TypeAlias = dict[tuple[str, str], Fraction]
"""What is left, by counter set and counter."""


def left_in(pool: Pool, supply: Supply) -> Left:
    """What devices that are allocated leave of a pool's counters; it may be less than nothing."""
    left = {(name, counter): v for name, part in pool.counters.items() for counter, v in part.items()}
    for resource_slice in (*pool.slices, *pool.elsewhere):
        for device in resource_slice.devices:
            identity = resource_slice.id_of(device)
            if device.consumes and (identity in supply.held or identity in supply.parts):
                take(left, device)
    return left


def take(left: Left, device: SliceDevice, sign: int = 1) -> None:
    """Count a device's consumption; with `sign` -1 give it back."""
    for key, amount in _consumed(device.consumes).items():
        if key in left:
            left[key] -= sign * amount


def suffices(left: Left) -> bool:
    """Whether no counter of the pool is overdrawn: one that is blocks every device that consumes any."""
    return all(value >= 0 for value in left.values())


def _consumed(consumes: Mapping[str, Mapping[str, Fraction]]) -> dict[tuple[str, str], Fraction]:
    return {(name, counter): v for name, part in consumes.items() for counter, v in part.items()}
