"""`nvidia-smi` inside a pretended container.

Source: nvidia-smi's manual and its output on driver 570; the texts of NVML for what went wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from tonnage.twin.kubelet.containers.runtime_port import ContainerContext
from tonnage.twin.kubelet.programs.gpus import UNSUPPORTED, GpuReading, VisibleGpus, visible_gpus
from tonnage.twin.kubelet.programs.smi_reports import report_lines, topology_lines

_NO_DEVICES: Final = "No devices were found"
_LOST: Final = (
    "Unable to determine the device handle for GPU {name}: GPU is lost.  "
    "Reboot the system to recover this GPU"
)
_NO_DRIVER: Final = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n"
)
_WIDE: Final = 89
_PROCESSES: Final = "  GPU   GI   CI              PID   Type   Process name                        GPU Memory"


_Field = tuple[str, Callable[[GpuReading], object]]


def _fields() -> dict[str, _Field]:
    """Unit and value by the field's name in `--help-query-gpu`."""
    table: dict[str, _Field] = {
        "timestamp": ("", lambda r: ""),
        "driver_version": ("", lambda r: r.gpus.driver_version),
        "count": ("", lambda r: len(r.gpus.devices)),
        "name": ("", lambda r: r.device.product),
        "uuid": ("", lambda r: r.device.uuid),
        "index": ("", lambda r: r.gpus.devices.index(r.device)),
        "serial": ("", lambda r: UNSUPPORTED),
        "pci.bus_id": ("", lambda r: r.device.pci_bus_id or UNSUPPORTED),
        "pci.device_id": ("", lambda r: f"0x{r.model.pci_device.upper()}10DE" if r.model else UNSUPPORTED),
        "compute_cap": ("", lambda r: r.device.compute_capability or UNSUPPORTED),
        "persistence_mode": ("", lambda r: "Enabled"),
        "pstate": ("", lambda r: "P0"),
        "memory.total": ("MiB", lambda r: r.device.memory_mib),
        "memory.used": ("MiB", lambda r: r.used_mib),
        "memory.free": ("MiB", lambda r: r.free_mib),
        "memory.reserved": ("MiB", lambda r: 0),
        "utilization.gpu": ("%", lambda r: r.busy),
        "utilization.memory": ("%", lambda r: r.memory_percent),
        "temperature.gpu": ("", lambda r: r.temperature_c),
        "power.draw": ("W", lambda r: None if r.power_w is None else f"{r.power_w:.2f}"),
        "power.limit": ("W", lambda r: f"{r.model.power_limit_w:.2f}" if r.model else None),
        "clocks.current.sm": ("MHz", lambda r: r.sample.whole("clock_sm_mhz")),
        "clocks.current.memory": ("MHz", lambda r: r.sample.whole("clock_memory_mhz")),
        "clocks.max.sm": ("MHz", lambda r: r.sample.whole("clock_sm_most_mhz")),
        "clocks.max.memory": ("MHz", lambda r: r.sample.whole("clock_memory_most_mhz")),
        "compute_mode": ("", lambda r: "Default"),
        "mig.mode.current": ("", lambda r: r.mig_mode),
        "mig.mode.pending": ("", lambda r: r.mig_mode),
        "ecc.mode.current": ("", lambda r: "Enabled"),
    }
    aliases = {"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id", "pstate": "pstate"}
    aliases |= {"clocks.sm": "clocks.current.sm", "clocks.mem": "clocks.current.memory"}
    return table | {alias: table[name] for alias, name in aliases.items()}


FIELDS: Final[Mapping[str, _Field]] = MappingProxyType(_fields())


async def nvidia_smi(context: ContainerContext) -> int:
    """Default table, `-L`, `-q`, `topo -m`, `--query-gpu=… --format=csv[,noheader][,nounits]`."""
    gpus = await visible_gpus(context)
    if gpus.unreadable:
        context.stdio.write(_NO_DRIVER.encode())
        return 9
    options = list(context.argv[1:])
    query = [option.partition("=")[2] for option in options if option.startswith("--query-gpu=")]
    if query:
        return _query(context, gpus, query[-1].split(","), options)
    if options and options[0] in {"-L", "--list-gpus"}:
        return _list(context, gpus)
    if options in (["-q"], ["--query"]):
        return _lines(context, gpus, report_lines(gpus, context.clock.now()))
    if options in (["topo", "-m"], ["topo", "--matrix"]):
        return _lines(context, gpus, topology_lines(gpus))
    if options:
        return _print(
            context, "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n", 2
        )
    return _table(context, gpus)


def _print(context: ContainerContext, text: str, code: int) -> int:
    context.stdio.write(text.encode())
    return code


def _lines(context: ContainerContext, gpus: VisibleGpus, lines: Iterable[str]) -> int:
    if gpus.lost:
        return _print(context, _lost(gpus), 15)
    if not gpus.devices:
        return _print(context, f"{_NO_DEVICES}\n", 6)
    return _print(context, "".join(f"{line}\n" for line in lines), 0)


def _lost(gpus: VisibleGpus) -> str:
    return "".join(f"{_LOST.format(name=name)}\n" for name in gpus.lost)


def _list(context: ContainerContext, gpus: VisibleGpus) -> int:
    lines = []
    for index, device in enumerate(gpus.devices):
        lines.append(f"GPU {index}: {device.product} (UUID: {device.uuid})\n")
        parts = [part for part in device.migs if part.uuid in gpus.parts]
        lines += (
            f"  MIG {part.profile:<15} Device {number:>2}: (UUID: {part.uuid})\n"
            for number, part in enumerate(parts)
        )
    if gpus.lost:
        return _print(context, "".join(lines) + _lost(gpus), 15)
    return _print(context, "".join(lines) or f"{_NO_DEVICES}\n", 0 if lines else 6)


def _query(context: ContainerContext, gpus: VisibleGpus, names: list[str], options: list[str]) -> int:
    form = next((o.partition("=")[2] for o in options if o.startswith("--format=")), "").split(",")
    names = [name.strip() for name in names]
    unknown = next((name for name in names if name not in FIELDS), None)
    if unknown is not None:
        return _print(context, f'Field "{unknown}" is not a valid field to query.\n\n', 2)
    if form[0] != "csv" or not set(form) <= {"csv", "noheader", "nounits"}:
        return _print(context, "\"--format=\" switch is missing. Please run 'nvidia-smi -h' for help.\n\n", 2)
    if gpus.lost:
        return _print(context, _lost(gpus), 15)
    if not gpus.devices:
        return _print(context, f"{_NO_DEVICES}\n", 6)
    units = "nounits" not in form
    lines = [] if "noheader" in form else [", ".join(_header(name, units=units) for name in names)]
    now = context.clock.now()
    stamp = f"{now:%Y/%m/%d %H:%M:%S}.{now.microsecond // 1000:03d}"
    for device in gpus.devices:
        reading = GpuReading(device, gpus)
        lines.append(
            ", ".join(stamp if name == "timestamp" else _value(name, reading, units=units) for name in names)
        )
    return _print(context, "".join(f"{line}\n" for line in lines), 0)


def _header(name: str, *, units: bool) -> str:
    unit = FIELDS[name][0]
    return f"{name} [{unit}]" if unit and units else name


def _value(name: str, reading: GpuReading, *, units: bool) -> str:
    unit, read = FIELDS[name]
    value = read(reading)
    if value is None:
        return UNSUPPORTED
    return f"{value} {unit}" if unit and units and value != UNSUPPORTED else str(value)


def _cell(value: object, unit: str = "") -> str:
    return "N/A" if value is None or value == UNSUPPORTED else f"{value}{unit}"


def _table(context: ContainerContext, gpus: VisibleGpus) -> int:
    versions = (
        f" NVIDIA-SMI {gpus.driver_version:<22} Driver Version: {gpus.driver_version:<14} "
        f"CUDA Version: {gpus.cuda_version}"
    )
    lines = [
        f"{context.clock.now():%a %b %e %H:%M:%S %Y}",
        f"+{'-' * _WIDE}+",
        f"|{versions:<{_WIDE}}|",
        f"|{'-' * 41}+{'-' * 24}+{'-' * 22}+",
        _row(" GPU  Name                 Persistence-M", "Bus-Id          Disp.A ", "Volatile Uncorr. ECC "),
        _row(" Fan  Temp   Perf          Pwr:Usage/Cap", "Memory-Usage ", "GPU-Util  Compute M. "),
        _row("", "", "MIG M. "),
        f"|{'=' * 41}+{'=' * 24}+{'=' * 22}|",
    ]
    for index, device in enumerate(gpus.devices):
        lines += _rows(index, GpuReading(device, gpus))
        lines.append(f"+{'-' * 41}+{'-' * 24}+{'-' * 22}+")
    lines += [
        "",
        f"+{'-' * _WIDE}+",
        f"|{' Processes:':<{_WIDE}}|",
        f"|{_PROCESSES:<{_WIDE}}|",
        f"|{'        ID   ID':<81}{'Usage':<8}|",
        f"|{'=' * _WIDE}|",
        f"|{'  No running processes found':<{_WIDE}}|",
        f"+{'-' * _WIDE}+",
    ]
    return _lines(context, gpus, lines)


def _row(left: str, middle: str, right: str) -> str:
    return f"|{left:<41}|{middle:>24}|{right:>22}|"


def _rows(index: int, reading: GpuReading) -> list[str]:
    device, power_w = reading.device, reading.power_w
    power = _cell(None if power_w is None else round(power_w), "W")
    cap = _cell(reading.model.power_limit_w if reading.model else None, "W")
    used = _cell(reading.used_mib, "MiB")
    return [
        _row(f"{index:>4}  {device.product:<27.27}{'On':>6}  ", f"{device.pci_bus_id:>19} Off ", "0 "),
        _row(
            f" N/A {_cell(reading.temperature_c, 'C'):>5}    P0 {power:>15} / {cap:>5} ",
            f"{used:>11} / {device.memory_mib:>6}MiB ",
            f"{_cell(reading.busy, '%'):>8}      Default ",
        ),
        _row("", "", f"{_cell(reading.mig_mode)} "),
    ]
