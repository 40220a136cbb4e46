"""Devices, MIG devices and readings out of nvidia-ml-py, in the model's words. All calls may block."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar
from uuid import UUID

from tonnage.model.devices.inventory import FABRIC_COMPLETE, Device, GpuProcess, MigDevice, ProfileSize

T = TypeVar("T")

_MIB: Final = 1 << 20
_UUID: Final = re.compile(r"(GPU|MIG)-[A-Za-z0-9._/-]{1,95}")
"""Before driver 470 MIG devices are `MIG-GPU-<number>/<gi>/<ci>`. `all`, `none` or a list would say more."""
_MOST_PERCENT: Final = 100
_NO_INSTANCE: Final = 0xFFFFFFFF
_DISPLAYS: Final = frozenset({"DGX Display", "NVIDIA DGX Display"})


def is_display(product: str) -> bool:
    """Whether it is the card in a DGX Station that drives its screen, which nobody computes on."""
    return product in _DISPLAYS


def optional(nvml: ModuleType, read: Callable[[], T]) -> T | None:
    """A fact that the device may not give; None then."""
    try:
        return read()
    except (nvml.NVMLError, ValueError):
        return None


def identity_of(nvml: ModuleType, handle: Any) -> str:
    """The device's UUID. Raises NVMLError, or ValueError: none that can be told to a container."""
    uuid: str = nvml.nvmlDeviceGetUUID(handle)
    if not _UUID.fullmatch(uuid):
        raise ValueError(f"no UUID: {uuid[:100]!r}")
    return uuid


def read_device(nvml: ModuleType, index: int, root: Path) -> tuple[Device, tuple[str, ...]]:
    """The device of that index and what is wrong with its MIG devices.

    Raises NVMLError, or ValueError: what it says makes no sense.

    `root` stands before /sys.
    """
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    uuid = identity_of(nvml, handle)
    capability = optional(nvml, lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle))
    pci = optional(nvml, lambda: nvml.nvmlDeviceGetPciInfo_v3(handle))
    bus_id: str = pci.busId if pci is not None else ""
    mode = optional(nvml, lambda: nvml.nvmlDeviceGetMigMode(handle))
    migs, problems = _read_migs(nvml, handle) if mode is not None and mode[0] else ((), ())
    clique, fabric = optional(nvml, lambda: _fabric(nvml, handle)) or ("", "")
    return Device(
        uuid=uuid,
        index=index,
        product=nvml.nvmlDeviceGetName(handle),
        memory_mib=nvml.nvmlDeviceGetMemoryInfo(handle).total // _MIB,
        compute_capability=f"{capability[0]}.{capability[1]}" if capability else "",
        pci_bus_id=bus_id,
        minor=optional(nvml, lambda: nvml.nvmlDeviceGetMinorNumber(handle)),
        numa_node=_numa_node(root, bus_id),
        mig_enabled=bool(mode[0]) if mode is not None else None,
        migs=migs,
        clique=clique,
        fabric=fabric,
        addressing_mode=optional(nvml, lambda: _addressing_mode(nvml, handle)) or "",
    ), tuple(f"device {index}: {problem}" for problem in problems)


def _addressing_mode(nvml: ModuleType, handle: Any) -> str:
    """How the device reaches the host's memory, in NVIDIA's words; drivers before 580 do not tell."""
    words = {
        nvml.NVML_DEVICE_ADDRESSING_MODE_NONE: "None",
        nvml.NVML_DEVICE_ADDRESSING_MODE_HMM: "HMM",
        nvml.NVML_DEVICE_ADDRESSING_MODE_ATS: "ATS",
    }
    return words.get(nvml.nvmlDeviceGetAddressingMode(handle), "")


def read_profile_sizes(nvml: ModuleType, index: int) -> dict[int, ProfileSize]:
    """What a MIG device of each profile has that the device offers, by the driver's number of the profile.

    Raises NVMLError: not all of it is told.
    """
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    sizes: dict[int, ProfileSize] = {}
    for number in range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        with suppress(nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument):
            facts = nvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, number)
            sizes[int(facts.id)] = ProfileSize(
                *(int(facts.memorySizeMB), int(facts.multiprocessorCount), int(facts.copyEngineCount)),
                *(int(facts.decoderCount), int(facts.encoderCount), int(facts.jpegCount)),
                int(facts.ofaCount),
            )
    return sizes


def _fabric(nvml: ModuleType, handle: Any) -> tuple[str, str]:
    """The clique of a complete fabric, else empty, and its state; drivers before 545 know the older call."""
    fabric = nvml.c_nvmlGpuFabricInfo_v2_t()
    try:
        nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(fabric))
    except (nvml.NVMLError_FunctionNotFound, nvml.NVMLError_ArgumentVersionMismatch):
        fabric = nvml.c_nvmlGpuFabricInfo_t()
        nvml.nvmlDeviceGetGpuFabricInfo(handle, ctypes.byref(fabric))
    cluster = UUID(bytes=bytes(fabric.clusterUuid))
    words = {
        nvml.NVML_GPU_FABRIC_STATE_NOT_STARTED: "not started",
        nvml.NVML_GPU_FABRIC_STATE_IN_PROGRESS: "in progress",
        nvml.NVML_GPU_FABRIC_STATE_COMPLETED: FABRIC_COMPLETE,
    }
    state = words.get(fabric.state, "")
    if state == FABRIC_COMPLETE and fabric.status != nvml.NVML_SUCCESS:
        state = "failed"
    complete = state == FABRIC_COMPLETE
    return f"{cluster}.{fabric.cliqueId}" if complete and cluster.int else "", state


def _numa_node(root: Path, bus_id: str) -> int | None:
    """The kernel's NUMA node of the device, None when it has none. sysfs writes a four-digit domain."""
    domain, _, rest = bus_id.lower().partition(":")
    file = root / "sys/bus/pci/devices" / f"{domain[-4:]}:{rest}" / "numa_node"
    try:
        node = int(file.read_text(encoding="ascii")[:16])
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def _read_migs(nvml: ModuleType, parent: Any) -> tuple[tuple[MigDevice, ...], tuple[str, ...]]:
    devices: list[MigDevice] = []
    problems: list[str] = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(parent)):
        try:
            handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, index)
            devices.append(_read_mig(nvml, parent, handle, index))
        except nvml.NVMLError as error:
            if error.value != nvml.NVML_ERROR_NOT_FOUND:
                problems.append(f"MIG device {index}: {error}")
        except ValueError as error:
            problems.append(f"MIG device {index}: {error}")
    return tuple(devices), tuple(problems)


def _read_mig(nvml: ModuleType, parent: Any, handle: Any, index: int) -> MigDevice:
    """The profile is the end of the name ("NVIDIA H100 80GB HBM3 MIG 1g.10gb")."""
    attributes = nvml.nvmlDeviceGetAttributes_v2(handle)
    gi: int = nvml.nvmlDeviceGetGpuInstanceId(handle)
    name: str = nvml.nvmlDeviceGetName(handle)
    instance = optional(nvml, lambda: _instance(nvml, parent, gi))
    return MigDevice(
        uuid=identity_of(nvml, handle),
        index=index,
        profile=name.rpartition(" MIG ")[2],
        gpu_instance=gi,
        compute_instance=nvml.nvmlDeviceGetComputeInstanceId(handle),
        memory_mib=int(attributes.memorySizeMB),
        placement=None if instance is None else instance[0],
        multiprocessors=attributes.multiprocessorCount,
        gpu_slices=attributes.gpuInstanceSliceCount,
        compute_slices=attributes.computeInstanceSliceCount,
        copy_engines=attributes.sharedCopyEngineCount,
        decoders=attributes.sharedDecoderCount,
        encoders=attributes.sharedEncoderCount,
        jpeg_engines=attributes.sharedJpegCount,
        optical_flow_engines=attributes.sharedOfaCount,
        profile_number=None if instance is None else instance[1],
    )


def _instance(nvml: ModuleType, parent: Any, gi: int) -> tuple[tuple[int, int], int]:
    """(placement, number of the profile) of a GPU instance: only who may change instances is told."""
    facts = nvml.nvmlGpuInstanceGetInfo(nvml.nvmlDeviceGetGpuInstanceById(parent, gi))
    return (facts.placement.start, facts.placement.size), int(facts.profileId)


@dataclass(slots=True)
class ProcessReader:
    """Reads processes; `until` is how far their utilisation was read, by UUID, in microseconds since 1970."""

    until: dict[str, int] = field(default_factory=dict)

    def read(self, nvml: ModuleType, handle: Any) -> tuple[GpuProcess, ...]:
        """Who computes on a GPU or on parts of it, of MPS the server and its clients. Raises NVMLError."""
        uuid: str = nvml.nvmlDeviceGetUUID(handle)
        listed = [(process, False) for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle)]
        clients = optional(nvml, lambda: nvml.nvmlDeviceGetMPSComputeRunningProcesses(handle)) or ()
        listed += [(process, True) for process in clients]
        uses = self._uses(nvml, handle, uuid)
        return tuple(_process(uuid, process, through_mps, uses) for process, through_mps in listed)

    def _uses(self, nvml: ModuleType, handle: Any, uuid: str) -> Mapping[int, tuple[float, int]] | None:
        """By process, its mean and the time of its last reading since the last question; None: not told.

        Without such a reading it did not compute. The driver takes several of a process in each second.
        """
        since = self.until.get(uuid, 0)
        try:
            samples = nvml.nvmlDeviceGetProcessUtilization(handle, since)
        except nvml.NVMLError_NotFound:
            return {}
        except (nvml.NVMLError, ValueError):
            return None
        by_pid: dict[int, list[tuple[int, int]]] = {}
        for sample in samples:
            if int(sample.timeStamp) > since and sample.smUtil <= _MOST_PERCENT:
                by_pid.setdefault(int(sample.pid), []).append((int(sample.timeStamp), int(sample.smUtil)))
        self.until[uuid] = max((int(sample.timeStamp) for sample in samples), default=since)
        return {
            pid: (sum(percent for _, percent in rows) / len(rows), max(at for at, _ in rows))
            for pid, rows in by_pid.items()
        }


def _process(
    uuid: str, process: Any, through_mps: bool, uses: Mapping[int, tuple[float, int]] | None
) -> GpuProcess:
    memory, instance = process.usedGpuMemory, getattr(process, "gpuInstanceId", _NO_INSTANCE)
    percent, sampled_us = (None, 0) if uses is None else uses.get(int(process.pid), (0.0, 0))
    return GpuProcess(
        uuid,
        int(process.pid),
        None if memory is None else int(memory) >> 20,
        None if instance is None or int(instance) == _NO_INSTANCE else int(instance),
        percent,
        sampled_us,
        through_mps,
    )
