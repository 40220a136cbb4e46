"""Figures of the devices that claims can have, a row for each DeviceClass that selects some."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tonnage.decide.kubernetes.claims.cel_errors import CelError, CelUnsupportedError
from tonnage.decide.kubernetes.claims.supply import Supply
from tonnage.decide.kubernetes.view import ClusterView
from tonnage.diagnose.simulate.outcomes import ResourceFigures
from tonnage.model.kubernetes.resource_claims import (
    DEVICES_OF_CLASS,
    DeviceClass,
    NodeScope,
    ResourceSlice,
    SliceDevice,
)


def figures_by_class(view: ClusterView) -> Iterator[ResourceFigures]:
    """By class, under the name that quotas have for it; devices that share counters are left out.

    Classes whose selectors fail or cannot be evaluated on a device do not count it.
    """
    supply = view.supply
    for cls in sorted(supply.classes.values(), key=lambda cls: cls.name):
        counts: Counter[str] = Counter()
        for part in _newest(supply):
            for device in part.devices:
                if not device.consumes and _selects(cls, part, device, supply):
                    counts[_standing(part, device, view)] += 1
        if counts:
            every = counts.total()
            yield ResourceFigures(
                f"{cls.name}{DEVICES_OF_CLASS}",
                every,
                every,
                counts["held"],
                counts["free"],
                counts["cordoned"],
            )


def _newest(supply: Supply) -> Iterator[ResourceSlice]:
    """The slices of each pool's latest generation."""
    for parts in supply.by_pool.values():
        latest = max(part.generation for part in parts)
        yield from (part for part in parts if part.generation == latest)


def _standing(part: ResourceSlice, device: SliceDevice, view: ClusterView) -> str:
    identity = part.id_of(device)
    if identity in view.supply.held or identity in view.supply.parts:
        return "held"
    node = view.nodes.get((part.scope or NodeScope()).name)
    return "cordoned" if node is not None and node.node.unschedulable else "free"


def _selects(cls: DeviceClass, part: ResourceSlice, device: SliceDevice, supply: Supply) -> bool:
    try:
        return all(supply.selects(expression, part.driver, device) for expression in cls.selectors)
    except (CelError, CelUnsupportedError):
        return False
