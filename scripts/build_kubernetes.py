"""Build the programs of a genuine cluster and node from tests/kubernetes/modules, once per version.

They come to rest in folders of `$XDG_CACHE_HOME/tonnage/kubernetes`, each moved there whole.
`KUBERNETES_VERSION` chooses another minor version than the default; when `TONNAGE_KUBERNETES_BIN` is set
nothing is built. Go's caches are dropped afterwards, unless GOCACHE or GOMODCACHE say that they are the
caller's.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from scripts.find_go import find_go
from scripts.go_build import Workshop, build, keep, output_folder
from scripts.go_modules import CDI_HOOK, INFORMER, GoModule, cdi_hook_module, client_module, modules
from scripts.libseccomp import c_toolchain
from tonnage.cli.locations.binaries import (
    CONTROL_PLANE,
    FOLDER_VARIABLE,
    NODE,
    chosen_minor,
    find_binaries,
    is_program,
)
from tonnage.cli.locations.folders import cache_folder
from tonnage.cli.terminal.failure import render_problem
from tonnage.model.errors import ConfigError, Problem

GROUPS: Final[Mapping[str, Sequence[str]]] = {"control-plane": CONTROL_PLANE, "node": NODE}


def main() -> int:
    """Build what is missing; the exit status."""
    everything = (*CONTROL_PLANE, *NODE)
    parser = argparse.ArgumentParser(description="Build the programs of a genuine cluster and node.")
    parser.add_argument(
        "programs",
        nargs="*",
        metavar="PROGRAM",
        help=f"of {', '.join(everything)}, or {' or '.join(GROUPS)} [default: all]",
    )
    named: Sequence[str] = parser.parse_args().programs
    if unknown := sorted(set(named) - {*everything, *GROUPS}):
        parser.error(f"unknown: {', '.join(unknown)}")
    programs = [program for name in named for program in GROUPS.get(name, (name,))] or everything
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
            # As Ctrl-C does: end the compilers, keep what is ready, leave no caches.
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        if not os.environ.get(FOLDER_VARIABLE):
            build_missing(modules(os.environ, chosen_minor(os.environ)), programs, os.environ)
            if set(named) <= {"control-plane"}:
                build_missing((client_module(os.environ),), (INFORMER,), os.environ)
            if set(named) <= {"node"}:
                build_missing((cdi_hook_module(os.environ),), (CDI_HOOK,), os.environ)
        found = find_binaries(os.environ, programs=programs)
    except ConfigError as error:
        for problem in error.problems:
            print(render_problem(problem), file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    for folder in dict.fromkeys(found.path(program).parent for program in programs):
        print(f"{', '.join(name for name in programs if found.path(name).parent == folder)}: {folder}")
    return 0


def build_missing(
    wanted: Sequence[GoModule], programs: Sequence[str], environment: Mapping[str, str]
) -> None:
    """One process at a time builds; a second one waits and finds it done.

    Raises:
        ConfigError: what could not be built; the rest of it stands.
    """
    if not any(_missing(module, programs) for module in wanted):
        return
    home = cache_folder(environment) / "kubernetes"
    home.mkdir(parents=True, exist_ok=True)
    with _alone(home), _workshop(home, wanted) as folder:
        lacking = [module for module in wanted if _missing(module, programs)]
        if not lacking:
            return
        _require_room(home, lacking)
        shop = Workshop(find_go(lacking, environment, folder), folder, environment)
        problems: list[Problem] = []
        for module in lacking:
            try:
                _build(module, _missing(module, programs), shop)
            except ConfigError as error:
                problems += error.problems
        if problems:
            raise ConfigError(*problems)


def _build(module: GoModule, programs: Sequence[str], shop: Workshop) -> None:
    print(f"Building {module.title}: {', '.join(programs)} ...", flush=True)
    if not module.needs_c:
        build(module, programs, shop)
        return
    tools = c_toolchain(shop.environment, shop.folder)
    build(module, programs, shop, extra=tools.environment, static=tools.static)


def _missing(module: GoModule, programs: Sequence[str]) -> Sequence[str]:
    return [name for name in module.packages if name in programs and not is_program(module.target / name)]


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    with (home / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another build is running: waiting for it.", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _workshop(home: Path, wanted: Sequence[GoModule]) -> Iterator[Path]:
    """A folder that is removed afterwards. What a build that was killed left there is put to use: Go's
    caches, and programs that were linked.
    """
    folder = home / ".build"
    folder.mkdir(mode=0o700, exist_ok=True)
    try:
        for module in wanted:
            keep(module, tuple(module.packages), output_folder(folder, module))
        for left in folder.iterdir():
            if left.is_dir() and left.name not in ("cache", "modules"):
                shutil.rmtree(left)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _require_room(home: Path, lacking: Sequence[GoModule]) -> None:
    needed = sum(module.room_gib for module in lacking)
    free = shutil.disk_usage(home).free >> 30
    if free < needed:
        raise ConfigError(
            Problem(
                f"too little room to build {', '.join(module.title for module in lacking)}",
                str(home),
                f"{free} GiB are free, it takes {needed}",
                "free some, or name another disk in XDG_CACHE_HOME",
            )
        )


if __name__ == "__main__":
    sys.exit(main())
