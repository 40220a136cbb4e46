"""`tonnage` under a stopwatch: `python -m benchmarks.stopwatch FILE up` writes the phases of its start.

A phase is the import of a module, or a call of one of its functions, that `PHASES` names. A line has when it
began and ended, in seconds by the clock that all processes share (`time.perf_counter`), and its name.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

PHASES: dict[str, tuple[str, ...]] = {
    "tonnage.cli.main": (),
    "tonnage.cli.up.command": ("asked_scenario",),
    "tonnage.cli.up.foreground": (),
    "tonnage.cli.up.embedded": ("make_runtime", "_twin", "_populate"),
    "tonnage.twin.cluster": ("Cluster.serve", "Cluster.populate"),
    "tonnage.adapters.certificates": ("Authority.generate",),
    "tonnage.twin.apiserver.server": ("ApiServer.__init__", "ApiServer.start"),
    "tonnage.twin.apiserver.serving.connections.listener": ("HttpsListener.start",),
    "tonnage.cli.up.programs": (),
    "tonnage.twin.population": ("Population.start",),
    "tonnage.twin.fleet": ("TwinNodes.start",),
}
"""Module -> its functions that count, as they are looked up there."""


class _Stopwatch(MetaPathFinder, Loader):
    """Finds the modules of `PHASES` and clocks them and their functions."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._loaders: dict[str, Loader] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in PHASES:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            self._loaders[fullname] = spec.loader
            spec.loader = self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loaders[spec.name].create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        with self._clocked(f"import {name}"):
            self._loaders[name].exec_module(module)
        for function in PHASES[name]:
            owner, last = place_of(module, function)
            setattr(owner, last, self._wrapped(f"{name.rpartition('.')[2]}.{function}", owner, last))

    def _wrapped(self, phase: str, owner: Any, name: str) -> Any:
        function: Callable[..., Any] = getattr(owner, name)
        if inspect.iscoroutinefunction(function):

            async def clocked_coroutine(*args: Any, **named: Any) -> Any:
                with self._clocked(phase):
                    return await function(*args, **named)

            return clocked_coroutine

        def clocked(*args: Any, **named: Any) -> Any:
            with self._clocked(phase):
                return function(*args, **named)

        return staticmethod(clocked) if inspect.ismethod(function) else clocked

    @contextmanager
    def _clocked(self, phase: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self._file.write(f"{began}\t{time.perf_counter()}\t{phase}\n")


def place_of(module: ModuleType, function: str) -> tuple[Any, str]:
    """What holds the function, the module or a class of it, and the function's last name.

    Raises:
        AttributeError: there is no such function in the module.
    """
    *owners, last = function.split(".")
    owner: Any = module
    for name in owners:
        owner = getattr(owner, name)
    getattr(owner, last)
    return owner, last


def main() -> None:
    path, *arguments = sys.argv[1:]
    with Path(path).open("w", encoding="utf-8", buffering=1) as file:
        sys.meta_path.insert(0, _Stopwatch(file))
        sys.argv = ["tonnage", *arguments]
        from tonnage.cli.main import main as tonnage

        tonnage()


if __name__ == "__main__":
    main()
