"""The columns of each view: what a cell shows, how rows are sorted, what goes on a narrow screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Generic, TypeAlias, TypeVar

from tonnage.model.node.device_usage import DeviceUsage, NodeUsage, PodUsage

Row: TypeAlias = NodeUsage | DeviceUsage | PodUsage
R = TypeVar("R", bound=Row)
_NOTHING: Final = "-"
_GIB: Final = 1024


class View(StrEnum):
    """By what usage is listed."""

    NODES = "nodes"
    DEVICES = "devices"
    PODS = "pods"


@dataclass(frozen=True, slots=True)
class UsageColumn(Generic[R]):
    """`drop` says when it goes on a narrow screen: the highest first, 0 never. Numbers sort downwards."""

    head: str
    text: Callable[[R], str]
    number: Callable[[R], float | None] | None = None
    drop: int = 0


def row_key(row: Row) -> str:
    """What identifies a row from one moment to the next."""
    match row:
        case NodeUsage():
            return row.node
        case PodUsage():
            return row.pod
        case DeviceUsage():
            return f"{row.node}/{row.reading.uuid}/{row.reading.instance}"


def busy_of(row: Row) -> float | None:
    """Per cent, of which a trend is drawn; of a pod what it keeps busy of all its GPUs."""
    match row:
        case NodeUsage():
            return row.utilization
        case PodUsage():
            return None if row.gpus is None else 100 * row.gpus / max(1, row.devices)
        case DeviceUsage():
            return row.reading.utilization


def matches(row: Row, words: str) -> bool:
    """Whether some text of the row has these words, whatever their case."""
    match row:
        case NodeUsage():
            texts = [row.node]
        case PodUsage():
            texts = [row.pod, *row.nodes, row.attribution]
        case DeviceUsage():
            reading = row.reading
            texts = [row.node, reading.uuid, reading.product, reading.profile, *reading.holders, row.reason]
    return words.casefold() in " ".join(texts).casefold()


def _percent(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.0f}%"


def _unit(value: float | None, unit: str) -> str:
    return _NOTHING if value is None else f"{value:.0f}{unit}"


def _gib(mib: float | None) -> str:
    return _NOTHING if mib is None else f"{mib / _GIB:.1f}"


def _memory(used_mib: float | None, whole_mib: float | None) -> str:
    return _NOTHING if used_mib is None else f"{_gib(used_mib)}/{_gib(whole_mib)}G"


def _age(age_s: float | None) -> str:
    """How old what is shown is; `live` where an agent served it."""
    return "live" if age_s is None else f"{age_s:.0f}s ago" if age_s < 600 else f"{age_s / 60:.0f}m ago"


def _place(device: DeviceUsage) -> str:
    """A GPU's index, of a GPU instance with its profile and number."""
    reading = device.reading
    index = "?" if reading.index is None else str(reading.index)
    return f"{index} {reading.profile} #{reading.instance}" if reading.instance else index


def _holders(device: DeviceUsage) -> str:
    pods = device.reading.holders
    return _NOTHING if not pods else pods[0] if len(pods) == 1 else f"{len(pods)}: {', '.join(pods)}"


def _health(device: DeviceUsage) -> str:
    if not device.healthy:
        return device.reason or "unhealthy"
    return f"Xid {device.reading.xid}" if device.reading.xid else "ok"


_NODES: Final[tuple[UsageColumn[NodeUsage], ...]] = (
    UsageColumn("NODE", lambda r: r.node),
    UsageColumn("GPUS", lambda r: str(r.devices), lambda r: r.devices),
    UsageColumn("HELD", lambda r: str(r.held), lambda r: r.held, 2),
    UsageColumn("UTIL", lambda r: _percent(r.utilization), lambda r: r.utilization),
    UsageColumn("MEMORY", lambda r: _memory(r.used_mib, r.memory_mib), lambda r: r.used_mib),
    UsageColumn("POWER", lambda r: _unit(r.power_w, "W"), lambda r: r.power_w, 1),
    UsageColumn("TEMP", lambda r: _unit(r.temperature_c, "C"), lambda r: r.temperature_c, 3),
    UsageColumn("FAULTY", lambda r: str(r.unhealthy or _NOTHING), lambda r: r.unhealthy, 4),
    UsageColumn("AGE", lambda r: _age(r.age_s), lambda r: r.age_s, 5),
)
_DEVICES: Final[tuple[UsageColumn[DeviceUsage], ...]] = (
    UsageColumn("NODE", lambda r: r.node),
    UsageColumn("GPU", _place),
    UsageColumn("UTIL", lambda r: _percent(r.reading.utilization), lambda r: r.reading.utilization),
    UsageColumn(
        "MEMORY", lambda r: _memory(r.reading.used_mib, r.reading.memory_mib), lambda r: r.reading.used_mib
    ),
    UsageColumn("POWER", lambda r: _unit(r.reading.power_w, "W"), lambda r: r.reading.power_w, 2),
    UsageColumn("TEMP", lambda r: _unit(r.reading.temperature_c, "C"), lambda r: r.reading.temperature_c, 3),
    UsageColumn("CLOCK", lambda r: _unit(r.reading.clock_mhz, "M"), lambda r: r.reading.clock_mhz, 5),
    UsageColumn("HEALTH", _health, None, 4),
    UsageColumn("AGE", lambda r: _age(r.age_s), lambda r: r.age_s, 7),
    UsageColumn("PRODUCT", lambda r: r.reading.product or _NOTHING, None, 6),
    UsageColumn("PODS", _holders),
)
_PODS: Final[tuple[UsageColumn[PodUsage], ...]] = (
    UsageColumn("POD", lambda r: r.pod),
    UsageColumn("GPUS", lambda r: str(r.devices), lambda r: r.devices),
    UsageColumn("BUSY", lambda r: _NOTHING if r.gpus is None else f"{r.gpus:.2f}", lambda r: r.gpus),
    UsageColumn("MEMORY", lambda r: f"{_gib(r.used_mib)}G", lambda r: r.used_mib),
    UsageColumn("POWER", lambda r: _unit(r.power_w, "W"), lambda r: r.power_w, 2),
    UsageColumn("SHARED", lambda r: "yes" if r.shared else "no", None, 1),
    UsageColumn("KNOWN", lambda r: r.attribution or _NOTHING, None, 4),
    UsageColumn("NODES", lambda r: ", ".join(r.nodes), None, 3),
)
COLUMNS: Final[Mapping[View, tuple[UsageColumn[Any], ...]]] = MappingProxyType(
    {View.NODES: _NODES, View.DEVICES: _DEVICES, View.PODS: _PODS}
)
