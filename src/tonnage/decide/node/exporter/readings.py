"""What a page's counters read of each entity, out of samples of GPUs and MIG devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from tonnage.model.catalog.metrics import DeviceField, FieldOrigin, device_fields
from tonnage.model.devices.inventory import Device, Inventory, Sample
from tonnage.model.node.entity_choice import EntityChoice, EntityKind
from tonnage.model.node.telemetry import (
    CLOCK_COUNT,
    DeviceEntity,
    Entity,
    ExportedCounter,
    GpuEntity,
    InstanceEntity,
    LinkEntity,
    Reading,
)

CLOCK_REASONS: Final = "clock_event_reasons"
PEER_FIELDS: Final = frozenset({"nvlink_peer_status"})
"""What a sample has in its `peers`."""
_RATE: Final = "_bandwidth"
_WAYS: Final = ("_sent", "_received")
"""What a rate of links is made of, unless it is of one way; both ends of names."""
_KIB_A_MB: Final = 1000
_AS_DIVIDED: Final = EntityChoice()


@dataclass(frozen=True, slots=True)
class TimedSample:
    """A sample and when it was taken, by the monotonic clock; `before` is the one before it."""

    sample: Sample
    seen_s: float
    before: TimedSample | None = None


def entities_of(inventory: Inventory, choice: EntityChoice = _AS_DIVIDED) -> tuple[DeviceEntity, ...]:
    """Every GPU in order of its index, and instead of a divided one its GPU instances; those chosen."""
    devices = [device for device in inventory.devices if choice.has(device.index)]
    if choice.kind is EntityKind.GPUS:
        return tuple(_gpu(device) for device in devices)
    entities = [entity for device in devices for entity in _entities(device)]
    if choice.kind is EntityKind.INSTANCES:
        return tuple(entity for entity in entities if isinstance(entity, InstanceEntity))
    return tuple(entities)


def _gpu(device: Device) -> GpuEntity:
    return GpuEntity(device.index, device.uuid, device.pci_bus_id, device.product)


def _entities(device: Device) -> Iterator[DeviceEntity]:
    gpu = _gpu(device)
    instances: dict[int, list[str]] = {}
    for part in device.migs:
        instances.setdefault(part.gpu_instance, []).append(part.uuid)
    if not device.mig_enabled or not instances:
        yield gpu
        return
    profiles = {part.gpu_instance: part.profile for part in reversed(device.migs)}
    for number, uuids in instances.items():
        profile = profiles[number].rpartition("c.")[2]  # of a compute instance: 1c.3g.40gb
        yield InstanceEntity(gpu, number, profile, tuple(uuids))


def fields_of(counters: Iterable[ExportedCounter]) -> frozenset[str]:
    """The fields of `catalog.metrics` that a vendor must sample for these counters."""
    names: set[str] = set()
    for counter in counters:
        field = field_of(counter.name)
        if counter.name == CLOCK_COUNT:
            names.add(CLOCK_REASONS)
        if field is None:
            continue
        if field.origin is FieldOrigin.RATE:
            names.update(_parts_of(field))
        elif field.is_sampled:
            names.add(field.name)
    return frozenset(names)


def field_of(counter: str) -> DeviceField | None:
    """The field that a counter of DCGM's name reads; None where no device has it."""
    return _by_dcgm_name().get(counter)


def fields_by_counter(counters: Iterable[ExportedCounter]) -> Mapping[str, DeviceField]:
    """By DCGM's names of those counters that a device has."""
    return {counter.name: field for counter in counters if (field := field_of(counter.name)) is not None}


def counters_of(fields: Iterable[str]) -> tuple[str, ...]:
    """The fields by DCGM's names where they have one."""
    return tuple((device_fields()[name].dcgm or (name,))[0] for name in fields)


@cache
def _by_dcgm_name() -> Mapping[str, DeviceField]:
    return {name: field for field in device_fields().values() for name in field.dcgm}


def readings_of(
    entity: DeviceEntity, fields: Mapping[str, DeviceField], samples: Mapping[str, TimedSample], xid: int
) -> Mapping[str, Reading]:
    """By counter; what the device lacks is absent. `xid` is the last that it reported, 0 for none.

    Of a GPU instance what is the GPU's own (temperature, power, clocks) is that of the GPU, as with DCGM.
    """
    gpu = entity.gpu if isinstance(entity, InstanceEntity) else entity
    whole = samples.get(gpu.uuid)
    part = whole
    if isinstance(entity, InstanceEntity):
        part = next((samples[uuid] for uuid in entity.uuids if uuid in samples), None)
    if whole is None:
        return {}
    readings: dict[str, Reading] = {}
    for name, field in fields.items():
        timed = part if field.mig else whole
        value = None if timed is None else timed.sample.values.get(field.name)
        if value is not None:
            readings[name] = float(value) if field.double else int(value)
        elif (reading := _derived_reading(field, timed, xid)) is not None:
            readings[name] = reading
    return readings


def link_readings(
    gpu: GpuEntity, counters: Iterable[ExportedCounter], samples: Mapping[str, TimedSample]
) -> Mapping[Entity, Mapping[str, Reading]]:
    """By counter, what each NVLink of the GPU that is up gave."""
    timed = samples.get(gpu.uuid)
    fields = fields_by_counter(counters)
    links = {} if timed is None else timed.sample.links
    return {
        LinkEntity(gpu, number): {
            name: float(value) if field.double else int(value)
            for name, field in fields.items()
            if (value := values.get(field.name)) is not None
        }
        for number, values in links.items()
    }


def is_of_links(counter: ExportedCounter) -> bool:
    """Whether each NVLink has a row of it."""
    field = field_of(counter.name)
    return field is not None and field.link


def _derived_reading(field: DeviceField, timed: TimedSample | None, xid: int) -> Reading | None:
    """What no device gives as a number."""
    if timed is None:
        return None
    if field.origin is FieldOrigin.EVENT:
        return xid
    if field.origin is FieldOrigin.RATE:
        return _link_rate(_parts_of(field), timed)
    return timed.sample.texts.get(field.name) if field.is_text else None


def _parts_of(rate: DeviceField) -> tuple[str, ...]:
    """The fields that a rate is made of: what the link, or all links, sent and received, or one of these."""
    links = rate.name.removesuffix(_RATE)
    ways = [links] if links.endswith(_WAYS) else [links + way for way in _WAYS]
    return tuple(f"{way}_kib" for way in ways)


def _link_rate(parts: Sequence[str], timed: TimedSample) -> int | None:
    """What NVLinks moved between two samples, as DCGM counts it: KiB/s by 1,000; 0 at first."""
    moved = _moved(parts, timed.sample)
    if moved is None:
        return None
    before = timed.before
    earlier = None if before is None else _moved(parts, before.sample)
    if before is None or earlier is None or moved < earlier or timed.seen_s <= before.seen_s:
        return 0
    return int((moved - earlier) / (timed.seen_s - before.seen_s) / _KIB_A_MB)


def _moved(parts: Sequence[str], sample: Sample) -> float | None:
    values = [sample.values.get(name) for name in parts]
    return None if None in values else sum(value for value in values if value is not None)
