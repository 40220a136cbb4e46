"""`tonnage cdi`: CDI specs of this machine's devices, and whether a runtime takes a spec."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

import click

from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.output import emit, printable
from tonnage.model.cdi import DRIVER_ROOTS, CdiMode
from tonnage.model.plugin_settings import CDI_HOOKS

if TYPE_CHECKING:
    from tonnage.model.cdi import CdiOptions, CdiSpec
    from tonnage.model.devices import Inventory
    from tonnage.model.json import JsonObject, JsonValue

_FOLDER: Final = click.Path(file_okay=False, path_type=Path)


class Asked(TypedDict):
    """What devices, and whose driver."""

    mode: str
    devices: str
    driver_root: Path | None
    driver_root_ctr_path: Path | None
    kind: str | None
    hook: str | None


@click.group(help="Make CDI specs for container runtimes, and check them.")
def command() -> None:
    pass


@command.command(
    "generate",
    help="Print or write the CDI spec of this machine's devices. Exit status 1 when one is left out.",
    epilog=examples(
        "tonnage cdi generate --output /var/run/cdi/nvidia.com-gpu.yaml",
        "tonnage cdi generate --driver-root /run/nvidia/driver --format json",
        "tonnage cdi generate --devices scenario:node.yaml",
        "tonnage cdi generate --mode management --output /etc/cdi/management.nvidia.com-gpu.yaml",
    ),
)
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in CdiMode]),
    default=CdiMode.NVML.value,
    show_default=True,
    help="nvml: GPUs and MIG devices by name; else all nodes of one sort.",
)
@click.option(
    "--devices",
    default="nvml",
    show_default=True,
    metavar="nvml|scenario:FILE",
    help="Where devices come from.",
)
@click.option(
    "--driver-root",
    type=_FOLDER,
    help="The host's folder in which the driver is installed [default: the first with its library of"
    f" {', '.join(DRIVER_ROOTS)}].",
)
@click.option(
    "--driver-root-ctr-path",
    type=_FOLDER,
    help="Where this program sees that folder [default: there].",
)
@click.option(
    "--kind", metavar="VENDOR/CLASS", help="Of the spec [default: as NVIDIA's toolkit, by the mode]."
)
@click.option("--nvidia-cdi-hook-path", "hook", metavar="PATH", help="The hooks' program on the host.")
@click.option(
    "--disable-hook",
    "disabled",
    multiple=True,
    type=click.Choice(CDI_HOOKS),
    metavar="NAME",
    help="Do without this hook, or all.",
)
@click.option(
    "--output",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write it there (mode 0644), whole or not at all, instead of printing it.",
)
@click.option(
    "--format",
    "style",
    type=click.Choice(["yaml", "json"]),
    help="[default: by the ending of --output, else yaml]",
)
@common_options()
def generate(
    common: Common,
    target: Path | None,
    style: str | None,
    disabled: tuple[str, ...],
    **asked: Unpack[Asked],
) -> int:
    from tonnage.decide.node.cdi import spec_bytes
    from tonnage.model.cdi import CdiOptions

    mode, root = CdiMode(asked["mode"]), str(asked["driver_root"] or _found_root(asked))
    options = CdiOptions(asked["kind"] or mode.kind, root, root, disabled)
    spec, remarks = asyncio.run(_made(mode, asked, options))
    for remark in remarks:
        click.echo(f"warning: {printable(remark)}", err=True)
    document = _checked(spec)
    style = style or ("json" if target is not None and target.suffix == ".json" else "yaml")
    if target is None:
        emit(document, style)
    else:
        from tonnage.adapters.checkpoints import write_atomic

        write_atomic(target, spec_bytes(document) if style == "json" else _yaml(document), mode=0o644)
    return 1 if spec.left_out else 0


@command.command(
    "validate",
    help="Say why a container runtime refuses a spec, or a device that two specs of one folder have. A folder"
    " stands for its specs; with none it is those that runtimes read. Exit status 1 when one is refused, 2"
    " when a file that is named cannot be read.",
    epilog=examples(
        "tonnage cdi validate",
        "tonnage cdi validate /etc/cdi /var/run/cdi -o json",
        "tonnage cdi validate /var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json",
    ),
)
@click.argument("paths", nargs=-1, metavar="[FILE|FOLDER]...", type=click.Path(path_type=Path))
@common_options(output=("text", "json", "yaml"))
def validate(common: Common, paths: tuple[Path, ...]) -> int:
    from tonnage.cli.cdi_validate import check_specs, show_text, status, verdicts

    checked = check_specs(paths)
    if common.output == "text":
        show_text(checked)
    else:
        emit(verdicts(checked), common.output)
    return status(checked)


def _found_root(asked: Asked) -> str:
    """Where the driver is on the host; behind a mount point that is named it is the host's own."""
    if asked["driver_root_ctr_path"] is not None:
        return "/"
    from tonnage.adapters.vendors.driver_root import driver_root_of

    return driver_root_of(Path("/"))


async def _made(mode: CdiMode, asked: Asked, options: CdiOptions) -> tuple[CdiSpec, tuple[str, ...]]:
    """The spec, and what to say of it. Raises HardwareError, ConfigError: the devices cannot be read."""
    from tonnage.adapters.cdi_files import FolderCdi
    from tonnage.adapters.device_nodes import read_device_nodes
    from tonnage.decide.node.cdi import gpu_spec
    from tonnage.decide.node.cdi_modes import mode_spec
    from tonnage.model.plugin_settings import CdiSettings
    from tonnage.model.sharing import PluginConfig

    seen = asked["driver_root_ctr_path"] or Path(options.driver_root)
    root = None if seen == Path("/") else seen
    cdi = CdiSettings(hook_path=asked["hook"]) if asked["hook"] else CdiSettings()
    config = PluginConfig(driver_root=options.driver_root, cdi=cdi)
    folder = FolderCdi(Path("/"), root)
    if mode is not CdiMode.NVML:
        if asked["devices"] != "nvml":
            raise click.UsageError(f"--mode {mode} is of this machine's nodes: leave --devices out")
        files = await folder.driver_files("", config)
        remarks = files.problems if mode is CdiMode.MANAGEMENT else ()
        return mode_spec(mode, read_device_nodes(Path("/"), root), files, options), remarks
    inventory = await _inventory(asked["devices"], root)
    files = await folder.driver_files(inventory.driver_version, config)
    return gpu_spec(inventory, files, options), (*inventory.problems, *files.problems)


async def _inventory(devices: str, root: Path | None) -> Inventory:
    from tonnage.adapters.clock import SystemClock
    from tonnage.agent.main import backend_of

    backend = backend_of(devices, Path("/"), root, SystemClock())
    try:
        return await backend.scan()
    finally:
        await backend.close()


def _checked(spec: CdiSpec) -> JsonObject:
    """The document, which a runtime takes; devices that are left out are told."""
    from tonnage.cli.failure import render_problem
    from tonnage.decide.node.cdi import spec_bytes
    from tonnage.decide.node.cdi_rules import spec_problems
    from tonnage.model.errors import ConfigError, HardwareError, Problem

    for problem in spec.left_out:
        click.echo(render_problem(problem), err=True)
    if spec.document is None:
        raise HardwareError(Problem("no device can be named in a CDI spec", remedy="tonnage node --help"))
    wrong = spec_problems(spec.document)
    if wrong:
        raise ConfigError(*wrong)
    fresh: JsonObject = json.loads(
        spec_bytes(spec.document)
    )  # nothing twice, which YAML would show as an alias
    return fresh


def _yaml(document: JsonValue) -> bytes:
    import yaml

    return b"---\n" + yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode()
