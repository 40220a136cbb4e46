"""A pretended workload's readings, as the pretended driver's state has them: the same model behind both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from support.nvml.state import DriverState
from tonnage.model.devices.inventory import Sample

_WORDS: Final[Mapping[str, tuple[str, float]]] = MappingProxyType(
    {
        "utilization_percent": ("gpu-utilization", 1),
        "memory_utilization_percent": ("memory-utilization", 1),
        "memory_used_mib": ("memory-used-mib", 1),
        "memory_reserved_mib": ("memory-reserved-mib", 1),
        "temperature_c": ("temperature", 1),
        "memory_temperature_c": ("memory-temperature", 1),
        "power_w": ("power-mw", 1000),
        "energy_mj": ("energy-mj", 1),
        "clock_sm_mhz": ("clock-sm", 1),
        "clock_memory_mhz": ("clock-memory", 1),
        "clock_event_reasons": ("clock-reasons", 1),
        "clock_sm_application_mhz": ("clock-application-graphics", 1),
        "clock_memory_application_mhz": ("clock-application-memory", 1),
        "pcie_sent_kb_per_s": ("pcie-tx-kib-s", 1),
        "pcie_received_kb_per_s": ("pcie-rx-kib-s", 1),
        "ecc_uncorrected_volatile": ("ecc-uncorrected-volatile", 1),
        "memory_unrepairable": ("memory-unrepairable", 1),
        "recovery_action": ("recovery-action", 1),
    }
)
"""Word of the state file and its unit in ours, by field."""
_FIELDS: Final[Mapping[str, int]] = MappingProxyType(
    {"nvlink_sent_kib": 138, "nvlink_received_kib": 139, "throttled_power_ns": 74, "throttled_thermal_ns": 75}
)
_METRICS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "pcie_sent_bytes_per_s": 20,
        "pcie_received_bytes_per_s": 21,
        "nvlink_sent_bytes_per_s": 61,
        "nvlink_received_bytes_per_s": 60,
    }
)
_MIB: Final = 1 << 20
_OF_THE_MODEL: Final = (
    *("index", "compute_capability", "cuda_version", "gpm_supported"),
    *(f"ecc_uncorrected_volatile_{place}" for place in ("device", "sram")),
    *("nvlink_sent_bytes", "nvlink_received_bytes"),
)
"""What needs no word of its own: it follows from the model, or from the words above."""
FIELDS: Final = (*_WORDS, *_FIELDS, *_METRICS, *_OF_THE_MODEL)


def loaded(state: DriverState, samples: Iterable[Sample]) -> DriverState:
    """The state with what those samples read, of GPUs with the same uuids."""
    by_uuid = {sample.uuid: sample.values for sample in samples}
    gpus, fields, metrics = [], {**state.fields}, {**state.metrics}
    for gpu in state.gpus:
        values = by_uuid.get(gpu.identity, {})
        facts = {word: round(values[name] * unit) for name, (word, unit) in _WORDS.items() if name in values}
        gpus.append(replace(gpu, facts={**gpu.facts, **facts}))
        fields |= {(gpu.slot, number): values[name] for name, number in _FIELDS.items() if name in values}
        metrics |= {
            (gpu.slot, number): values[name] / _MIB for name, number in _METRICS.items() if name in values
        }
    return replace(state, gpus=tuple(gpus), fields=fields, metrics=metrics)
