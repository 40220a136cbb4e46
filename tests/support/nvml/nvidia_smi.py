"""nvidia-smi of the pretended driver, as far as it resets GPUs, sets time slices and answers `--query-gpu`.

`install` puts it under a driver root.
As a program it knows nothing but the state file and what processes changed since, and it refuses what the
driver's own refuses: GPUs that somebody uses, one of several behind NVSwitches, a driver that is open.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_STATE = "fake-nvml.conf"
_NOTHING = "[N/A]"
_SWITCHED = {"0": "Disabled", "1": "Enabled"}
_HAPPENED = {"0": "No", "1": "Yes"}
_COMPUTE_MODES = {"0": "Default", "1": "Exclusive_Thread", "2": "Prohibited", "3": "Exclusive_Process"}
_RECOVERIES = {"0": "None", "1": "Reset", "2": "Reboot", "3": "Drain P2P", "4": "Drain and Reset"}
_WORDS = {
    "name": "name",
    "uuid": "uuid",
    "serial": "serial",
    "pci.bus_id": "pci-bus-id",
    "vbios_version": "vbios",
    "inforom.img": "inforom-image",
    "memory.total": "memory-mib",
    "memory.used": "memory-used-mib",
    "memory.reserved": "memory-reserved-mib",
    "utilization.gpu": "gpu-utilization",
    "utilization.memory": "memory-utilization",
    "utilization.encoder": "encoder-utilization",
    "utilization.decoder": "decoder-utilization",
    "temperature.gpu": "temperature",
    "temperature.memory": "memory-temperature",
    "temperature.gpu.tlimit": "temperature-margin",
    "fan.speed": "fan-percent",
    "clocks.current.sm": "clock-sm",
    "clocks.current.memory": "clock-memory",
    "clocks.current.video": "clock-video",
    "clocks.max.sm": "clock-max-sm",
    "clocks.max.memory": "clock-max-memory",
    "clocks.applications.memory": "clock-application-memory",
    "pcie.link.gen.current": "pcie-generation",
    "pcie.link.gen.max": "pcie-max-generation",
    "pcie.link.width.current": "pcie-width",
    "pcie.link.width.max": "pcie-max-width",
    "remapped_rows.correctable": "remapped-corrected",
    "remapped_rows.uncorrectable": "remapped-uncorrected",
    "remapped_rows.histogram.max": "row-banks-max",
    "index": "",
}
"""What a word of the state file says as it stands, by nvidia-smi's name; the index is the slot."""
_FORMED: dict[str, tuple[str, Callable[[str], str | None]]] = {
    "pstate": ("performance-state", "P{}".format),
    "clocks_event_reasons.active": ("clock-reasons", lambda text: f"0x{int(text):016X}"),
    "power.draw": ("power-mw", lambda text: f"{int(text) / 1000:.2f}"),
    "power.draw.instant": ("power-mw", lambda text: f"{int(text) / 1000:.2f}"),
    "power.limit": ("power-limit-mw", lambda text: f"{int(text) / 1000:.2f}"),
    "enforced.power.limit": ("power-limit-mw", lambda text: f"{int(text) / 1000:.2f}"),
    "power.default_limit": ("power-default-mw", lambda text: f"{int(text) / 1000:.2f}"),
    "power.min_limit": ("power-min-mw", lambda text: f"{int(text) / 1000:.2f}"),
    "power.max_limit": ("power-max-mw", lambda text: f"{int(text) / 1000:.2f}"),
    "persistence_mode": ("persistence", _SWITCHED.get),
    "ecc.mode.current": ("ecc-mode", _SWITCHED.get),
    "ecc.mode.pending": ("ecc-pending", _SWITCHED.get),
    "mig.mode.current": ("mig-mode", _SWITCHED.get),
    "remapped_rows.pending": ("remap-pending", _HAPPENED.get),
    "remapped_rows.failure": ("remap-failure", _HAPPENED.get),
    "compute_mode": ("compute-mode", _COMPUTE_MODES.get),
    "gpu_recovery_action": ("recovery-action", _RECOVERIES.get),
    "pci.device_id": ("pci-device-id", lambda text: f"0x{int(text, 0):08X}"),
    "pci.sub_device_id": ("pci-subsystem-id", lambda text: f"0x{int(text, 0):08X}"),
}
_ECC = ("corrected.volatile", "uncorrected.volatile", "corrected.aggregate", "uncorrected.aggregate")
_OPEN, _SHUT = ("nvmlInit_v2", "nvmlInitWithFlags"), "nvmlShutdown"


def install(root: Path, python: str = sys.executable) -> Path:
    """The program in that driver root; every call of it is a line of `resets` beside the state file.

    `python` is where those who run it have an interpreter.
    """
    program = root / "usr/bin/nvidia-smi"
    program.parent.mkdir(parents=True, exist_ok=True)
    text = Path(__file__).read_text(encoding="utf-8")
    made = program.with_name(".nvidia-smi.new")
    made.write_text(f"#!{python} -S\n{text}", encoding="utf-8")
    made.chmod(0o755)
    made.replace(program)
    return program


def resets(state_file: Path) -> list[list[str]]:
    """The GPUs (uuids) of every reset that was done, oldest first."""
    file = state_file.with_name("resets")
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def time_slices(state_file: Path) -> dict[str, int]:
    """The time slice that was set of each GPU, by uuid."""
    file = state_file.with_name("slices")
    lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return {uuid: int(number) for uuid, number in lines}


def main(arguments: list[str], state_file: Path) -> int:
    """Exit status of `nvidia-smi --gpu-reset -i UUID,...`, or `compute-policy -i UUID --set-timeslice N`."""
    if arguments[:2] == ["compute-policy", "-i"] and arguments[3:4] == ["--set-timeslice"]:
        if not any(line.split()[2:] == ["uuid", arguments[2]] for line in _text(state_file).splitlines()):
            print("No devices were found")
            return 6
        _append(state_file.with_name("slices"), f"{arguments[2]} {arguments[4]}\n")
        return 0
    if arguments[:1] and arguments[0].startswith("--query-gpu="):
        return _query(arguments[0].partition("=")[2].split(","), state_file)
    if arguments[:2] != ["--gpu-reset", "-i"] or len(arguments) != 3:
        print("Invalid combination of input arguments.")
        return 6
    lines = [line.split() for line in _text(state_file).splitlines()]
    changes = [line.split() for line in _text(_changes(state_file)).splitlines()]
    slots = {line[3]: line[1] for line in lines if line[0] == "gpu" and line[2] == "uuid"}
    uuids = arguments[2].split(",")
    asked = {slots[uuid] for uuid in uuids if uuid in slots}
    if why := _refusal(lines, asked, len(uuids)):
        print(why)
        return 3
    done = []
    for slot in sorted(asked):
        there = {(line[0], *line[2:4]) for line in lines if line[0] in ("gi", "ci") and line[1] == slot}
        there = {key[:2] if key[0] == "gi" else key for key in there}
        mode = [line[3] for line in (*lines, *changes) if line[:3] == ["gpu", slot, "mig-pending"]]
        for word, where, *rest in changes:
            if where == slot and word.lstrip("-") in ("gi", "ci"):
                key = (word.lstrip("-"), *rest[: 1 if word.endswith("gi") else 2])
                there = there - {key} if word.startswith("-") else there | {key}
        done += [f"-ci {slot} {key[1]} {key[2]}\n" for key in sorted(there) if key[0] == "ci"]
        done += [f"-gi {slot} {key[1]}\n" for key in sorted(there) if key[0] == "gi"]
        done += [f"gpu {slot} mig-mode {mode[-1]}\n"] if mode else []
    _append(_changes(state_file), "".join(done))
    _append(state_file.with_name("resets"), " ".join(uuids) + "\n")
    print("All done.")
    return 0


def _query(names: list[str], state_file: Path) -> int:
    """As `--format=csv,noheader,nounits` has it, a line a GPU; a name that it does not know ends it."""
    lines = [line.split(maxsplit=3) for line in _text(state_file).splitlines()]
    driver = next((line[1] for line in lines if line[:1] == ["driver"]), "")
    facts: dict[str, dict[str, str]] = {}
    for line in lines:
        if line[:1] == ["gpu"]:
            facts.setdefault(line[1], {})[line[2]] = line[3]
    rows = []
    for slot, of_gpu in facts.items():
        cells = [_cell(name, slot, {**of_gpu, "driver": driver}) for name in names]
        if None in cells:
            print(f'Field "{names[cells.index(None)]}" is not a valid field to query.\n')
            return 2
        rows.append(", ".join(str(cell) for cell in cells))
    print("\n".join(rows))
    return 0


def _cell(name: str, slot: str, facts: dict[str, str]) -> str | None:
    ecc = [f"ecc.errors.{kind}.total" for kind in _ECC]
    if name in ecc:
        word = "ecc-" + name.removeprefix("ecc.errors.").removesuffix(".total").replace(".", "-")
        return facts.get(word, "0") if facts.get("ecc-mode") == "1" else _NOTHING
    if name == "index":
        return slot
    if name == "driver_version":
        return facts["driver"]
    if name == "compute_cap":
        return f"{facts['capability-major']}.{facts['capability-minor']}"
    if name == "memory.free":
        used = int(facts["memory-used-mib"]) + int(facts["memory-reserved-mib"])
        return str(int(facts["memory-mib"]) - used)
    if name in _WORDS:
        return facts.get(_WORDS[name], _NOTHING)
    if name not in _FORMED:
        return None
    word, form = _FORMED[name]
    return str(form(facts[word])) if word in facts else _NOTHING


def _refusal(lines: list[list[str]], asked: set[str], count: int) -> str:
    switched = {line[1] for line in lines if line[0] == "link" and line[4] == "switch"}
    calls = next((line[1] for line in lines if line[0] == "calls"), "")
    log = [line.split()[0] for line in _text(Path(calls)).splitlines()] if calls else []
    if len(asked) != count:
        return "No devices were found"
    if asked & switched and not switched <= asked:
        return "GPUs with NVLink connections through NVSwitch must be reset together"
    if any(line[0] == "process" and line[1] in asked for line in lines) or _is_open(log):
        return "The following GPUs could not be reset:\n  In use by another client"
    return ""


def _is_open(log: list[str]) -> bool:
    return sum(call in _OPEN for call in log) > log.count(_SHUT)


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""


def _changes(state_file: Path) -> Path:
    return state_file.with_name(f"{state_file.name}.mig")


def _append(file: Path, text: str) -> None:
    with file.open("a", encoding="ascii") as stream:
        stream.write(text)


if __name__ == "__main__":
    root = Path(os.path.realpath(__file__)).parents[2]
    sys.exit(main(sys.argv[1:], root / _LIBRARIES / _STATE))
