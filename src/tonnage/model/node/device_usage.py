"""What devices read and who uses them, as `tonnage top` shows it. None is what nobody tells."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """A GPU on a page, or a GPU instance (`instance`, `profile`), which has its GPU's uuid and index."""

    uuid: str
    instance: str = ""
    index: int | None = None
    product: str = ""
    profile: str = ""
    utilization: float | None = None
    used_mib: float | None = None
    memory_mib: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    clock_mhz: float | None = None
    xid: int = 0
    holders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodReading:
    """What a pod uses of a device: the share of its time, and bytes. `attribution` says how that is known."""

    namespace: str
    pod: str
    uuid: str
    instance: str = ""
    compute_ratio: float | None = None
    memory_bytes: float | None = None
    attribution: str = ""


@dataclass(frozen=True, slots=True)
class DevicePage:
    """A page of device metrics; `host` is the node that it names."""

    host: str = ""
    devices: tuple[DeviceReading, ...] = ()
    pods: tuple[PodReading, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceUsage:
    """A device of a node. `age_s` is how old its readings are where they come from NodeGPUStatus."""

    node: str
    reading: DeviceReading
    healthy: bool = True
    reason: str = ""
    age_s: float | None = None


@dataclass(frozen=True, slots=True)
class PodUsage:
    """A pod on GPUs. `gpus` adds up what it keeps busy, 1 for a whole GPU; `shared`: others have them too."""

    pod: str
    nodes: tuple[str, ...]
    devices: int
    gpus: float | None = None
    used_mib: float | None = None
    power_w: float | None = None
    shared: bool = False
    attribution: str = ""


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """A node's devices together: `utilization` is their mean, `temperature_c` the highest."""

    node: str
    devices: int
    held: int
    unhealthy: int
    utilization: float | None = None
    used_mib: float | None = None
    memory_mib: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    age_s: float | None = None
