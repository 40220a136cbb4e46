"""`DCGM_EXP_*`: how often something happened within a window of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Final

from tonnage.decide.node.exporter.page import family_text
from tonnage.decide.node.exporter.rows import EntityRows
from tonnage.model.devices.health import SeenXid
from tonnage.model.node.telemetry import (
    Entity,
    ExportedCounter,
    GpuEntity,
    InstanceEntity,
    SwitchEntity,
)

CLOCK_EVENTS: Final[Mapping[int, str]] = {
    0x1: "gpu_idle",
    0x2: "clocks_setting",
    0x4: "power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
    0x100: "display_clocks",
}
"""Bits of NVML's reasons for a clock (nvmlClocksEventReason*) -> the label's value."""


def xids_of(entity: Entity, xids: Iterable[SeenXid], oldest_s: float = -inf) -> tuple[int, ...]:
    """Codes that an entity reported from that time on, the newest last; a whole GPU's count for each part."""
    if isinstance(entity, SwitchEntity):
        return ()
    gpu = entity if isinstance(entity, GpuEntity) else entity.gpu
    parts = (None, entity.gpu_instance) if isinstance(entity, InstanceEntity) else (None,)
    return tuple(
        xid.code
        for xid in xids
        if xid.uuid == gpu.uuid and xid.gpu_instance in parts and xid.seen_s >= oldest_s
    )


def xid_counts(codes: Iterable[int]) -> Mapping[str, int]:
    """How often each code was reported."""
    return {str(code): count for code, count in sorted(Counter(codes).items())}


def clock_event_counts(reasons: Iterable[int]) -> Mapping[str, int]:
    """In how many readings each reason was in force.

    >>> clock_event_counts([0x48, 0x40, 0])
    {'hw_slowdown': 1, 'hw_thermal': 2}
    """
    counts = Counter(name for mask in reasons for bit, name in CLOCK_EVENTS.items() if mask & bit)
    return {name: counts[name] for name in CLOCK_EVENTS.values() if name in counts}


def window_family(
    counter: ExportedCounter,
    label: str,
    window_ms: int,
    counts: Mapping[Entity, Mapping[str, int]],
    rows: Mapping[Entity, EntityRows],
) -> str:
    """The family's text; an entity to which nothing happened has a row of 0, without `label`."""
    return family_text(counter, _lines(counter.name, label, window_ms, counts, rows))


def _lines(
    name: str,
    label: str,
    window_ms: int,
    counts: Mapping[Entity, Mapping[str, int]],
    rows: Mapping[Entity, EntityRows],
) -> Iterator[str]:
    window = {"window_size_in_ms": str(window_ms)}
    for entity, of_entity in counts.items():
        for row in rows[entity].rows:
            if not of_entity:
                yield f"{name}{{{row.labels.text(window)}}} 0\n"
            for value, count in of_entity.items():
                yield f"{name}{{{row.labels.text({**window, label: value})}}} {count}\n"
