"""`tonnage cdi`: CDI specs of this machine's devices, and whether a runtime takes a spec."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, Unpack

import click

from tonnage.cli.cdi.generate import CdiRequest
from tonnage.cli.options import Common, Words, common_options, examples
from tonnage.cli.terminal.output import emit, say
from tonnage.model.devices.cdi import DRIVER_ROOTS, CdiMode, NameStrategy
from tonnage.model.node.plugin_settings import CDI_FEATURES, CDI_HOOKS, NO_SOCKETS

_AUTO: Final = "auto"
_FOLDER: Final = click.Path(file_okay=False, path_type=Path)


@click.group(help="Generate and check CDI specs for container runtimes.")
def command() -> None:
    pass


@command.command(
    "generate",
    help="Print or write the CDI spec of this machine's devices. Exit status 1 if a device is left out.",
    epilog=examples(
        "tonnage cdi generate --file /var/run/cdi/nvidia.com-gpu.yaml",
        "tonnage cdi generate --driver-root /run/nvidia/driver -o json",
        "tonnage cdi generate --device-name-strategy index --device-name-strategy uuid",
        "tonnage cdi generate --devices scenario:node.yaml",
        "tonnage cdi generate --mode management --file /etc/cdi/management.nvidia.com-gpu.yaml",
    ),
)
@click.option(
    "--mode",
    "--discovery-mode",
    type=click.Choice([_AUTO, *(mode.value for mode in CdiMode)], case_sensitive=False),
    default=_AUTO,
    show_default=True,
    help="auto and nvml name GPUs and MIG devices; the others list all device nodes of one kind.",
)
@click.option(
    "--devices",
    default="nvml",
    show_default=True,
    metavar="nvml|scenario:FILE",
    help="Source of the devices.",
)
@click.option(
    "--device-name-strategy",
    "names",
    multiple=True,
    type=Words(NameStrategy),
    metavar="|".join(NameStrategy),
    help="How devices are named. Repeatable [default: in every way].",
)
@click.option(
    "--device-id",
    "--device",
    "only",
    multiple=True,
    metavar="NAME",
    help="Include only this device, by any of its names. Repeatable.",
)
@click.option("--no-all-device", "apart", is_flag=True, help="Leave out the device named all.")
@click.option(
    "--driver-root",
    type=_FOLDER,
    help="Folder of the host with the driver [default: the first that has its library, of"
    f" {', '.join(DRIVER_ROOTS)}].",
)
@click.option(
    "--driver-root-ctr-path",
    type=_FOLDER,
    help="Where this program sees that folder [default: the same path].",
)
@click.option("--dev-root", type=_FOLDER, help="Folder of the host with /dev [default: the driver's].")
@click.option(
    "--vendor", "--cdi-vendor", metavar="VENDOR", help="Vendor of the CDI kind [default: by the mode]."
)
@click.option(
    "--class", "--cdi-class", "sort", metavar="CLASS", help="Class of the CDI kind [default: by the mode]."
)
@click.option(
    "--kind", metavar="VENDOR/CLASS", help="The CDI kind [default: as NVIDIA's toolkit, by the mode]."
)
@click.option(
    "--nvidia-cdi-hook-path",
    "--nvidia-ctk-path",
    "hook",
    metavar="PATH",
    help="Program on the host that runs the hooks.",
)
@click.option("--ldconfig-path", "ldconfig", metavar="PATH", help="Path of ldconfig on the host.")
@click.option(
    "--disable-hook",
    "--disable-hooks",
    "disabled",
    multiple=True,
    type=Words(CDI_HOOKS),
    metavar="NAME",
    help="Leave out this hook, or all.",
)
@click.option(
    "--enable-hook",
    "--enable-hooks",
    "enabled",
    multiple=True,
    type=Words(CDI_HOOKS[1:-2]),
    metavar="NAME",
    help="Keep this hook though others are disabled.",
)
@click.option(
    "--feature-flag",
    "--feature-flags",
    "features",
    multiple=True,
    type=Words(CDI_FEATURES),
    metavar="NAME",
    help=f"{NO_SOCKETS}: without sockets of the driver's daemons.",
)
@click.option(
    "--file",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the spec to this file (mode 0644, atomically) instead of printing it.",
)
@click.option(
    "-o",
    "--output",
    "--format",
    "formats",
    multiple=True,
    metavar="[yaml|json]",
    help="Format of the spec [default: by the file extension of --file, else yaml]. Any other word is a file"
    " to write, as for nvidia-ctk.",
)
@common_options()
def generate(
    common: Common, target: Path | None, formats: tuple[str, ...], **arguments: Unpack[CdiRequest]
) -> int:
    from tonnage.cli.cdi.generate import checked, made, yaml_bytes
    from tonnage.decide.node.cdi.spec import spec_bytes

    spec, remarks = asyncio.run(made(arguments))
    for remark in remarks:
        say(f"warning: {remark}", err=True)
    document = checked(spec)
    style, target = _style_and_file(formats, target)
    style = style or ("json" if target is not None and target.suffix == ".json" else "yaml")
    if target is None:
        emit(document, style)
    else:
        from tonnage.adapters.checkpoints import write_atomic

        write_atomic(target, spec_bytes(document) if style == "json" else yaml_bytes(document), mode=0o644)
    return 1 if spec.left_out else 0


def _style_and_file(words: tuple[str, ...], target: Path | None) -> tuple[str | None, Path | None]:
    """The format, and the file to write; `--output` may name either."""
    style = None
    for word in words:
        if word in ("yaml", "json"):
            style = word
        elif target is None:
            target = Path(word)
        else:
            raise click.UsageError(f"-o {word[:60]}: give yaml or json")
    return style, target


@command.command(
    "validate",
    help="Say why a container runtime refuses a spec, or a device that two specs of one folder define. Name"
    " files or folders [default: the folders that runtimes read]. Exit status 1 when a spec is refused, 2"
    " when a named file cannot be read.",
    epilog=examples(
        "tonnage cdi validate",
        "tonnage cdi validate /etc/cdi /var/run/cdi -o json",
        "tonnage cdi validate /var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json",
    ),
)
@click.argument("paths", nargs=-1, metavar="[FILE|FOLDER]...", type=click.Path(path_type=Path))
@common_options(output=("text", "json", "yaml"))
def validate(common: Common, paths: tuple[Path, ...]) -> int:
    from tonnage.cli.cdi.validate import check_specs, show_text, status, verdicts

    checked = check_specs(paths)
    if common.output == "text":
        show_text(checked)
    else:
        emit({"items": verdicts(checked)}, common.output)
    return status(checked)


@command.command(
    "char-links",
    help="Create the missing links /dev/char/MAJOR:MINOR to the driver's device nodes. Older runtimes with"
    " systemd cgroups need them; else containers lose their GPUs at the next systemctl daemon-reload.",
    epilog=examples("tonnage cdi char-links --dry-run", "tonnage cdi char-links    # at each boot, as root"),
)
@click.option(
    "--root",
    type=_FOLDER,
    default=Path("/"),
    show_default=True,
    help="Folder where the node's root file system is mounted.",
)
@click.option(
    "--dry-run", is_flag=True, help="Show the missing links and create none. Exit status 1 if any is missing."
)
@common_options()
def char_links(common: Common, root: Path, *, dry_run: bool) -> int:
    from tonnage.adapters.cdi.char_links import make_links, missing_links

    missing = missing_links(root)
    if not dry_run:
        make_links(root, missing)
    for link, target in sorted(missing.items()):
        say(f"{link} -> {target}")
    if not missing:
        say("No link is missing.")
    return int(dry_run and bool(missing))
