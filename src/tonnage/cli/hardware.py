"""`tonnage hardware`: what befalls the pretended GPUs of the embedded cluster."""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypedDict, Unpack

import click

from tonnage.cli.options import STATE_HELP, Common, common_options, examples
from tonnage.cli.terminal.output import emit, say
from tonnage.cli.terminal.tables import table
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.json import JsonObject, JsonValue

if TYPE_CHECKING:
    from tonnage.documents.hardware import Hardware
    from tonnage.model.devices.inventory import Sample
    from tonnage.twin.machines import HardwareFile

Health = Literal["healthy", "unhealthy", "lost", "hung"]
_HEALTH: Final[tuple[Health, ...]] = ("healthy", "unhealthy", "lost", "hung")
_PART: Final = re.compile(r"(?P<profile>[^,:]{1,40})(:(?P<count>[0-9]{1,2}))?")
_WHOLE: Final = "off"
_MOST_PARTS: Final = 56
_FIELDS: Final = ("utilization_percent", "memory_used_mib", "power_w", "temperature_c")
_HEAD: Final = ("GPU", "MODEL", "UUID", "HEALTH", "XIDS", "MIG", "UTIL", "MEMORY", "POWER", "TEMP", "WHY")


class Deed(TypedDict):
    """What to do; nothing of it is a question."""

    xid: int | None
    health: Health | None
    mig: str | None
    reboot: bool


@click.command(
    help=(
        "Show, break, repair or partition GPUs of the embedded cluster.\n\n"
        "The agents notice within a second, as on real machines. A real cluster is never touched."
    ),
    epilog=examples(
        "tonnage hardware a100-0",
        "tonnage hardware a100-0 --gpu 2 --xid 79           # fell off the bus",
        "tonnage hardware a100-0 --reboot                   # restart the node",
        "tonnage hardware a100-1 --mig 1g.10gb:7            # seven instances on each GPU",
        "tonnage hardware a100-1 --mig off",
    ),
)
@click.argument("node", metavar="NODE")
@click.option(
    "--gpu",
    "gpus",
    type=click.IntRange(0, 255),
    multiple=True,
    metavar="INDEX",
    help="Change only this GPU [default: all].",
)
@click.option(
    "--xid", type=click.IntRange(1, 65535), metavar="NUMBER", help="Report this Xid error from the driver."
)
@click.option("--health", type=click.Choice(_HEALTH), help="Set the health of the GPU.")
@click.option("--mig", metavar="PROFILE:N,...|off", help="Create these MIG instances, or turn MIG off.")
@click.option("--reboot", is_flag=True, help="Restart the node, which repairs most faults.")
@click.option("--state", type=click.Path(path_type=Path), metavar="DIR", help=STATE_HELP)
@common_options(output=("text", "json", "yaml"))
def command(
    common: Common, node: str, gpus: tuple[int, ...], state: Path | None, **deed: Unpack[Deed]
) -> None:
    """Shows the GPUs after the deed. Exit status 2: no such node, or nothing that can be done."""
    from tonnage.cli.locations.twin_nodes import asked_state, node_folder
    from tonnage.twin.machines import HardwareFile

    file = HardwareFile(node_folder(state or asked_state(os.environ), node, where="NODE"))
    act = _deed(deed)
    if deed["reboot"]:
        if gpus:
            raise click.UsageError("--reboot restarts the whole node: remove --gpu")
        file.reboot()
    elif act is not None:
        _check(gpus, file.read(), node)
        for place in _places(gpus, file.read()):
            act(file, place)
    _show(file.read(), readings_of(file.path), common.output)


def _deed(deed: Deed) -> Callable[[HardwareFile, int], None] | None:
    """What to do to a device, given the file and its place there; None: nothing but to look."""
    xid, health, mig = deed["xid"], deed["health"], deed["mig"]
    if sum((xid is not None, health is not None, mig is not None, deed["reboot"])) > 1:
        raise click.UsageError("give only one of --xid, --health, --mig and --reboot")
    if xid is not None:
        return lambda file, place: file.report(place, xid)
    if health is not None:
        return lambda file, place: file.set_health(place, health)
    if mig is None:
        return None
    if mig == _WHOLE:
        return lambda file, place: file.make_whole(place)
    parts = profiles(mig)
    return lambda file, place: file.divide(place, *parts)


def profiles(layout: str) -> tuple[str, ...]:
    """The MIG devices that a layout names, one after the other.

    >>> profiles("3g.40gb,1g.10gb:2")
    ('3g.40gb', '1g.10gb', '1g.10gb')

    Raises ConfigError.
    """
    parts: list[str] = []
    for word in layout.split(","):
        match = _PART.fullmatch(word.strip())
        if match is None:
            raise ConfigError(
                Problem(
                    f"{word[:60]!r} is not a MIG layout",
                    "--mig",
                    remedy="write 1g.10gb:7, or 3g.40gb,2g.20gb",
                )
            )
        parts += [match["profile"]] * int(match["count"] or 1)
    if len(parts) > _MOST_PARTS:
        raise ConfigError(Problem(f"{len(parts)} MIG devices", "--mig", f"at most {_MOST_PARTS} are allowed"))
    return tuple(parts)


def layout(profiles: tuple[str, ...]) -> str:
    """MIG devices as `--mig` takes them.

    >>> layout(("3g.40gb", "1g.10gb", "1g.10gb"))
    '3g.40gb,1g.10gb:2'
    """
    counts = Counter(profiles)
    return ",".join(name if count == 1 else f"{name}:{count}" for name, count in counts.items())


def _check(gpus: tuple[int, ...], hardware: Hardware, node: str) -> None:
    indices = [index for _, index in hardware.indexed()]
    unknown = [gpu for gpu in gpus if gpu not in indices]
    if unknown or not indices:
        problem = f"{node} has no GPU {', '.join(map(str, unknown))}" if indices else f"{node} has no GPU"
        why = f"its GPUs are {', '.join(map(str, indices))}" if indices else ""
        raise ConfigError(Problem(problem, "--gpu", why))


def _places(gpus: tuple[int, ...], hardware: Hardware) -> list[int]:
    """Where the devices with these indices stand in the file; of all, without any."""
    indices = {device.uuid: index for device, index in hardware.indexed()}
    return [n for n, device in enumerate(hardware.devices) if not gpus or indices[device.uuid] in gpus]


def readings_of(file: Path) -> Mapping[str, Sample]:
    """What the devices read now, by uuid: the numbers that `nvidia-smi` in their containers shows."""
    from tonnage.adapters.clock import SystemClock
    from tonnage.twin.devices.scenario import ScenarioBackend

    samples = asyncio.run(ScenarioBackend(file, SystemClock()).sample(_FIELDS))
    return {sample.uuid: sample for sample in samples}


def _show(hardware: Hardware, readings: Mapping[str, Sample], output: str) -> None:
    rows = hardware.indexed()
    faults = _faults(hardware)
    if output != "text":
        items: list[JsonValue] = [
            {
                **device.model_dump(mode="json", by_alias=True),
                "index": index,
                "fault": faults.get(device.uuid, ""),
                **_read(readings, device.uuid),
            }
            for device, index in rows
        ]
        answer: JsonObject = {"boot": hardware.boot, "devices": items}
        emit(answer, output)
        return
    lines = [
        (
            str(index),
            device.model,
            device.uuid,
            "unhealthy" if device.health == "healthy" and device.uuid in faults else device.health,
            ",".join(map(str, device.xids)) or "-",
            "off" if device.mig is None else layout(device.mig) or "nothing made",
            *_cells(readings.get(device.uuid)),
            faults.get(device.uuid, "-"),
        )
        for device, index in rows
    ]
    say(table(_HEAD, lines) if lines else "No GPU.")


def _read(readings: Mapping[str, Sample], uuid: str) -> JsonObject:
    """The readings of a device that answers."""
    return {"readings": dict(readings[uuid].values)} if uuid in readings else {}


def _cells(sample: Sample | None) -> tuple[str, ...]:
    """Utilisation, memory, power and temperature; `-` for what is not read."""
    values = {} if sample is None else sample.values
    units = ("%", " MiB", " W", " C")
    return tuple(
        f"{values[name]:.0f}{unit}" if name in values else "-"
        for name, unit in zip(_FIELDS, units, strict=True)
    )


def _faults(hardware: Hardware) -> dict[str, str]:
    """By uuid: why an agent with the default policy offers the device to no new pod."""
    from tonnage.decide.node.health.device_health import offered_inventory, state_after_scan
    from tonnage.decide.node.health.faults import HealthState
    from tonnage.decide.node.health.xids import state_after_event
    from tonnage.model.devices.health import HealthPolicy
    from tonnage.model.devices.inventory import RawEvent, RawEventKind
    from tonnage.twin.devices.scenario import inventory_of

    policy, inventory = HealthPolicy(), inventory_of(hardware, {})
    state = state_after_scan(HealthState(), inventory, policy, now=0.0)
    for entry in hardware.devices:
        for xid in entry.xids:
            event = RawEvent(RawEventKind.XID, entry.uuid, xid)
            state = state_after_event(state, event, inventory, policy, now=0.0)
    offered = offered_inventory(inventory, state).devices
    return {device.uuid: device.reason for device in offered if not device.healthy}
