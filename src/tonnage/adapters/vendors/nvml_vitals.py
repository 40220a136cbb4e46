"""What a GPU says about its own state, in one call of the driver and what that call cannot give."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from tonnage.adapters.vendors.nvml_reading import optional
from tonnage.model.devices.inventory import Vitals

_UNCORRECTED: Final = 4
_RETIREMENT_PENDING: Final = 31
_LINK_ERRORS: Final = (38, 45, 59, 160)
"""CRC errors of flits and of data, recoveries, ECC errors; each the total of all links."""
_LINK_COUNT: Final = 91
_REMAP_PENDING: Final = 144
_REMAP_FAILED: Final = 145
_LINK_STATE: Final = 165
_RECOVERY_ACTION: Final = 230
_FIELDS: Final = (
    *(_UNCORRECTED, _RETIREMENT_PENDING, _LINK_COUNT, _REMAP_PENDING, _REMAP_FAILED, _RECOVERY_ACTION),
    *_LINK_ERRORS,
)
"""Source: nvml.h, NVML_FI_DEV_*."""

Numbers = dict[tuple[int, int], int]
"""Values by field and scope, of the fields that the device gives."""


def read_vitals(nvml: ModuleType, uuid: str, handle: Any, links: int) -> tuple[Vitals, int]:
    """What the device says, and how many NVLinks it has. What it does not give is None; raises nothing.

    `links` is for how many of them to ask: what was answered the time before.
    """
    scopes = [(field, 0) for field in _FIELDS] + [(_LINK_STATE, link) for link in range(links)]
    values = optional(nvml, lambda: field_values(nvml, handle, scopes)) or {}

    def flag(field: int) -> bool | None:
        value = values.get((field, 0))
        return None if value is None else value != 0

    uncorrected = values.get((_UNCORRECTED, 0))
    states = [value for (field, _), value in values.items() if field == _LINK_STATE]
    errors = [values[field, 0] for field in _LINK_ERRORS if (field, 0) in values]
    pending = (flag(_REMAP_PENDING), flag(_RETIREMENT_PENDING))
    vitals = Vitals(
        uuid,
        uncorrected_errors=optional(nvml, _ecc(nvml, handle)) if uncorrected is None else uncorrected,
        remap_pending=None if pending == (None, None) else any(pending),
        remap_failed=flag(_REMAP_FAILED),
        recovery_action=values.get((_RECOVERY_ACTION, 0)),
        nvlinks_up=sum(1 for state in states if state) if states else None,
        nvlink_errors=sum(errors) if errors else None,
    )
    return vitals, min(values.get((_LINK_COUNT, 0), 0), nvml.NVML_NVLINK_MAX_LINKS)


def field_values(nvml: ModuleType, handle: Any, scopes: list[tuple[int, int]]) -> Numbers:
    """The values of those fields and scopes that the device gives. Raises NVMLError."""
    answers = nvml.nvmlDeviceGetFieldValues(handle, scopes)
    return {
        scope: _number(nvml, answer)
        for scope, answer in zip(scopes, answers, strict=True)
        if answer.nvmlReturn == nvml.NVML_SUCCESS
    }


def _number(nvml: ModuleType, answer: Any) -> int:
    value = answer.value
    match answer.valueType:
        case nvml.NVML_VALUE_TYPE_DOUBLE:
            return int(value.dVal) if math.isfinite(value.dVal) else 0
        case nvml.NVML_VALUE_TYPE_UNSIGNED_INT:
            return int(value.uiVal)
        case nvml.NVML_VALUE_TYPE_UNSIGNED_LONG:
            return int(value.ulVal)
        case nvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG:
            return int(value.sllVal)
        case nvml.NVML_VALUE_TYPE_SIGNED_INT:
            return int(value.siVal)
        case nvml.NVML_VALUE_TYPE_UNSIGNED_SHORT:
            return int(value.usVal)
        case _:
            return int(value.ullVal)


def _ecc(nvml: ModuleType, handle: Any) -> Callable[[], int]:
    """For a driver that does not give the count as a field."""
    kind, counter = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
    return lambda: int(nvml.nvmlDeviceGetTotalEccErrors(handle, kind, counter))
