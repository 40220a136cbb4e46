"""Fields that the exporter serves beside nvidia-smi's own answer about the same GPUs.

nvidia-smi asks the driver by itself: a wrong call, factor or part of an answer on our side shows here.
Names are those of `nvidia-smi --help-query-gpu` of the drivers 535 to 580.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tonnage.model.devices.inventory import Sample
from tonnage.ports.node import DeviceBackend

Number = Callable[[str], float]
_PATIENCE_S: Final = 30
_REFUSED: Final = re.compile(r'Field "([^"]+)" is not a valid field to query')
_UNKNOWN: Final = re.compile(r"\[?(N/A|Not Supported|Unknown Error|Not Found|Insufficient Permissions|)\]?")


def _words(*words: str) -> Number:
    """Their places, from 0."""
    return lambda text: float(words.index(text))


def _capability(text: str) -> float:
    major, _, minor = text.partition(".")
    return float(int(major) << 16 | int(minor))


_SWITCHED: Final = _words("Disabled", "Enabled")
_HAPPENED: Final = _words("No", "Yes")
_COMPUTE: Final = _words("Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process")


@dataclass(frozen=True, slots=True)
class Pair:
    """A field of ours and nvidia-smi's name for it.

    `within` is how far they may be apart beside what changed between the two readings around nvidia-smi's;
    0 of what does not change by itself. `number` reads nvidia-smi's text; None: it is compared as text.
    """

    ours: str
    smi: str
    within: float = 0.0
    number: Number | None = float


PAIRS: Final = (
    Pair("index", "index"),
    Pair("product", "name", number=None),
    Pair("uuid", "uuid", number=None),
    Pair("serial", "serial", number=None),
    Pair("pci_bus_id", "pci.bus_id", number=None),
    Pair("driver_version", "driver_version", number=None),
    Pair("vbios_version", "vbios_version", number=None),
    Pair("inforom_image_version", "inforom.img", number=None),
    Pair("inforom_oem_version", "inforom.oem", number=None),
    Pair("inforom_ecc_version", "inforom.ecc", number=None),
    Pair("inforom_power_version", "inforom.pwr", number=None),
    Pair("pci_device", "pci.device_id", number=lambda text: float(int(text, 16))),
    Pair("pci_subsystem", "pci.sub_device_id", number=lambda text: float(int(text, 16))),
    Pair("compute_capability", "compute_cap", number=_capability),
    Pair("memory_total_mib", "memory.total", 1),
    Pair("memory_reserved_mib", "memory.reserved", 1),
    Pair("memory_used_mib", "memory.used", 64),
    Pair("memory_free_mib", "memory.free", 64),
    Pair("utilization_percent", "utilization.gpu", 25),
    Pair("memory_utilization_percent", "utilization.memory", 25),
    Pair("encoder_percent", "utilization.encoder", 25),
    Pair("decoder_percent", "utilization.decoder", 25),
    Pair("temperature_c", "temperature.gpu", 3),
    Pair("memory_temperature_c", "temperature.memory", 3),
    Pair("temperature_margin_c", "temperature.gpu.tlimit", 3),
    Pair("fan_percent", "fan.speed", 10),
    Pair("power_w", "power.draw", 50),
    Pair("power_instant_w", "power.draw.instant", 50),
    Pair("power_limit_w", "power.limit", 0.01),
    Pair("enforced_power_limit_w", "enforced.power.limit", 0.01),
    Pair("default_power_limit_w", "power.default_limit", 0.01),
    Pair("least_power_limit_w", "power.min_limit", 0.01),
    Pair("most_power_limit_w", "power.max_limit", 0.01),
    Pair("clock_sm_mhz", "clocks.current.sm", 400),
    Pair("clock_memory_mhz", "clocks.current.memory", 400),
    Pair("clock_video_mhz", "clocks.current.video", 400),
    Pair("clock_sm_most_mhz", "clocks.max.sm"),
    Pair("clock_memory_most_mhz", "clocks.max.memory"),
    Pair("clock_memory_application_mhz", "clocks.applications.memory"),
    Pair("clock_event_reasons", "clocks_event_reasons.active", 511, lambda text: float(int(text, 16))),
    Pair("performance_state", "pstate", 15, lambda text: float(text.removeprefix("P"))),
    Pair("persistence_mode", "persistence_mode", number=_SWITCHED),
    Pair("ecc_mode", "ecc.mode.current", number=_SWITCHED),
    Pair("ecc_mode_pending", "ecc.mode.pending", number=_SWITCHED),
    Pair("mig_mode", "mig.mode.current", number=_SWITCHED),
    Pair("compute_mode", "compute_mode", number=_COMPUTE),
    Pair("ecc_corrected_volatile", "ecc.errors.corrected.volatile.total"),
    Pair("ecc_uncorrected_volatile", "ecc.errors.uncorrected.volatile.total"),
    Pair("ecc_corrected_aggregate", "ecc.errors.corrected.aggregate.total"),
    Pair("ecc_uncorrected_aggregate", "ecc.errors.uncorrected.aggregate.total"),
    Pair("retired_pages_corrected", "retired_pages.sbe"),
    Pair("retired_pages_uncorrected", "retired_pages.dbe"),
    Pair("retired_pages_pending", "retired_pages.pending", number=_HAPPENED),
    Pair("remapped_rows_corrected", "remapped_rows.correctable"),
    Pair("remapped_rows_uncorrected", "remapped_rows.uncorrectable"),
    Pair("row_remap_pending", "remapped_rows.pending", number=_HAPPENED),
    Pair("row_remap_failed", "remapped_rows.failure", number=_HAPPENED),
    Pair("row_banks_max", "remapped_rows.histogram.max"),
    Pair("row_banks_high", "remapped_rows.histogram.high"),
    Pair("row_banks_partial", "remapped_rows.histogram.partial"),
    Pair("row_banks_low", "remapped_rows.histogram.low"),
    Pair("row_banks_none", "remapped_rows.histogram.none"),
    Pair("pcie_generation", "pcie.link.gen.current", 5),
    Pair("pcie_generation_most", "pcie.link.gen.max"),
    Pair("pcie_width", "pcie.link.width.current", 16),
    Pair("pcie_width_most", "pcie.link.width.max"),
)
"""Every field with a counterpart. nvidia-smi queries no energy, replays, throttled times or profiling."""
FIELDS: Final = frozenset(pair.ours for pair in PAIRS)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs, as sentences; values compared of each field; names that nvidia-smi lacks."""

    differences: tuple[str, ...] = ()
    compared: Mapping[str, int] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()


async def compared_with_nvidia_smi(backend: DeviceBackend, program: Path) -> Comparison:
    """Our readings before and after nvidia-smi's beside its own."""
    before = await backend.sample(FIELDS)
    rows, unknown = await _queried(program, [pair.smi for pair in PAIRS])
    after = await backend.sample(FIELDS)
    return comparison(rows, before, after, unknown)


async def _queried(program: Path, names: list[str]) -> tuple[Sequence[Mapping[str, str]], tuple[str, ...]]:
    """By GPU nvidia-smi's texts. For one name that it does not know it refuses all: that is left out."""
    unknown: list[str] = []
    while True:
        process = await asyncio.create_subprocess_exec(
            *(program, f"--query-gpu={','.join(names)}", "--format=csv,noheader,nounits"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(_PATIENCE_S):
            text = (await process.communicate())[0].decode()
        refused = _REFUSED.search(text)
        if refused is None:
            assert process.returncode == 0, text
            break
        names = [name for name in names if name != refused[1]]
        unknown.append(refused[1])
    lines = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    return [dict(zip(names, line, strict=True)) for line in lines], tuple(unknown)


def comparison(
    rows: Sequence[Mapping[str, str]],
    before: Sequence[Sample],
    after: Sequence[Sample],
    unknown: tuple[str, ...] = (),
) -> Comparison:
    """By the GPU's UUID. What nvidia-smi has and we lack is a difference, not the other way round."""
    samples = [{sample.uuid: sample for sample in each} for each in (before, after)]
    differences: list[str] = []
    counts: dict[str, int] = {}
    for row in rows:
        uuid = row["uuid"]
        if any(uuid not in of_time for of_time in samples):
            differences.append(f"{uuid}: nvidia-smi has this GPU, and we have not")
            continue
        for pair in PAIRS:
            text = row.get(pair.smi, "")
            if _UNKNOWN.fullmatch(text):
                continue
            counts[pair.ours] = counts.get(pair.ours, 0) + 1
            values = [_value(pair, of_time[uuid]) for of_time in samples]
            if not _same(pair, text, values):
                differences.append(f"{uuid}: {pair.ours} is {values}, nvidia-smi's {pair.smi} {text}")
    return Comparison(tuple(differences), counts, unknown)


def _value(pair: Pair, sample: Sample) -> float | str | None:
    return (sample.texts if pair.number is None else sample.values).get(pair.ours)


def _same(pair: Pair, text: str, values: Sequence[float | str | None]) -> bool:
    if pair.number is None:
        return text in values
    numbers = [value for value in values if isinstance(value, int | float)]
    if not numbers:
        return False
    return min(numbers) - pair.within <= pair.number(text) <= max(numbers) + pair.within
