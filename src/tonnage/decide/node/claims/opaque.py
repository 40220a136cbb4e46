"""Opaque configurations of claims and classes for NVIDIA's driver, read strictly.

Every field is known here; what is known and not honoured yet is refused by name, since a pod that runs
without what it asked for is worse than one that waits.

Source: kubernetes-sigs/dra-driver-nvidia-gpu v0.5, api/nvidia.com/resource/v1beta1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tonnage.documents.nearest import nearest
from tonnage.model.devices.inventory import TimeSlice
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mapping, text
from tonnage.model.kubernetes.quantity import parse_quantity

API_VERSION: Final = "resource.nvidia.com/v1beta1"
GPU_CONFIG: Final = "GpuConfig"
MIG_CONFIG: Final = "MigDeviceConfig"
_TYPES: Final[Mapping[str, str]] = {GPU_CONFIG: "gpu", MIG_CONFIG: "mig"}
"""The type of devices that a kind is for."""
_OTHER_KINDS: Final[Mapping[str, str]] = {
    "VfioDeviceConfig": "Tonnage does not hand GPUs over to virtual machines",
    "ComputeDomainChannelConfig": "Tonnage does not serve compute domains",
    "ComputeDomainDaemonConfig": "Tonnage does not serve compute domains",
}
_STRATEGIES: Final = ("TimeSlicing", "MPS")
_INTERVALS: Final = ("Default", "Short", "Medium", "Long")
_SHARING: Final = ("strategy", "timeSlicingConfig", "mpsConfig")
_MPS: Final = (
    "defaultActiveThreadPercentage",
    "defaultPinnedDeviceMemoryLimit",
    "defaultPerDevicePinnedMemoryLimit",
    "multiUser",
)


@dataclass(frozen=True, slots=True)
class DeviceConfig:
    """What one configuration decides. `device_type` is that of the devices that it is for.

    `strategy` is how the device is shared, empty: not at all. `interval` is that of time-slicing; of MPS a
    client gets `threads_percent`, and pins at most so many MiB of each device: by its uuid or its place among
    the devices in `limits_mib`, else `limit_mib` (0: no limit); `multi_user`: clients of all users together.
    """

    kind: str = GPU_CONFIG
    strategy: str = ""
    interval: TimeSlice = TimeSlice.DEFAULT
    threads_percent: int = 100
    limit_mib: int = 0
    limits_mib: tuple[tuple[str, int], ...] = ()
    multi_user: bool = False

    @property
    def device_type(self) -> str:
        return _TYPES[self.kind]


def read_config(parameters: JsonObject) -> DeviceConfig | tuple[str, ...]:
    """The configuration, or everything that is wrong with it.

    >>> read_config({"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig"}) == DeviceConfig()
    True
    >>> read_config({"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "share": {}})
    ('unknown field "share": use sharing if you meant that',)
    """
    version, kind = text(parameters, "apiVersion"), text(parameters, "kind")
    if kind in _OTHER_KINDS:
        return (f"{kind} cannot be used here: {_OTHER_KINDS[kind]}",)
    if version != API_VERSION or kind not in _TYPES:
        kinds = f"{version[:80] or 'no apiVersion'}, {kind[:80] or 'no kind'}"
        return (f"unknown kind of configuration: {kinds}; it must be {API_VERSION}, {' or '.join(_TYPES)}",)
    problems = tuple(_problems(parameters, kind))
    return problems or _config(parameters, kind)


def _config(parameters: JsonObject, kind: str) -> DeviceConfig:
    sharing = mapping(parameters, "sharing")
    interval = text(sharing, "timeSlicingConfig", "interval") or "Default"
    mps = mapping(sharing, "mpsConfig")
    percent = mps.get("defaultActiveThreadPercentage")
    limits = mapping(mps, "defaultPerDevicePinnedMemoryLimit")
    return DeviceConfig(
        kind,
        text(sharing, "strategy"),
        TimeSlice[interval.upper()],
        percent if isinstance(percent, int) else 100,
        _mib(mps.get("defaultPinnedDeviceMemoryLimit")) or 0,
        tuple((name, _mib(limit) or 0) for name, limit in limits.items()),
        mps.get("multiUser") is True,
    )


def _problems(parameters: JsonObject, kind: str) -> Iterator[str]:
    yield from _unknown(parameters, ("apiVersion", "kind", "sharing"), "")
    sharing = parameters.get("sharing")
    if sharing is None:
        return
    if not isinstance(sharing, dict):
        yield "sharing must be an object"
        return
    fields = tuple(name for name in _SHARING if kind == GPU_CONFIG or name != "timeSlicingConfig")
    yield from _unknown(sharing, fields, "sharing.")
    strategy = sharing.get("strategy")
    if strategy not in _STRATEGIES:
        yield f"sharing.strategy must be {' or '.join(_STRATEGIES)}, not {_shown(strategy)}"
    for name, section, check in (
        ("timeSlicingConfig", "TimeSlicing", _time_slicing),
        ("mpsConfig", "MPS", _mps),
    ):
        value = sharing.get(name)
        if value is None or name not in fields:
            continue
        if strategy in _STRATEGIES and strategy != section:
            yield f"sharing.{name} contradicts sharing.strategy: {strategy}"
        if isinstance(value, dict):
            yield from check(value)
        else:
            yield f"sharing.{name} must be an object"


def _time_slicing(value: JsonObject) -> Iterator[str]:
    yield from _unknown(value, ("interval",), "sharing.timeSlicingConfig.")
    interval = value.get("interval")
    if interval is not None and interval not in _INTERVALS:
        choices = ", ".join(_INTERVALS)
        yield f"sharing.timeSlicingConfig.interval must be one of {choices}, not {_shown(interval)}"


def _mps(value: JsonObject) -> Iterator[str]:
    yield from _unknown(value, _MPS, "sharing.mpsConfig.")
    percent = value.get("defaultActiveThreadPercentage")
    whole = isinstance(percent, int) and not isinstance(percent, bool)
    if percent is not None and not (whole and 0 <= percent <= 100):  # type: ignore[operator]
        where = "sharing.mpsConfig.defaultActiveThreadPercentage"
        yield f"{where} must be a whole number from 0 to 100, not {_shown(percent)}"
    where = "sharing.mpsConfig.defaultPinnedDeviceMemoryLimit"
    limits: dict[str, JsonValue] = {where: value.get("defaultPinnedDeviceMemoryLimit")}
    by_device = value.get("defaultPerDevicePinnedMemoryLimit")
    if by_device is not None and not isinstance(by_device, dict):
        yield "sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit must be an object"
    for name, limit in mapping(value, "defaultPerDevicePinnedMemoryLimit").items():
        where = f"sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit.{name[:80]}"
        if not name.isdecimal() and not name.startswith(("GPU-", "MIG-")):
            yield f"{where} must be named by an index or a UUID"
        limits[where] = "" if limit is None else limit
    for where, limit in limits.items():
        if limit is not None and not _mib(limit):
            yield f"{where} must be a quantity of at least 1Mi, not {_shown(limit)}"
    if not isinstance(value.get("multiUser", False), bool | None):
        yield f"sharing.mpsConfig.multiUser must be true or false, not {_shown(value.get('multiUser'))}"


def _mib(limit: JsonValue) -> int | None:
    """A quantity in whole MiB, rounded down; None: it is no quantity, or below 0."""
    if isinstance(limit, bool) or not isinstance(limit, str | int):
        return None
    try:
        return max(0, int(parse_quantity(str(limit)) // (1 << 20)))
    except ValueError:
        return None


def _unknown(value: JsonObject, fields: tuple[str, ...], where: str) -> Iterator[str]:
    for name in value:
        if name not in fields:
            shown = name[:80]
            yield f'unknown field "{where}{shown}": {nearest(shown, list(fields))}'


def _shown(value: JsonValue) -> str:
    if value is None:
        return "nothing"
    return repr(value)[:60] if isinstance(value, str | int | float | bool) else type(value).__name__
