"""nvidia-ml-py keeps its library in module variables; tests give it back as they found it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
