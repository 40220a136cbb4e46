"""NVIDIA's vectorAdd sample, which the documents use to prove that a container can compute."""

from __future__ import annotations

from tonnage.twin.kubelet.containers.runtime_port import ContainerContext
from tonnage.twin.kubelet.programs.gpus import visible_gpus
from tonnage.twin.kubelet.programs.mps import NO_DAEMON, daemon_answer, is_client

_FAILED = "Failed to allocate device vector A (error code {why})!\n"


async def vectoradd(context: ContainerContext) -> int:
    """What the sample prints; without a device, or its MPS daemon, it fails as CUDA does."""
    gpus = await visible_gpus(context)
    context.stdio.write(b"[Vector addition of 50000 elements]\n")
    why = "" if gpus.devices else "no CUDA-capable device is detected"
    if not why and is_client(context) and await daemon_answer(context, "get_server_list") is None:
        why = NO_DAEMON
    if why:
        context.stdio.write_error(_FAILED.format(why=why).encode())
        return 1
    context.stdio.write(
        b"Copy input data from the host memory to the CUDA device\n"
        b"CUDA kernel launch with 196 blocks of 256 threads\n"
        b"Copy output data from the CUDA device to the host memory\n"
        b"Test PASSED\nDone\n"
    )
    return 0
