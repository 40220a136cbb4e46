"""What `tonnage cdi generate` makes a spec from."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from tonnage.model.devices.cdi import CdiMode, CdiOptions, NameStrategy
from tonnage.model.node.plugin_settings import CDI_HOOKS, NO_SOCKETS, CdiSettings

if TYPE_CHECKING:
    from tonnage.model.devices.cdi import CdiSpec, DriverFiles
    from tonnage.model.devices.inventory import Inventory
    from tonnage.model.json import JsonObject, JsonValue


class CdiRequest(TypedDict):
    """What devices and under which names, whose driver, and with what hooks."""

    mode: str
    devices: str
    names: tuple[tuple[str, ...], ...]
    only: tuple[str, ...]
    apart: bool
    driver_root: Path | None
    driver_root_ctr_path: Path | None
    dev_root: Path | None
    vendor: str | None
    sort: str | None
    kind: str | None
    hook: str | None
    ldconfig: str | None
    disabled: tuple[tuple[str, ...], ...]
    enabled: tuple[tuple[str, ...], ...]
    features: tuple[tuple[str, ...], ...]


async def made(arguments: CdiRequest) -> tuple[CdiSpec, tuple[str, ...]]:
    """The spec, and what to say of it. Raises HardwareError, ConfigError: the devices cannot be read."""
    from tonnage.adapters.cdi.device_nodes import read_device_nodes
    from tonnage.decide.node.cdi.modes import mode_spec
    from tonnage.decide.node.cdi.spec import gpu_spec

    mode = CdiMode.NVML if arguments["mode"] == "auto" else CdiMode(arguments["mode"])
    options = _options(arguments, mode)
    root = _below(arguments["driver_root_ctr_path"] or Path(options.driver_root))
    nodes_root = root if arguments["dev_root"] is None else _below(arguments["dev_root"])
    if mode is not CdiMode.NVML:
        _check_plain(arguments, mode)
        files = await _files(arguments, options, root, "")
        remarks = files.problems if mode is CdiMode.MANAGEMENT else ()
        return mode_spec(mode, read_device_nodes(Path("/"), nodes_root), files, options), remarks
    inventory = await _inventory(arguments["devices"], root)
    if arguments["dev_root"] is not None and arguments["devices"] == "nvml":
        inventory = replace(inventory, nodes=read_device_nodes(Path("/"), nodes_root))
    files = await _files(arguments, options, root, inventory.driver_version)
    return gpu_spec(inventory, files, options), (*inventory.problems, *files.problems)


def _check_plain(arguments: CdiRequest, mode: CdiMode) -> None:
    """Raises UsageError: something is said of GPUs, and the mode is of other nodes."""
    of_gpus = {
        "--devices": arguments["devices"] != "nvml",
        "--device-id": bool(arguments["only"]),
        "--device-name-strategy": bool(arguments["names"]),
        "--no-all-device": arguments["apart"],
    }
    for flag in (flag for flag, there in of_gpus.items() if there):
        raise click.UsageError(f"--mode {mode} is of this machine's nodes: leave {flag} out")


def checked(spec: CdiSpec) -> JsonObject:
    """The document, which a runtime takes; devices that are left out are told. Raises TonnageError."""
    from tonnage.cli.terminal.failure import render_problem
    from tonnage.cli.terminal.output import say
    from tonnage.decide.node.cdi.rules import spec_problems
    from tonnage.decide.node.cdi.spec import spec_bytes
    from tonnage.model.errors import ConfigError, HardwareError, Problem

    for problem in spec.left_out:
        say(render_problem(problem), err=True)
    if spec.document is None:
        raise HardwareError(Problem("no device can be named in a CDI spec", remedy="tonnage doctor"))
    wrong = spec_problems(spec.document)
    if wrong:
        raise ConfigError(*wrong)
    fresh: JsonObject = json.loads(
        spec_bytes(spec.document)
    )  # nothing twice, which YAML would show as an alias
    return fresh


def yaml_bytes(document: JsonValue) -> bytes:
    """The same as a file's content."""
    from tonnage.cli.terminal.output import yaml_text

    return f"---\n{yaml_text(document)}".encode()


def _options(arguments: CdiRequest, mode: CdiMode) -> CdiOptions:
    root = str(arguments["driver_root"] or _found_root(arguments))
    vendor, _, sort = mode.kind.partition("/")
    if arguments["kind"] and (arguments["vendor"] or arguments["sort"]):
        raise click.UsageError("--kind is both: leave --vendor and --class out")
    disabled = frozenset(chain.from_iterable(arguments["disabled"]))
    if CDI_HOOKS[0] in disabled:
        disabled = frozenset(CDI_HOOKS[1:])
    return CdiOptions(
        arguments["kind"] or f"{arguments['vendor'] or vendor}/{arguments['sort'] or sort}",
        root,
        str(arguments["dev_root"] or root),
        tuple(sorted(disabled.difference(*arguments["enabled"]))),
        sockets=NO_SOCKETS not in chain.from_iterable(arguments["features"]),
        names=frozenset(map(NameStrategy, chain.from_iterable(arguments["names"])))
        or frozenset(NameStrategy),
        only=frozenset(chain.from_iterable(name.split(",") for name in arguments["only"])),
        together=not arguments["apart"],
        ldconfig=arguments["ldconfig"] or "",
    )


def _found_root(arguments: CdiRequest) -> str:
    """Where the driver is on the host; behind a mount point that is named it is the host's own."""
    if arguments["driver_root_ctr_path"] is not None:
        return "/"
    from tonnage.adapters.vendors.driver_root import driver_root_of

    return driver_root_of(Path("/"))


def _below(root: Path) -> Path | None:
    return None if root == Path("/") else root


async def _files(arguments: CdiRequest, options: CdiOptions, root: Path | None, version: str) -> DriverFiles:
    """The driver's; the hooks' program is looked for on this machine, unless it is the host's container."""
    from tonnage.adapters.cdi.files import FolderCdi
    from tonnage.model.devices.sharing import PluginConfig

    cdi = CdiSettings(hook_path=arguments["hook"]) if arguments["hook"] else CdiSettings()
    host = Path("/") if arguments["driver_root_ctr_path"] is None else None
    config = PluginConfig(driver_root=options.driver_root, cdi=cdi)
    folder = FolderCdi(Path("/"), root, host=host, own_hook=arguments["hook"] is not None)
    files = await folder.driver_files(version, config)
    if not arguments["hook"] or files.hook:
        return files
    problem = f"no program {arguments['hook']}: containers find libraries without hooks"
    return replace(files, problems=(*files.problems, problem))


async def _inventory(devices: str, root: Path | None) -> Inventory:
    from tonnage.adapters.clock import SystemClock
    from tonnage.agent.main import backend_of

    backend = backend_of(devices, Path("/"), root, SystemClock())
    try:
        return await backend.scan()
    finally:
        await backend.close()
