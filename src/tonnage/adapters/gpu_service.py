"""A service on a GPU, a process of its own: `python3 -m tonnage.adapters.gpu_service`.

Orders come on standard input, a JSON object a line, and so go the answers. A request is a kernel that
computes a fixed amount: what else runs on the GPU makes it take longer.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tonnage.adapters.cuda_driver import CUDA_LIBRARY, CudaDevice, CudaDriver, first_device
from tonnage.model.errors import HardwareError, Problem
from tonnage.model.json import JsonObject

THREADS: Final = 1024
"""Of a block. A multiprocessor has room for two such blocks, or for one."""
_FACTOR: Final = 1_664_525
_TERM: Final = 1_013_904_223
_WORD: Final = 1 << 32
_FIRST_ROUNDS: Final = 10_000
_MOST_ROUNDS: Final = _WORD - 1
_TRIES: Final = 12
_TRUE_ENOUGH: Final = 0.03
_FASTER: Final = 50.0
"""Rounds grow by no more at once: the first kernels are too short to tell."""
_KERNEL: Final = b"""
.version 6.0
.target sm_50
.address_size 64

.visible .entry work(.param .u64 places, .param .u32 rounds)
{
    .reg .pred %p1;
    .reg .b32 %r<6>;
    .reg .b64 %d<4>;

    ld.param.u64 %d1, [places];
    ld.param.u32 %r1, [rounds];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %r2;
    mov.u32 %r4, 0;
NEXT:
    setp.ge.u32 %p1, %r4, %r1;
    @%p1 bra DONE;
    mad.lo.u32 %r3, %r3, 1664525, 1013904223;
    add.u32 %r4, %r4, 1;
    bra NEXT;
DONE:
    mul.wide.u32 %d2, %r2, 4;
    add.u64 %d3, %d1, %d2;
    st.global.u32 [%d3], %r3;
    ret;
}
"""
"""Every round needs the one before, so that a device cannot shorten it. All blocks write the same."""


def expected(thread: int, rounds: int) -> int:
    """What a thread leaves after so many rounds; found by doubling, not by going them.

    >>> expected(0, 1), expected(3, 2) == ((3 * _FACTOR + _TERM) * _FACTOR + _TERM) % _WORD
    (1013904223, True)
    """
    factor, term, value = _FACTOR, _TERM, thread
    while rounds:
        if rounds & 1:
            value = (value * factor + term) % _WORD
        factor, term = factor * factor % _WORD, (factor + 1) * term % _WORD
        rounds >>= 1
    return value


@dataclass(frozen=True, slots=True)
class _Kernel:
    """The kernel in the device's memory; `blocks` of it run at once."""

    cuda: CudaDriver
    function: ctypes.c_void_p
    places: ctypes.c_uint64
    blocks: int

    def run(self, rounds: int) -> float:
        """Run it to its end; the seconds that it took."""
        arguments = (self.places, ctypes.c_uint32(rounds))
        pointers = (ctypes.c_void_p * 2)(*(ctypes.addressof(value) for value in arguments))
        began = time.perf_counter()
        self.cuda("cuLaunchKernel", self.function, self.blocks, 1, 1, THREADS, 1, 1, 0, None, pointers, None)
        self.cuda("cuCtxSynchronize")
        return time.perf_counter() - began

    def check(self, rounds: int) -> None:
        """Raises HardwareError where the device did not compute what the last run was to."""
        values = (ctypes.c_uint32 * THREADS)()
        self.cuda("cuMemcpyDtoH_v2", values, self.places, ctypes.c_size_t(ctypes.sizeof(values)))
        wrong = next((i for i in range(THREADS) if values[i] != expected(i, rounds)), None)
        if wrong is not None:
            raise HardwareError(Problem(f"the device computes wrongly: thread {wrong} left {values[wrong]}"))


def _kernel(cuda: CudaDriver, device: CudaDevice, width: float) -> _Kernel:
    module, function, places = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    cuda("cuModuleLoadData", ctypes.byref(module), _KERNEL)
    cuda("cuModuleGetFunction", ctypes.byref(function), module, b"work")
    cuda("cuMemAlloc_v2", ctypes.byref(places), ctypes.c_size_t(4 * THREADS))
    return _Kernel(cuda, function, places, max(1, round(width * device.multiprocessors)))


def rounds_for(seconds: float, run: Callable[[int], float]) -> int:
    """How many rounds take so long, by trying. Raises HardwareError where none do."""
    rounds = _FIRST_ROUNDS
    for _ in range(_TRIES):
        took = min(run(rounds) for _ in range(3))
        if abs(took - seconds) <= _TRUE_ENOUGH * seconds:
            return rounds
        rounds = min(_MOST_ROUNDS, max(1, round(rounds * min(_FASTER, seconds / max(took, 1e-9)))))
    if took > 2 * seconds or took < seconds / 2:
        why = f"the nearest of {_TRIES} tries took {took * 1000:.2f} ms"
        raise HardwareError(Problem(f"no kernel takes {seconds * 1000:g} ms on this device", why=why))
    return rounds


def latencies(run: Callable[[], object], rate: float, seconds: float, seed: int) -> tuple[int, list[float]]:
    """(requests that came, how long each of those took that were begun in time), in seconds.

    They come at random times (Poisson), and wait while one before them is worked on.
    """
    random, waits, came = Random(seed), list[float](), 0  # noqa: S311 - times of arrival are no secrets
    began = time.perf_counter()
    at = random.expovariate(rate)
    while at < seconds:
        came += 1
        now = time.perf_counter() - began
        if now < seconds:
            time.sleep(max(0.0, at - now))
            run()
            waits.append(time.perf_counter() - began - at)
        at += random.expovariate(rate)
    return came, waits


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that so many per cent of them do not exceed; they are sorted.

    >>> percentile([1, 2, 3, 4], 50), percentile([1, 2, 3, 4], 95)
    (2, 4)
    """
    return values[-(-percent * len(values) // 100) - 1]


def _answers(orders: Iterator[Any]) -> Iterator[JsonObject]:
    """To the first order (`width`) the device, then rounds that take `service_s`, or how requests fared."""
    cuda = CudaDriver(ctypes.CDLL(CUDA_LIBRARY))
    with first_device(cuda) as device:
        kernel = _kernel(cuda, device, next(orders)["width"])
        kernel.run(1)  # the driver compiles it now, not under way
        yield {"device": device.name}
        for order in orders:
            if "service_s" in order:
                yield {"rounds": rounds_for(order["service_s"], kernel.run)}
            else:
                yield _served(kernel, **order)


def _served(kernel: _Kernel, rounds: int, rate: float, seconds: float, seed: int) -> JsonObject:
    came, waits = latencies(lambda: kernel.run(rounds), rate, seconds, seed)
    if waits:
        kernel.check(rounds)
    values = sorted(waits)
    percentiles = {f"p{percent}": percentile(values, percent) for percent in (50, 95, 99) if values}
    return {"came": came, "answered": len(values), **percentiles}


def _orders() -> Iterator[Any]:
    for line in sys.stdin:
        yield json.loads(line)


def main() -> int:
    """Obey until standard input ends."""
    try:
        for answer in _answers(_orders()):
            print(json.dumps(answer), flush=True)
    except (HardwareError, OSError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
