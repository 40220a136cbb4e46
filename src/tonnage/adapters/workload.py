"""A workload that uses the device that its container got: `python3 -m tonnage.adapters.workload`.

It loads the driver's library as any program would and adds two vectors with a kernel of its own. What came of
it is its last line, its termination message and its exit status.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tonnage.adapters.cuda_driver import CUDA_LIBRARY, CudaDriver, first_device
from tonnage.model.errors import HardwareError, Problem
from tonnage.model.validation import FAILED, INJECTED, PASSED

_MESSAGE: Final = "/dev/termination-log"
_COUNT: Final = 50_000
_THREADS: Final = 256
_UUID: Final = re.compile(r"(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_KERNEL: Final = b"""
.version 6.0
.target sm_50
.address_size 64

.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 sum, .param .u32 count)
{
    .reg .pred %p1;
    .reg .b32 %r<8>;
    .reg .b64 %d<8>;

    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    ld.param.u32 %r5, [count];
    setp.ge.u32 %p1, %r4, %r5;
    @%p1 bra DONE;
    ld.param.u64 %d1, [a];
    ld.param.u64 %d2, [b];
    ld.param.u64 %d3, [sum];
    mul.wide.u32 %d4, %r4, 4;
    add.u64 %d5, %d1, %d4;
    add.u64 %d6, %d2, %d4;
    add.u64 %d7, %d3, %d4;
    ld.global.u32 %r6, [%d5];
    ld.global.u32 %r7, [%d6];
    add.u32 %r6, %r6, %r7;
    st.global.u32 [%d7], %r6;
DONE:
    ret;
}
"""
"""PTX, which the driver compiles for the device."""


def device_nodes(dev: Path = Path("/dev")) -> list[str]:
    """The driver's device nodes that the container has; WSL has one for all GPUs."""
    return sorted(node.name for pattern in ("nvidia[0-9]*", "dxg") for node in dev.glob(pattern))


def add_vectors(library: ctypes.CDLL, visible: str = "") -> str:
    """Add two vectors on the first device; its name. Raises HardwareError: what does not work.

    It is another device than the runtime was asked for by `visible`, where that is a UUID.
    """
    cuda = CudaDriver(library)
    with first_device(cuda) as device:
        if _UUID.match(visible) and device.uuid not in ("", visible.partition("-")[2]):
            raise HardwareError(Problem(f"the container was to have {visible} and has {device.uuid}"))
        _run_kernel(cuda)
        return device.name


def _run_kernel(cuda: CudaDriver) -> None:
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    cuda("cuModuleLoadData", ctypes.byref(module), _KERNEL)
    cuda("cuModuleGetFunction", ctypes.byref(function), module, b"add")
    numbers = ctypes.c_uint32 * _COUNT
    first, second, total = numbers(*range(_COUNT)), numbers(*range(7, _COUNT + 7)), numbers()
    size = ctypes.c_size_t(ctypes.sizeof(numbers))
    places = [ctypes.c_uint64() for _ in range(3)]
    for place in places:
        cuda("cuMemAlloc_v2", ctypes.byref(place), size)
    for place, values in zip(places, (first, second), strict=False):
        cuda("cuMemcpyHtoD_v2", place, values, size)
    arguments = [*places, ctypes.c_uint32(_COUNT)]
    pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(value) for value in arguments))
    blocks = -(-_COUNT // _THREADS)
    cuda("cuLaunchKernel", function, blocks, 1, 1, _THREADS, 1, 1, 0, None, pointers, None)
    cuda("cuCtxSynchronize")
    cuda("cuMemcpyDtoH_v2", total, places[2], size)
    for place in places:
        cuda("cuMemFree_v2", place)
    wrong = next((i for i in range(_COUNT) if total[i] != 2 * i + 7), None)
    if wrong is not None:
        raise HardwareError(Problem(f"the device adds wrongly: element {wrong} is {total[wrong]}"))


def judged(nodes: Sequence[str], visible: str) -> tuple[int, str]:
    """(exit status, what came of it) in this container, which asked for one device.

    `visible` is what a runtime was to inject. That it was told so is no sign that it did.
    """
    if len(nodes) > 1:
        return FAILED, f"the container asked for one device and got {', '.join(nodes)}"
    try:
        library = ctypes.CDLL(CUDA_LIBRARY)
    except OSError as error:
        if nodes:
            return INJECTED, f"injection only: {nodes[0]}; {CUDA_LIBRARY} is not usable: {error}"
        unseen = f", though NVIDIA_VISIBLE_DEVICES is {visible}: no NVIDIA runtime saw it" if visible else ""
        return FAILED, f"the container got no device: no device node, no {CUDA_LIBRARY}{unseen}"
    try:
        return PASSED, f"vectorAdd passed on {add_vectors(library, visible)}"
    except HardwareError as error:
        return FAILED, f"vectorAdd failed: {error}"


def main() -> int:
    """Say it, and leave it where kubelet looks."""
    visible = os.environ.get("NVIDIA_VISIBLE_DEVICES", "")
    code, text = judged(device_nodes(), "" if visible in ("void", "none") else visible)
    print(text)
    try:
        Path(_MESSAGE).write_text(text, encoding="utf-8")
    except OSError as error:
        print(f"no termination message: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
