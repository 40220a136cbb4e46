"""APP-1, APP-2: what the node's agent knows of a program's trouble: neighbours, memory, versions, health."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tonnage.diagnose.wording import own
from tonnage.model.catalog.xids import xids
from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.model.layer import Layer
from tonnage.model.name_lists import listed
from tonnage.model.node.gpu_status import GpuDevice, GpuStatus
from tonnage.model.reasons.messages.driver_symptoms import (
    CudaOutOfMemory,
    CudaProgramError,
    GpuXid,
    ImageNeedsOtherGpu,
    MpsNotServing,
    VersionSymptom,
)
from tonnage.model.reasons.messages.node_symptoms import ImageNeedsNewerDriver
from tonnage.model.reasons.messages.symptoms import CdiDeviceUnresolvable, NoGpuInjected
from tonnage.model.reasons.reason import Reason
from tonnage.model.whole_numbers import whole_number


def with_node_facts(reason: Reason, pod: Pod, snapshot: Snapshot) -> Reason:
    """The reason with what the NodeGPUStatus of the pod's node says about it; the same without one."""
    status = snapshot.gpu.get(pod.node_name)
    if status is None:
        return _with_xid(reason)
    devices = _devices_of(pod, status)
    sentences: list[str] = []
    match reason:
        case CudaOutOfMemory():
            sentences += _neighbours(pod, devices)
            reason = replace(reason, neighbours=tuple(_others(pod, devices)))
        case VersionSymptom() | ImageNeedsNewerDriver() | ImageNeedsOtherGpu():
            sentences += _versions(status, devices)
            reason = replace(reason, driver=status.driver, cuda=status.cuda)
        case CdiDeviceUnresolvable() | NoGpuInjected():
            sentences += _runtime(status)
        case MpsNotServing():
            sentences += [
                f"MPS of {name} does not serve: {why}" for name, why in sorted(status.mps.items()) if why
            ]
        case _ if reason.layer is Layer.HARDWARE or isinstance(reason, CudaProgramError):
            sentences += _ill(status, devices)
        case _:
            pass
    return _with_xid(replace(reason, message="; ".join([reason.message, *sentences])))


def _with_xid(reason: Reason) -> Reason:
    """What the catalogue of Xids says of the number that a message names."""
    number = reason.xid if isinstance(reason, GpuXid) else None
    xid = xids().get(whole_number(number) or 0) if number is not None else None
    if xid is None:
        return reason
    xid_text = f"Xid {xid.code}: {xid.name} ({xid.fault_class.value})"
    return replace(reason, message=f"{reason.message}; {xid_text}")


def _devices_of(pod: Pod, status: GpuStatus) -> tuple[GpuDevice, ...]:
    return tuple(
        device for device in status.devices if any((h.namespace, h.pod) == pod.key for h in device.holders)
    )


def _others(pod: Pod, devices: tuple[GpuDevice, ...]) -> list[str]:
    names = {f"{h.namespace}/{h.pod}" for d in devices for h in d.holders if (h.namespace, h.pod) != pod.key}
    return sorted(names)


def _neighbours(pod: Pod, devices: tuple[GpuDevice, ...]) -> Iterator[str]:
    """Who shares each GPU, how much of its memory is used, and what to suspect next."""
    if not devices:
        yield "the GPU that it had is no longer reported"
    for device in devices:
        names = [own(name, pod.namespace) for name in _others(pod, (device,))]
        shared = f"shares it with {listed(names)}" if names else "has it to itself"
        used = "" if device.used_mib is None else f", {device.used_mib} of {device.memory_mib} MiB used"
        used += " (how much by each is not reported)" if used and names else ""
        yield f"{_name(device)}: it {shared}{used}"
    if devices and not _others(pod, devices):
        yield "no neighbour uses memory there now: check fragmentation, then the model's size"


def _versions(status: GpuStatus, devices: tuple[GpuDevice, ...]) -> Iterator[str]:
    parts = [f"driver {status.driver}"] if status.driver else []
    parts += [f"CUDA up to {status.cuda}"] if status.cuda else []
    capable = sorted({d.compute_capability for d in devices or status.devices if d.compute_capability})
    parts += [f"compute capability {', '.join(capable)}"] if capable else []
    if parts:
        yield f"the node has {', '.join(parts)}"


def _ill(status: GpuStatus, devices: tuple[GpuDevice, ...]) -> Iterator[str]:
    """Devices of the pod that are not healthy; of a pod that holds none, those of the node."""
    for device in devices or status.devices:
        if not device.healthy:
            yield f"{_name(device)} is unhealthy{f': {device.reason}' if device.reason else ''}"


def _runtime(status: GpuStatus) -> Iterator[str]:
    runtime = status.software.runtime
    yield f"{runtime.name} {runtime.version} there has CDI {runtime.cdi.value}" + (
        f" ({runtime.cdi_reason})" if runtime.cdi_reason else ""
    )


def _name(device: GpuDevice) -> str:
    number = f"GPU {device.index}" if device.index is not None else "GPU"
    return f"{number} ({device.uuid})"
