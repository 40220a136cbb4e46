"""nvidia-smi of the pretended driver, as far as it resets GPUs and sets time slices.

`install` puts it under a driver root.
As a program it knows nothing but the state file and what processes changed since, and it refuses what the
driver's own refuses: GPUs that somebody uses, one of several behind NVSwitches, a driver that is open.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_STATE = "fake-nvml.conf"
_OPEN, _SHUT = ("nvmlInit_v2", "nvmlInitWithFlags"), "nvmlShutdown"


def install(root: Path) -> Path:
    """The program in that driver root; every call of it is a line of `resets` beside the state file."""
    program = root / "usr/bin/nvidia-smi"
    program.parent.mkdir(parents=True, exist_ok=True)
    text = Path(__file__).read_text(encoding="utf-8")
    made = program.with_name(".nvidia-smi.new")
    made.write_text(f"#!{sys.executable} -S\n{text}", encoding="utf-8")
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
