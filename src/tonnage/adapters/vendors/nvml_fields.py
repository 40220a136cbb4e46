"""Fields of the catalogue out of NVML: which calls give them, each made once for all its fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from tonnage.adapters.vendors.nvml_reading import optional
from tonnage.adapters.vendors.nvml_vitals import field_values
from tonnage.model.devices.inventory import MEMORY_IN_USE, Sample

if TYPE_CHECKING:
    from tonnage.model.catalog.metrics import DeviceField

_MIB: Final = 1 << 20
_MEMORY: Final = frozenset(
    f"memory_{part}" for part in ("total_mib", "free_mib", "used_mib", "reserved_mib", "used_ratio")
)
"""Read by name: an agent that publishes the memory in use alone need not load the catalogue for it."""

_STRUCTURES: Final = frozenset(
    f"nvmlDeviceGet{what}" for what in ("GridLicensableFeatures", "SramEccErrorStatus", "GpuFabricInfoV")
)
"""Calls that take more than a handle and numbers."""

_Reading = int | float | str
_Call = tuple[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """What to ask of a device. `values` and `metrics` are in the order in which they are asked."""

    memory: frozenset[str] = frozenset()
    calls: tuple[tuple[_Call, tuple[DeviceField, ...]], ...] = ()
    values: tuple[DeviceField, ...] = ()
    metrics: tuple[DeviceField, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.memory or self.calls or self.values or self.metrics)


@lru_cache(maxsize=16)
def plans_of(names: tuple[str, ...]) -> tuple[FieldPlan, FieldPlan]:
    """What to ask of a GPU and of a MIG device for those fields. Raises Bug: there is no such field."""
    memory = _MEMORY.union([MEMORY_IN_USE]).intersection(names)
    others = [name for name in names if name not in memory]
    if not others:
        return FieldPlan(memory), FieldPlan(memory & _MEMORY)
    from tonnage.model.catalog.metrics import fields_named  # takes half a megabyte

    fields = fields_named(others)
    return _plan(memory, fields), _plan(memory & _MEMORY, [field for field in fields if field.mig])


def _plan(memory: frozenset[str], fields: Iterable[DeviceField]) -> FieldPlan:
    calls: dict[_Call, tuple[DeviceField, ...]] = {}
    values: list[DeviceField] = []
    metrics: list[DeviceField] = []
    for field in fields:
        if not field.is_sampled:
            continue
        if field.gpm is not None:
            metrics.append(field)
        elif field.field_id is not None:
            values.append(field)
        else:
            call = (field.call, field.arguments)
            calls[call] = (*calls.get(call, ()), field)
    return FieldPlan(memory, tuple(calls.items()), tuple(values), tuple(metrics))


def read_fields(
    nvml: ModuleType, handle: Any, uuid: str, plan: FieldPlan, metrics: Mapping[int, float]
) -> Sample:
    """What the device gives of it; `metrics` are those of GPM by number. Raises nothing of NVML's."""
    found: dict[str, _Reading | None] = {}
    if plan.memory:
        found |= {name: value for name, value in _memory(nvml, handle, plan.memory) if name in plan.memory}
    for (call, arguments), fields in plan.calls:
        answer = optional(nvml, partial(_answer, nvml, handle, call, arguments))
        if answer is not None:
            found |= {field.name: _converted(field, _part(answer, field.part)) for field in fields}
    if plan.values:
        scopes = [(field.field_id or 0, field.scope) for field in plan.values]
        numbers = optional(nvml, lambda: field_values(nvml, handle, scopes)) or {}
        found |= {f.name: _converted(f, numbers.get((f.field_id or 0, f.scope))) for f in plan.values}
    found |= {field.name: _converted(field, metrics.get(field.gpm or 0)) for field in plan.metrics}
    return Sample(
        uuid,
        {name: value for name, value in found.items() if isinstance(value, int | float)},
        {name: value for name, value in found.items() if isinstance(value, str)},
    )


def _memory(nvml: ModuleType, handle: Any, names: frozenset[str]) -> Iterable[tuple[str, _Reading]]:
    """Drivers before 510 count what they reserve as used; it is not known then."""
    if MEMORY_IN_USE in names and (memory := optional(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle))):
        yield MEMORY_IN_USE, memory.used // _MIB
    if names <= {MEMORY_IN_USE}:
        return
    reserved: int | None = None
    memory = optional(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2))
    if memory is not None:
        reserved = memory.reserved
        yield "memory_reserved_mib", memory.reserved // _MIB
    else:
        memory = optional(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    if memory is None:
        return
    yield "memory_total_mib", memory.total // _MIB
    yield "memory_free_mib", memory.free // _MIB
    yield "memory_used_mib", memory.used // _MIB
    if (usable := memory.total - (reserved or 0)) > 0:
        yield "memory_used_ratio", memory.used / usable


def _answer(nvml: ModuleType, handle: Any, call: str, arguments: Sequence[int]) -> Any:
    if call in _STRUCTURES:
        from tonnage.adapters.vendors.nvml_structures import ANSWERS  # what hardly anybody asks for

        return ANSWERS[call](nvml, handle)
    return getattr(nvml, call)(*([] if call.startswith("nvmlSystem") else [handle]), *arguments)


def _part(answer: Any, part: str) -> Any:
    """The part of that name or place, None where this driver's answer has none."""
    if part == "count":
        return len(answer)
    if part.isdigit():
        return answer[int(part)]
    return getattr(answer, part, None) if part else answer


def _converted(field: DeviceField, value: Any) -> _Reading | None:
    if value is None or (field.most is not None and value > field.most):
        return None
    if field.is_text:
        return str(value)
    if field.double:
        return float(value) * field.factor / field.divisor
    return int(value * field.factor) // field.divisor
