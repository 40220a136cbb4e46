"""MIG through NVML: GPUs with their instances, and the steps that change them. All of it may block."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, Final

from tonnage.adapters.vendors.nvml_reading import identity_of, optional
from tonnage.adapters.vendors.nvml_session import NvmlSession
from tonnage.model.actions.devices import (
    CreateComputeInstance,
    CreateGpuInstance,
    DestroyComputeInstance,
    DestroyGpuInstance,
    MigStep,
    ResetGpu,
    SetMigMode,
)
from tonnage.model.catalog.mig import MigProfile
from tonnage.model.errors import HardwareError, Problem
from tonnage.model.mig.layouts import ComputeInstance, DividedGpu, GpuInstance

_MOST: Final = 64
_COMPUTE_SIZES: Final = 8
"""NVML's numbers of compute instance profiles are below this."""
_WHOLE: Final = 0xFFFFFFFF
_DENIED: Final = "it needs the capability SYS_ADMIN and the driver's file capabilities/mig/config"


@dataclass(frozen=True, slots=True)
class _DriverProfile:
    """A GPU instance profile as the driver tells it; `id` is NVML's number, by which instances are made."""

    id: int
    profile: MigProfile


def read_divided(session: NvmlSession) -> tuple[DividedGpu, ...]:
    """Every GPU that can be divided and be read. Raises HardwareError: none can; OSError: no driver."""
    with session.held() as nvml:
        gpus: list[DividedGpu] = []
        for index in range(nvml.nvmlDeviceGetCount()):
            gpu = optional(nvml, partial(_read, session, nvml, index))
            if gpu is not None:
                gpus.append(gpu)
        return tuple(gpus)


def _read(session: NvmlSession, nvml: ModuleType, index: int) -> DividedGpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    now, pending = nvml.nvmlDeviceGetMigMode(handle)  # refused by a GPU that cannot be divided
    profiles = _profiles(session, nvml, handle)
    instances = tuple(_instances(nvml, handle, profiles)) if now else ()
    return DividedGpu(
        identity_of(nvml, handle),
        index,
        nvml.nvmlDeviceGetName(handle),
        bool(now),
        bool(pending),
        instances,
        tuple(_users(nvml, handle)),
        f"{nvml.nvmlDeviceGetPciInfo(handle).pciDeviceId >> 16:04x}",
        tuple(driver_profile.profile for driver_profile in profiles),
    )


def _users(nvml: ModuleType, handle: Any) -> Iterator[tuple[int | None, int]]:
    for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle):
        gi = getattr(process, "gpuInstanceId", None)
        yield (None if gi in (None, _WHOLE) else int(gi)), int(process.pid)


def _instances(nvml: ModuleType, handle: Any, profiles: Iterable[_DriverProfile]) -> Iterator[GpuInstance]:
    uuids = _uuids(nvml, handle)
    for driver_profile in profiles:
        for gi in _listed(
            nvml.nvmlDeviceGetGpuInstances, handle, driver_profile.id, nvml.c_nvmlGpuInstance_t
        ):
            facts = nvml.nvmlGpuInstanceGetInfo(gi)
            computes = tuple(
                ComputeInstance(ci, slices, uuids.get((facts.id, ci), ""))
                for ci, slices in _computes(nvml, gi)
            )
            yield GpuInstance(
                int(facts.id), driver_profile.profile.name, int(facts.placement.start), computes
            )


def _uuids(nvml: ModuleType, handle: Any) -> dict[tuple[int, int], str]:
    """The uuid of every MIG device, by its GPU instance's and compute instance's ids."""
    uuids: dict[tuple[int, int], str] = {}
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            mig = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except nvml.NVMLError_NotFound:
            continue
        key = nvml.nvmlDeviceGetGpuInstanceId(mig), nvml.nvmlDeviceGetComputeInstanceId(mig)
        uuids[key] = identity_of(nvml, mig)
    return uuids


def _computes(nvml: ModuleType, gi: Any) -> Iterator[tuple[int, int]]:
    """(id, slices) of the compute instances."""
    for number in range(_COMPUTE_SIZES):
        profile = _compute_profile(nvml, gi, number)
        if profile is not None:
            kind = nvml.c_nvmlComputeInstance_t
            for ci in _listed(nvml.nvmlGpuInstanceGetComputeInstances, gi, profile.id, kind):
                yield int(nvml.nvmlComputeInstanceGetInfo(ci).id), int(profile.sliceCount)


def _profiles(session: NvmlSession, nvml: ModuleType, handle: Any) -> tuple[_DriverProfile, ...]:
    """Those that this board has; asked for once in each MIG mode."""
    key = identity_of(nvml, handle), nvml.nvmlDeviceGetMigMode(handle)[0]
    if key not in session.cache:
        numbers = range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT)
        answers = (_profile(nvml, handle, number) for number in numbers)
        session.cache[key] = tuple(driver_profile for driver_profile in answers if driver_profile is not None)
    profiles: tuple[_DriverProfile, ...] = session.cache[key]
    return profiles


def _profile(nvml: ModuleType, handle: Any, number: int) -> _DriverProfile | None:
    """None: there is none of that number on this board."""
    not_offered = nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument
    try:
        facts = nvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, number)
    except not_offered:
        return None
    ask, kind = nvml.nvmlDeviceGetGpuInstancePossiblePlacements, nvml.c_nvmlGpuInstancePlacement_t
    try:
        places = _listed(ask, handle, facts.id, kind)
    except not_offered:  # drivers may tell it in MIG mode only
        places = []
    size, starts = (
        max((int(place.size) for place in places), default=0),
        sorted(int(place.start) for place in places),
    )
    most, number = int(facts.instanceCount), int(facts.id)
    profile = MigProfile(_name(facts), int(facts.sliceCount), size, most, tuple(starts), number=number)
    return _DriverProfile(number, profile)


def _compute_profile(nvml: ModuleType, gi: Any, number: int) -> Any | None:
    try:
        return nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, number, 0)
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument):
        return None


def _name(profile: Any) -> str:
    """The driver's name without its first word."""
    text: str = profile.name if isinstance(profile.name, str) else profile.name.decode()
    return text.removeprefix("MIG ")


def _listed(call: Any, of: Any, profile: int, kind: Any) -> list[Any]:
    room, count = (kind * _MOST)(), ctypes.c_uint(_MOST)
    call(of, profile, room, ctypes.byref(count))
    return [room[place] for place in range(count.value)]


def take_step(session: NvmlSession, step: MigStep) -> None:
    """Take it. Raises HardwareError: it is refused, or about what is another one now; OSError: no driver."""
    with session.held() as nvml:
        try:
            _take(session, nvml, nvml.nvmlDeviceGetHandleByUUID(step.uuid), step)
        except nvml.NVMLError as error:
            remedy = _DENIED if isinstance(error, nvml.NVMLError_NoPermission) else ""
            raise HardwareError(Problem(described(step), why=f"NVML: {error}", remedy=remedy)) from None


def _take(session: NvmlSession, nvml: ModuleType, handle: Any, step: MigStep) -> None:
    match step:
        case SetMigMode(enabled=enabled):
            nvml.nvmlDeviceSetMigMode(handle, int(enabled))
        case ResetGpu():
            raise AssertionError("a reset needs NVML to be shut down: see nvml_reset")
        case CreateGpuInstance(_, profile, start):
            place = nvml.c_nvmlGpuInstancePlacement_t(start, 0)
            number = _number(_profiles(session, nvml, handle), profile)
            nvml.nvmlDeviceCreateGpuInstanceWithPlacement(handle, number, ctypes.byref(place))
        case CreateComputeInstance(_, instance, slices):
            gi = _same_instance(session, nvml, handle, instance)
            profiles = (_compute_profile(nvml, gi, number) for number in range(_COMPUTE_SIZES))
            offered = (profile for profile in profiles if profile is not None)
            fitting = (profile for profile in offered if profile.sliceCount == slices)
            compute_profile = next(fitting, None)
            if compute_profile is None:
                raise HardwareError(Problem(described(step), why=f"no compute profile of {slices} slices"))
            nvml.nvmlGpuInstanceCreateComputeInstance(gi, compute_profile.id)
        case DestroyComputeInstance(_, instance, compute):
            gi = _same_instance(session, nvml, handle, instance)
            nvml.nvmlComputeInstanceDestroy(nvml.nvmlGpuInstanceGetComputeInstanceById(gi, compute))
        case DestroyGpuInstance(_, instance):
            nvml.nvmlGpuInstanceDestroy(_same_instance(session, nvml, handle, instance))


def _number(profiles: Iterable[_DriverProfile], name: str) -> int:
    """The number by which a profile is made."""
    id_by_name = {driver_profile.profile.name: driver_profile.id for driver_profile in profiles}
    if name not in id_by_name:
        why = f"its driver knows {', '.join(id_by_name) or 'none'}"
        raise HardwareError(Problem(f"this GPU has no MIG profile {name}", why=why))
    return id_by_name[name]


def _same_instance(session: NvmlSession, nvml: ModuleType, handle: Any, instance: GpuInstance) -> Any:
    """The GPU instance, if it is still the one that was seen."""
    gi = nvml.nvmlDeviceGetGpuInstanceById(handle, instance.id)
    facts = nvml.nvmlGpuInstanceGetInfo(gi)
    profiles = _profiles(session, nvml, handle)
    name = next(
        (driver_profile.profile.name for driver_profile in profiles if driver_profile.id == facts.profileId),
        "",
    )
    if (name, facts.placement.start) != (instance.profile, instance.start):
        problem = f"GPU instance {instance.id} has been replaced: {name} at {facts.placement.start}"
        raise HardwareError(Problem(problem, why="another program is changing the MIG layout of this GPU"))
    return gi


def described(step: MigStep) -> str:
    """What could not be done, in words."""
    match step:
        case SetMigMode(uuid, enabled):
            return f"MIG of {uuid} cannot be turned {'on' if enabled else 'off'}"
        case ResetGpu(uuid, others):
            board = f", with {', '.join(others)} on its board" if others else ""
            return f"{uuid} needs a reset{board}"
        case CreateGpuInstance(uuid, profile, start):
            return f"{profile} cannot be created at memory slice {start} of {uuid}"
        case CreateComputeInstance(uuid, instance, slices):
            return f"a compute instance of {slices} slices cannot be created in {_words(instance)} of {uuid}"
        case DestroyComputeInstance(uuid, instance) | DestroyGpuInstance(uuid, instance):
            return f"{_words(instance)} of {uuid} cannot be destroyed"


def _words(instance: GpuInstance) -> str:
    return f"{instance.profile} at memory slice {instance.start}"
