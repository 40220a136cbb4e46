"""nvidia-ml-py, initialised for as long as the driver and its GPUs stay those that were there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from tonnage.adapters.vendors.driver_root import DriverLibrary

_GPUS: Final = "proc/driver/nvidia/gpus"
"""Where the kernel module has a folder for each GPU that it drives, named after its PCI address."""


class NvmlSession:
    """The bindings between nvmlInit and nvmlShutdown. `number` is another one after each start.

    Only one thread may close it. Others use it inside `held`, and nothing is closed under them.
    """

    def __init__(self, root: Path, driver_root: Path | None) -> None:
        self._gpus = root / _GPUS
        self._driver = None if driver_root is None else DriverLibrary(driver_root)
        self._nvml: ModuleType | None = None
        self._plugged: frozenset[str] = frozenset()
        self._opening = threading.Lock()
        self._idle = threading.Condition()
        self._holders = 0
        self._closing = False
        self._error: type[Exception] = OSError
        self.number = 0
        self.cache: dict[object, Any] = {}
        """What callers read once, for it stays the same while the library is open."""

    def open(self) -> ModuleType:
        """The bindings, initialised. A driver that comes later is found by a later call.

        Raises OSError: no driver that answers.
        """
        if self._nvml is not None:
            return self._nvml
        with self._opening:
            if self._nvml is None:
                import pynvml

                self._error = pynvml.NVMLError
                plugged = self._listed()
                try:
                    if self._driver is not None:
                        self._driver.load(pynvml)
                    pynvml.nvmlInit()
                except pynvml.NVMLError as error:
                    raise OSError(str(error)) from None
                self._plugged = plugged
                self.number += 1
                self.cache.clear()
                self._nvml = pynvml
            return self._nvml

    @contextmanager
    def held(self) -> Iterator[ModuleType]:
        """The bindings, which stay open until this is left. Raises OSError as `open` does."""
        with self._idle:
            self._idle.wait_for(lambda: not self._closing)
            self._holders += 1
        try:
            yield self.open()
        finally:
            with self._idle:
                self._holders -= 1
                self._idle.notify_all()

    def outdated(self) -> bool:
        """Whether GPUs came or went since it was opened; the library counts them only then."""
        return self._nvml is not None and self._listed() != self._plugged

    def close(self) -> None:
        """End it once nobody holds it; what it gave out is void, and `open` meets the driver of that time."""
        with self.released():
            return

    @contextmanager
    def released(self) -> Iterator[None]:
        """It is ended, and nobody may open it before this is left."""
        with self._idle:
            self._closing = True
            self._idle.wait_for(lambda: not self._holders)
            nvml, self._nvml = self._nvml, None
            with suppress(self._error):  # the driver is gone
                if nvml is not None:
                    nvml.nvmlShutdown()
        try:
            yield
        finally:
            with self._idle:
                self._closing = False
                self._idle.notify_all()

    def errors(self, *more: type[Exception]) -> tuple[type[Exception], ...]:
        """What calls may raise, of nonsense as well; before the library is there, why it is not."""
        return (*more, ImportError, OSError, ValueError, self._error)

    def _listed(self) -> frozenset[str]:
        try:
            return frozenset(entry.name for entry in self._gpus.iterdir())
        except OSError:
            return frozenset()
