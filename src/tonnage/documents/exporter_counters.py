"""dcgm-exporter's CSV of counters: `NAME, type, help` a line, comments behind `#`."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from io import StringIO
from typing import Final

from tonnage.documents.refused_counters import refusal_of
from tonnage.model.catalog.metrics import device_fields
from tonnage.model.errors import Problem, not_utf8
from tonnage.model.node.telemetry import CLOCK_COUNT, XID_COUNT, CounterType, ExportedCounter

NOT_EXPORTED: Final = "Tonnage does not export"
"""How a problem begins that is about a field of DCGM's which Tonnage has not."""
MAX_BYTES: Final = 1 << 20
MAX_ROWS: Final = 20_000
_MOST_PROBLEMS: Final = 20
_COLUMNS: Final = 3
_MOST_HELP: Final = 1_000
_WINDOWS: Final[Mapping[str, int]] = {XID_COUNT: 9001, CLOCK_COUNT: 9002}

_DEFAULT: Final = (
    *("DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_GPU_TEMP"),
    *("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"),
    *("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_ENC_UTIL", "DCGM_FI_DEV_DEC_UTIL"),
    *("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_RESERVED"),
    *("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_VGPU_LICENSE_STATUS"),
    *("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS"),
    *("DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DRIVER_VERSION", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
    *("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_PCIE_TX_BYTES"),
    "DCGM_FI_PROF_PCIE_RX_BYTES",
)


@dataclass(frozen=True, slots=True)
class CounterFile:
    """The counters of a file, and what is wrong with its other lines."""

    counters: tuple[ExportedCounter, ...]
    problems: tuple[Problem, ...] = ()


def read_counters(content: bytes, source: str) -> CounterFile:
    """The counters that can be served; each other line is a problem with its place and remedy.

    dcgm-exporter serves nothing of a file in which one line is wrong.
    """
    if len(content) > MAX_BYTES:
        return CounterFile((), (Problem(f"the file is larger than {MAX_BYTES >> 20} MiB", source),))
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        return CounterFile((), (not_utf8(error, source),))
    return _Reader(source).read(text)


@cache
def counter_numbers() -> Mapping[str, int]:
    """Every counter that Tonnage can serve -> DCGM's number of the field."""
    fields = device_fields().values()
    numbers = {name: field.dcgm_id for field in fields for name in field.dcgm if field.dcgm_id is not None}
    return {**numbers, **_WINDOWS}


def window_counters() -> Mapping[str, int]:
    """Counters of what happened within a window -> the number that orders them."""
    return _WINDOWS


def default_counters() -> tuple[ExportedCounter, ...]:
    """Those of dcgm-exporter's default-counters.csv, without the lines that are commented out."""
    by_name = {name: field for field in device_fields().values() for name in field.dcgm}
    return tuple(
        ExportedCounter(name, CounterType(by_name[name].kind), by_name[name].help, counter_numbers()[name])
        for name in _DEFAULT
    )


class _Reader:
    """Reads one file, and keeps what it met."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._lines: dict[str, int] = {}
        self._counters: list[ExportedCounter] = []
        self._problems: list[Problem] = []
        self._left_out = 0
        """Problems beyond those that are told."""

    def read(self, text: str) -> CounterFile:
        reader = csv.reader(StringIO(text, newline=""), skipinitialspace=True, strict=True)
        while True:
            try:
                row = next(reader, None)
            except csv.Error as error:
                remedy = "put a help text with a comma in double quotes"
                self._refuse(reader.line_num, "the line is not CSV", str(error), remedy)
                continue
            if row is None:
                break
            if reader.line_num > MAX_ROWS:
                self._refuse(reader.line_num, f"the file has more than {MAX_ROWS} lines")
                break
            if row and not row[0].lstrip().startswith("#"):
                self._take(reader.line_num, [cell.strip() for cell in row])
        if self._left_out:
            self._problems.append(Problem(f"{self._left_out} more lines are wrong", self._source))
        return CounterFile(tuple(self._counters), tuple(self._problems))

    def _take(self, line: int, row: Sequence[str]) -> None:
        if len(row) != _COLUMNS:
            why = f"it has {len(row)}"
            self._refuse(
                line, "a counter has three columns", why, "write NAME, type, help; quote a help with a comma"
            )
            return
        name, kind, help_text = row
        number = counter_numbers().get(name)
        if number is None:
            self._refuse_name(line, name)
        elif kind not in set(CounterType):
            self._refuse(
                line,
                f"{kind[:40]!r} is not a type of metric",
                remedy=f"write one of {', '.join(CounterType)}",
            )
        elif name in self._lines:
            self._refuse(
                line, f"{name} is listed twice", f"first in line {self._lines[name]}", "remove one of them"
            )
        elif len(help_text) > _MOST_HELP:
            self._refuse(line, f"the help is longer than {_MOST_HELP} characters")
        else:
            self._lines[name] = line
            self._counters.append(ExportedCounter(name, CounterType(kind), help_text, number))

    def _refuse_name(self, line: int, name: str) -> None:
        if refusal := refusal_of(name):
            self._refuse(line, f"{NOT_EXPORTED} {name[:100]}", refusal.why, refusal.remedy)
            return
        if len(self._problems) >= _MOST_PROBLEMS:  # looking for the nearest takes milliseconds
            self._left_out += 1
            return
        near = get_close_matches(name[:100], counter_numbers(), n=1)
        remedy = (
            f"use {near[0]} if you meant that"
            if near
            else "docs/reference/exporter-metrics.md lists the fields"
        )
        self._refuse(line, f"Tonnage does not know the field {name[:100]!r}", remedy=remedy)

    def _refuse(self, line: int, problem: str, why: str = "", remedy: str = "") -> None:
        if len(self._problems) >= _MOST_PROBLEMS:
            self._left_out += 1
            return
        self._problems.append(Problem(problem, f"{self._source}:{line}", why, remedy))
