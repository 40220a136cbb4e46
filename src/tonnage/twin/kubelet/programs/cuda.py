"""NVIDIA's CUDA samples, which people run to prove that a container can compute. None of them computes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from tonnage.model.devices.inventory import Device
from tonnage.twin.kubelet.containers.runtime_port import ContainerContext, Program
from tonnage.twin.kubelet.programs.gpus import VisibleGpus, visible_gpus
from tonnage.twin.kubelet.programs.mps import NO_DAEMON, daemon_answer, is_client

_NO_DEVICE: Final = "no CUDA-capable device is detected"
_TOOLKIT: Final = re.compile(r"/usr/local/cuda-(\d{1,3}\.\d{1,3})/extras/demo_suite")
_FOLDERS: Final = frozenset({".", "/cuda-samples", "/tmp", "/usr/local/cuda/extras/demo_suite"})  # noqa: S108
_BODIES: Final = 4096
_ITERATIONS: Final = 10
_PER_SECOND: Final = 5e11
"""Interactions of bodies: what a data-centre GPU of some years ago does."""
_LONGEST_S: Final = 5.0
_FLOPS: Final = 20


def sample_at(folder: str, name: str) -> Program | None:
    """The sample of that name in a folder where images have samples."""
    there = folder in _FOLDERS or _TOOLKIT.fullmatch(folder)
    return SAMPLES.get(name) if there else None


async def _refusal(context: ContainerContext, gpus: VisibleGpus) -> str:
    """Why CUDA does not start: no device, or its MPS daemon does not answer; empty when it does."""
    if not gpus.devices:
        return _NO_DEVICE
    if is_client(context) and await daemon_answer(context, "get_server_list") is None:
        return NO_DAEMON
    return ""


def _print(context: ContainerContext, *lines: str) -> None:
    context.stdio.write("".join(f"{line}\n" for line in lines).encode())


async def vectoradd(context: ContainerContext) -> int:
    """What the sample prints; without a device, or its MPS daemon, it fails as CUDA does."""
    gpus = await visible_gpus(context)
    _print(context, "[Vector addition of 50000 elements]")
    if why := await _refusal(context, gpus):
        context.stdio.write_error(f"Failed to allocate device vector A (error code {why})!\n".encode())
        return 1
    _print(
        context,
        "Copy input data from the host memory to the CUDA device",
        "CUDA kernel launch with 196 blocks of 256 threads",
        "Copy output data from the CUDA device to the host memory",
        "Test PASSED",
        "Done",
    )
    return 0


async def nbody(context: ContainerContext) -> int:
    """The benchmark, for as long as a GPU would take but at most five seconds; its figures mean nothing."""
    gpus = await visible_gpus(context)
    if why := await _refusal(context, gpus):
        context.stdio.write_error(f"CUDA error: {why}\n".encode())
        return 1
    bodies, iterations = _number(context, "numbodies", _BODIES), _number(context, "iterations", _ITERATIONS)
    device = gpus.devices[0]
    _print(
        context,
        "> Windowed mode",
        "> Simulation data stored in video memory",
        "> Single precision floating point simulation",
        "> 1 Devices used for simulation",
        f'GPU Device 0: "{device.product}" with compute capability {device.compute_capability}',
        "",
        f"> Compute {device.compute_capability} CUDA device: [{device.product}]",
    )
    interactions = float(bodies) ** 2 * iterations
    seconds = min(interactions / _PER_SECOND, _LONGEST_S)
    await context.clock.sleep(seconds)
    rate = interactions / max(seconds, 1e-9) / 1e9
    _print(
        context,
        f"{bodies} bodies, total time for {iterations} iterations: {seconds * 1000:.3f} ms",
        f"= {rate:.3f} billion interactions per second",
        f"= {rate * _FLOPS:.3f} single-precision GFLOP/s at {_FLOPS} flops per interaction",
        "pretended by the twin: these figures measure nothing",
    )
    return 0


def _number(context: ContainerContext, name: str, default: int) -> int:
    """The value of `-name=VALUE`."""
    pattern = re.compile(rf"--?{name}=(\d{{1,9}})")
    values = [int(match[1]) for word in context.argv[1:] if (match := pattern.fullmatch(word))]
    return max(values[-1], 1) if values else default


async def device_query(context: ContainerContext) -> int:
    """The devices that CUDA would offer; of a divided GPU the container's MIG devices."""
    gpus = await visible_gpus(context)
    _print(
        context,
        f"{context.argv[0]} Starting...\n",
        " CUDA Device Query (Runtime API) version (CUDART static linking)\n",
    )
    if why := await _refusal(context, gpus):
        _print(context, "cudaGetDeviceCount returned 100", f"-> {why}", "Result = FAIL")
        return 1
    match = _TOOLKIT.match(context.argv[0])
    runtime = match[1] if match else gpus.cuda_version
    devices = list(_cuda_devices(gpus))
    noun = "device" if len(devices) == 1 else "devices"
    _print(context, f"Detected {len(devices)} CUDA Capable {noun}\n")
    for number, (name, memory_mib, device) in enumerate(devices):
        bus = device.pci_bus_id.split(":")
        _print(
            context,
            f'Device {number}: "{name}"',
            f"  CUDA Driver Version / Runtime Version          {gpus.cuda_version} / {runtime}",
            f"  CUDA Capability Major/Minor version number:    {device.compute_capability}",
            f"  Total amount of global memory:                 {memory_mib} MBytes"
            f" ({memory_mib << 20} bytes)",
            f"  Device PCI Domain ID / Bus ID / location ID:   0 / {int(bus[1], 16)} / 0\n",
        )
    names = "".join(f", Device{number} = {name}" for number, (name, _, _) in enumerate(devices))
    _print(
        context,
        f"deviceQuery, CUDA Driver = CUDART, CUDA Driver Version = {gpus.cuda_version},"
        f" CUDA Runtime Version = {runtime}, NumDevs = {len(devices)}{names}",
        "Result = PASS",
    )
    return 0


def _cuda_devices(gpus: VisibleGpus) -> Iterator[tuple[str, int, Device]]:
    """Name, memory and GPU of each; of MIG devices CUDA shows a process the first alone."""
    for device in gpus.devices:
        parts = [part for part in device.migs if part.uuid in gpus.parts]
        if parts:
            yield f"{device.product} MIG {parts[0].profile}", parts[0].memory_mib, device
            return
        yield device.product, device.memory_mib, device


SAMPLES: Final[Mapping[str, Program]] = MappingProxyType(
    {
        **dict.fromkeys(("vectoradd", "vectorAdd"), vectoradd),
        "nbody": nbody,
        "deviceQuery": device_query,
    }
)
