"""The driver's library for programs that compute: `libcuda.so.1`, called as any program would."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from tonnage.model.errors import HardwareError, Problem

CUDA_LIBRARY: Final = "libcuda.so.1"
_SYSTEM_NOT_READY: Final = 802
"""CUDA_ERROR_SYSTEM_NOT_READY: so a board with NVSwitches answers while its fabric is not set up."""
_NO_FABRIC: Final = (
    "the driver waits for Fabric Manager, which sets up the NVSwitches of a board",
    "see on the node: systemctl status nvidia-fabricmanager",
)
_MULTIPROCESSORS: Final = 16
"""CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT."""


class CudaDriver:
    """The driver's library. Every call raises HardwareError with the driver's own word for what failed."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def has(self, function: str) -> bool:
        """Whether this driver is new enough for it."""
        return hasattr(self._library, function)

    def __call__(self, function: str, *arguments: object) -> None:
        code = getattr(self._library, function)(*arguments)
        if code:
            name = ctypes.c_char_p()
            self._library.cuGetErrorName(code, ctypes.byref(name))
            word = name.value.decode() if name.value else f"error {code}"
            why, remedy = _NO_FABRIC if code == _SYSTEM_NOT_READY else ("", "")
            raise HardwareError(Problem(f"{function}: {word}", why=why, remedy=remedy))


@dataclass(frozen=True, slots=True)
class CudaDevice:
    """The device that a program computes on."""

    name: str
    multiprocessors: int
    uuid: str = ""
    """Of the MIG device, where it is one; empty: a driver older than R470 does not say it."""


@contextmanager
def first_device(cuda: CudaDriver) -> Iterator[CudaDevice]:
    """The first device of the container, with its context made current. Raises HardwareError: what fails."""
    cuda("cuInit", 0)
    count, device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
    cuda("cuDeviceGetCount", ctypes.byref(count))
    if not count.value:
        raise HardwareError(Problem("the driver shows no device to this container"))
    cuda("cuDeviceGet", ctypes.byref(device), 0)
    name = ctypes.create_string_buffer(256)
    cuda("cuDeviceGetName", name, len(name), device)
    units = ctypes.c_int()
    cuda("cuDeviceGetAttribute", ctypes.byref(units), _MULTIPROCESSORS, device)
    cuda("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    try:
        cuda("cuCtxSetCurrent", context)
        yield CudaDevice(name.value.decode(errors="replace"), units.value, _uuid(cuda, device))
    finally:
        cuda("cuDevicePrimaryCtxRelease_v2", device)


def _uuid(cuda: CudaDriver, device: ctypes.c_int) -> str:
    if not cuda.has("cuDeviceGetUuid_v2"):
        return ""
    octets = (ctypes.c_ubyte * 16)()
    cuda("cuDeviceGetUuid_v2", ctypes.byref(octets), device)
    return str(UUID(bytes=bytes(octets)))
