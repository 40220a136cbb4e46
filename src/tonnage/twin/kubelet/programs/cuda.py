"""NVIDIA's vectorAdd sample, which the documents use to prove that a container can compute."""

from __future__ import annotations

from tonnage.twin.kubelet.programs.gpus import visible_gpus
from tonnage.twin.kubelet.runtime import ContainerContext


async def vectoradd(context: ContainerContext) -> int:
    """What the sample prints; without a working device it fails as CUDA does."""
    seen = await visible_gpus(context)
    context.stdio.write(b"[Vector addition of 50000 elements]\n")
    if not seen.devices:
        context.stdio.write_error(
            b"Failed to allocate device vector A (error code no CUDA-capable device is detected)!\n"
        )
        return 1
    context.stdio.write(
        b"Copy input data from the host memory to the CUDA device\n"
        b"CUDA kernel launch with 196 blocks of 256 threads\n"
        b"Copy output data from the CUDA device to the host memory\n"
        b"Test PASSED\nDone\n"
    )
    return 0
