"""What NVML is asked for fields of the catalogue."""

from __future__ import annotations

from tonnage.adapters.vendors.nvml_fields import plans_of
from tonnage.model.devices.inventory import MEMORY_IN_USE


def test_memory_in_use_is_asked_for_as_the_catalogue_says_without_loading_it() -> None:
    alone, of_a_mig_device = plans_of((MEMORY_IN_USE,))
    among_others, _ = plans_of((MEMORY_IN_USE, "power_w"))
    assert len(alone.calls) == 1
    assert set(alone.calls) <= set(among_others.calls)
    assert not of_a_mig_device


def test_what_one_call_answers_is_asked_for_once() -> None:
    names = ("memory_total_mib", "memory_used_ratio", "power_w", "memory_free_mib")
    whole, part = plans_of(names)
    asked = {call: [each.name for each in readings] for (call, _), readings in whole.calls}
    assert asked == {
        "nvmlDeviceGetMemoryInfo_v2": ["memory_total_mib", "memory_used_ratio", "memory_free_mib"],
        "nvmlDeviceGetPowerUsage": ["power_w"],
    }
    assert [call for (call, _), _ in part.calls] == ["nvmlDeviceGetMemoryInfo_v2"]
