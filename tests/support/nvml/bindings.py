"""nvidia-ml-py for tests: its library lies in module variables, which are given back as they were found."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pynvml


@contextmanager
def fresh_bindings(library: Path | None = None) -> Iterator[None]:
    """The bindings without a library, or with this one, whatever they had before and after."""
    kept = pynvml.nvmlLib, pynvml._nvmlGetFunctionPointer_cache, pynvml._nvmlLib_refcount
    pynvml.nvmlLib = None if library is None else ctypes.CDLL(str(library.resolve()))
    pynvml._nvmlGetFunctionPointer_cache, pynvml._nvmlLib_refcount = {}, 0
    try:
        yield
    finally:
        pynvml.nvmlLib, pynvml._nvmlGetFunctionPointer_cache, pynvml._nvmlLib_refcount = kept


def handle(index: int) -> Any:
    """The device of that index."""
    return pynvml.nvmlDeviceGetHandleByIndex(index)


def refusal(call: Callable[..., object], *args: object) -> int:
    """NVML's code for not doing it; 0 when it was done."""
    try:
        call(*args)
    except pynvml.NVMLError as error:
        return int(error.value)
    return 0
