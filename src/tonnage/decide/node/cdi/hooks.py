"""Hooks of CDI specs: what NVIDIA's program does in a container before it starts.

Source: NVIDIA/nvidia-container-toolkit v1.20, internal/discover/hooks.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from posixpath import dirname, relpath
from typing import Final

from tonnage.model.devices.cdi import LATER_HOOKS, CdiOptions, DriverFile, DriverFiles
from tonnage.model.json import JsonObject, JsonValue

_EVERY: Final = "all"
_LINKS: Final = "create-symlinks"
_CACHE: Final = "update-ldcache"
_COMPAT: Final = "enable-cuda-compat"
NO_NODES: Final = "disable-device-node-modification"
_PROFILE: Final = "update-application-profile"
_QUIET: Final = "NVIDIA_CTK_DEBUG=false"
"""With a variable of its own a hook has no other. Without any it may inherit the image's, LD_PRELOAD for one,
and run the image's code with the rights of the runtime (CVE-2025-23266)."""


def common_hooks(files: DriverFiles, folders: Sequence[str], options: CdiOptions) -> tuple[JsonObject, ...]:
    """For every container, in the order in which they run: what _COMPAT finds is for _CACHE to take up."""
    links = [
        argument
        for file in (*files.libraries, *files.data_files)
        for name in file.names
        for argument in ("--link", f"{_beside(file, name)}::{name}")
    ]
    caches = [argument for folder in folders for argument in ("--folder", folder)]
    arguments_by_hook: dict[str, Sequence[str] | None] = {
        _LINKS: links or None,
        _COMPAT: [f"--host-driver-version={files.version}"] if files.version and folders else None,
        _CACHE: [*_ldconfig(options), *caches] if caches else None,
        NO_NODES: [],
        _PROFILE: [],
    }
    return tuple(
        _hook(files.hook, hook, arguments)
        for hook, arguments in arguments_by_hook.items()
        if arguments is not None and _is_supported(hook, files, options)
    )


def device_hooks(paths: Iterable[str], files: DriverFiles, options: CdiOptions) -> tuple[JsonObject, ...]:
    """For a device with these nodes: the links by PCI address to its graphics nodes."""
    links = [
        argument
        for path in paths
        if path in files.by_path
        for argument in ("--link", f"{relpath(path, dirname(files.by_path[path]))}::{files.by_path[path]}")
    ]
    return (_hook(files.hook, _LINKS, links),) if links and _is_supported(_LINKS, files, options) else ()


def finds_libraries(hooks: Iterable[JsonObject]) -> bool:
    """Whether one of the hooks leads a container to the libraries."""
    return any(name in words for hook in hooks for name in (_LINKS, _CACHE) if (words := _words(hook)))


def _words(hook: JsonObject) -> Sequence[JsonValue]:
    args = hook.get("args")
    return args if isinstance(args, list) else ()


def _is_supported(hook: str, files: DriverFiles, options: CdiOptions) -> bool:
    """Whether there is a program that knows the hook, and nobody does without."""
    if not files.hook or (hook in LATER_HOOKS and hook not in files.hooks):
        return False
    return not {hook, _EVERY}.intersection(options.disabled_hooks)


def _ldconfig(options: CdiOptions) -> Iterator[str]:
    if options.ldconfig:
        yield from ("--ldconfig-path", options.ldconfig)


def _beside(file: DriverFile, name: str) -> str:
    """The file as a link at `name` has it."""
    return relpath(file.path, dirname(name))


def _hook(program: str, hook: str, arguments: Iterable[str]) -> JsonObject:
    name = program.rpartition("/")[2]
    words = [name, "hook"] if name == "nvidia-ctk" else [name]
    args: list[JsonValue] = [*words, hook, *arguments]
    return {"hookName": "createContainer", "path": program, "args": args, "env": [_QUIET]}
