"""Fields of the catalogue out of NVML: which calls give them, each made once for all its fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tonnage.adapters.vendors.nvml_reading import optional
from tonnage.adapters.vendors.nvml_vitals import field_values
from tonnage.model.devices.inventory import MEMORY_IN_USE, Sample

if TYPE_CHECKING:
    from tonnage.model.catalog.metrics import DeviceField

_MIB: Final = 1 << 20
_STRUCTURES: Final = frozenset(
    f"nvmlDevice{suffix}"
    for suffix in (
        *("GetGridLicensableFeatures", "GetSramEccErrorStatus", "GetGpuFabricInfoV", "GetMemoryInfo_v2"),
        *("GetPlatformInfo", "ValidateInforom"),
    )
)
"""Calls that take more than a handle and numbers, or whose error is an answer."""

_ERROR_RATE: Final = "error-rate"
"""A mantissa of 4 bits before a negative exponent of 8. Source: DCGM 4.6, its error rates of NVLinks."""

_PACKED_VERSION: Final = "packed-version"
"""A major version times 65,536, plus a minor one. Source: DCGM 4.6, its field of compute capability."""

_Call = tuple[str, tuple[int, ...]]


class FieldReading(NamedTuple):
    """A field's share of an answer: its `part`, times `factor` by `divisor`, whole unless `double`."""

    name: str
    part: str = ""
    factor: int = 1
    divisor: int = 1
    double: bool = False
    most: int | None = None
    """Above this it is none."""
    is_text: bool = False
    words: tuple[str, ...] = ()
    """Texts by their numbers, the first for all others; empty: the answer is a text."""


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """What to ask of a device, in this order.

    `values` are field values by (field, scope), `metrics` those of GPM by number, `links` field values of
    each NVLink by field. `peers`: whether each other GPU is asked about.
    """

    calls: tuple[tuple[_Call, tuple[FieldReading, ...]], ...] = ()
    values: tuple[tuple[tuple[int, int], FieldReading], ...] = ()
    metrics: tuple[tuple[int, FieldReading], ...] = ()
    links: tuple[tuple[int, FieldReading], ...] = ()
    peers: bool = False

    def __bool__(self) -> bool:
        return bool(self.calls or self.values or self.metrics or self.links or self.peers)


_IN_USE: Final = FieldPlan(
    ((("nvmlDeviceGetMemoryInfo", ()), (FieldReading(MEMORY_IN_USE, "used", divisor=_MIB),)),)
)
"""As the catalogue has it, which an agent that publishes the memory in use alone need not load for it."""


@lru_cache(maxsize=16)
def plans_of(names: tuple[str, ...]) -> tuple[FieldPlan, FieldPlan]:
    """What to ask of a GPU and of a MIG device for those fields. Raises Bug: there is no such field."""
    if names == (MEMORY_IN_USE,):
        return _IN_USE, FieldPlan()
    from tonnage.model.catalog.metrics import fields_named  # takes half a megabyte

    fields = fields_named(names)
    return _plan(fields), _plan(field for field in fields if field.mig)


def _plan(fields: Iterable[DeviceField]) -> FieldPlan:
    calls: dict[_Call, tuple[FieldReading, ...]] = {}
    values: list[tuple[tuple[int, int], FieldReading]] = []
    metrics: list[tuple[int, FieldReading]] = []
    links: list[tuple[int, FieldReading]] = []
    peers = False
    for field in fields:
        if not field.is_sampled:
            continue
        if field.peer:
            peers = True
            continue
        reading = FieldReading(
            *(field.name, field.part, field.factor, field.divisor),
            *(field.double, field.most, field.is_text, field.words),
        )
        if field.gpm is not None:
            metrics.append((field.gpm, reading))
        elif field.link and field.field_id is not None:
            links.append((field.field_id, reading))
        elif field.field_id is not None:
            values.append(((field.field_id, field.scope), reading))
        else:
            call = (field.call, field.arguments)
            calls[call] = (*calls.get(call, ()), reading)
    return FieldPlan(tuple(calls.items()), tuple(values), tuple(metrics), tuple(links), peers)


def read_fields(
    nvml: ModuleType, handle: Any, uuid: str, plan: FieldPlan, metrics: Mapping[int, float]
) -> Sample:
    """What the device gives of it; `metrics` are those of GPM by number. Raises nothing of NVML's."""
    values: dict[str, int | float | str | None] = {}
    for (call, arguments), readings in plan.calls:
        answer = optional(nvml, partial(_answer, nvml, handle, call, arguments))
        if answer is not None:
            values |= {field.name: _converted(field, _part(answer, field.part)) for field in readings}
    if plan.values:
        places = [place for place, _ in plan.values]
        numbers = optional(nvml, lambda: field_values(nvml, handle, places)) or {}
        values |= {field.name: _converted(field, numbers.get(place)) for place, field in plan.values}
    values |= {field.name: _converted(field, metrics.get(number)) for number, field in plan.metrics}
    return Sample(
        uuid,
        {name: value for name, value in values.items() if isinstance(value, int | float)},
        {name: value for name, value in values.items() if isinstance(value, str)},
        _of_links(nvml, handle, plan.links) if plan.links else {},
    )


def _of_links(
    nvml: ModuleType, handle: Any, fields: Sequence[tuple[int, FieldReading]]
) -> Mapping[int, Mapping[str, int | float]]:
    """What each NVLink gives that is up; all that one gives are one call."""
    links: dict[int, Mapping[str, int | float]] = {}
    for number in range(nvml.NVML_NVLINK_MAX_LINKS):
        state = optional(nvml, partial(nvml.nvmlDeviceGetNvLinkState, handle, number))
        if state is None:
            break  # it has no more
        if not state:
            continue
        places = list(dict.fromkeys((field, number) for field, _ in fields))
        answers = optional(nvml, partial(field_values, nvml, handle, places)) or {}
        readings = {field.name: _converted(field, answers.get((place, number))) for place, field in fields}
        numbers = {name: value for name, value in readings.items() if isinstance(value, int | float)}
        if numbers:
            links[number] = numbers
    return links


def _answer(nvml: ModuleType, handle: Any, call: str, arguments: Sequence[int]) -> Any:
    if call in _STRUCTURES:
        from tonnage.adapters.vendors.nvml_structures import ANSWERS  # what hardly anybody asks for

        return ANSWERS[call](nvml, handle)
    return getattr(nvml, call)(*([] if call.startswith("nvmlSystem") else [handle]), *arguments)


def _part(answer: Any, part: str) -> Any:
    """The part of that name or place, None where this driver's answer has none."""
    if part in ("count", _PACKED_VERSION) or part.isdigit():
        try:
            if part == _PACKED_VERSION:
                return answer[0] << 16 | answer[1]
            return len(answer) if part == "count" else answer[int(part)]
        except (TypeError, IndexError):  # another driver's answer is no list, or a shorter one
            return None
    return answer if part in ("", _ERROR_RATE) else getattr(answer, part, None)


def _converted(reading: FieldReading, value: Any) -> int | float | str | None:
    if value is None or (reading.most is not None and value > reading.most):
        return None
    if reading.words:
        return reading.words[value if 0 < value < len(reading.words) else 0]
    if reading.is_text:
        return str(value)
    if reading.part == _ERROR_RATE:
        return float((value >> 8 & 0xF) * 10.0 ** -(value & 0xFF))
    if reading.double:
        return float(value) * reading.factor / reading.divisor
    return int(value * reading.factor) // reading.divisor
