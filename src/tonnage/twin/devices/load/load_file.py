"""The workloads of a node's pretended devices in a small file beside theirs, as a driver knows processes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec

from tonnage.model.devices.pretended_load import PretendedLoad
from tonnage.model.json import parsed_json
from tonnage.twin.devices.bounded_files import bounded_bytes
from tonnage.twin.devices.load.physics import LoadTotals

_MOST_BYTES: Final = 4 << 20
_MOST: Final = 1e12
"""Of every number in the file: more is no time, amount or share."""
_REMEMBERED_S: Final = 300.0
"""So long the warmth of what has ended is felt."""


@dataclass(frozen=True, slots=True)
class LoadRun:
    """A workload in a container. `ids` name its devices as they were injected; times are since 1970."""

    key: str
    namespace: str
    pod: str
    container: str
    ids: tuple[str, ...]
    load: PretendedLoad
    seed: int
    mps: bool
    started_s: float
    ended_s: float | None = None


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """Everything since `since_s`, up to which each device had counted `totals`, by uuid, in that `boot`."""

    since_s: float
    boot: str = ""
    totals: Mapping[str, LoadTotals] = field(default_factory=dict)
    runs: tuple[LoadRun, ...] = ()

    def with_run(self, run: LoadRun) -> NodeLoad:
        """A workload begins."""
        return replace(self, runs=(*self._remembered(), run))

    def without_run(self, key: str) -> NodeLoad:
        """A workload has ended."""
        runs = (
            replace(run, ended_s=self.since_s) if run.key == key and run.ended_s is None else run
            for run in self._remembered()
        )
        return replace(self, runs=tuple(runs))

    def _remembered(self) -> tuple[LoadRun, ...]:
        oldest = self.since_s - _REMEMBERED_S
        return tuple(run for run in self.runs if run.ended_s is None or run.ended_s > oldest)


class LoadFile:
    """Reads and replaces the file; what is not as `write` leaves it counts as no load."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read: tuple[bytes, NodeLoad | None] = (b"", None)

    def read(self) -> NodeLoad | None:
        """The workloads; None where nobody has written any."""
        try:
            content = bounded_bytes(self._file, _MOST_BYTES)
        except OSError:
            return None
        if content != self._read[0]:
            self._read = content, _node_load(content)
        return self._read[1]

    def write(self, load: NodeLoad) -> None:
        """Replace it whole."""
        fresh = self._file.with_name(f".{self._file.name}.new")
        fresh.write_text(json.dumps(asdict(load)), encoding="utf-8")
        fresh.replace(self._file)


def _node_load(content: bytes) -> NodeLoad | None:
    try:
        node = msgspec.convert(parsed_json(content), NodeLoad)
    except ValueError:
        return None
    return node if all(abs(number) <= _MOST for number in _numbers(node)) else None


def _numbers(node: NodeLoad) -> Iterator[float]:
    yield node.since_s
    for totals in node.totals.values():
        yield from (totals.energy_j, totals.capped_s, totals.linked_s)
    for run in node.runs:
        load = run.load
        yield from (run.started_s, run.ended_s or 0.0, run.seed, load.memory_mib or 0, load.seed or 0)
        yield from (load.busy, load.rate, load.service_s, load.width, load.memory_share)
        yield from (load.growth_share, load.after_s)
