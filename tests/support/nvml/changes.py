"""What processes changed through the pretended library (modes, instances), kept beside its state."""

from __future__ import annotations

from pathlib import Path

from support.nvml.state import PROFILES, DriverState, FakeMig


def reset_gpu(state_file: Path, slot: int) -> None:
    """Reset the GPU: a MIG mode that waited for it takes effect."""
    waiting = [line[3] for line in _lines(state_file) if line[:3] == ["gpu", str(slot), "mig-pending"]]
    with _file(state_file).open("a", encoding="ascii") as changes:
        changes.writelines(f"gpu {slot} mig-mode {mode}\n" for mode in waiting[-1:])


def forget_instances(state_file: Path, slot: int) -> None:
    """Forget which instances were made and removed: whoever divides the GPU numbers them anew."""
    words = ("gi", "-gi", "ci", "-ci")
    left = [line for line in _lines(state_file) if not (line[0] in words and line[1] == str(slot))]
    file = _file(state_file)
    if file.exists():
        file.write_text("".join(f"{' '.join(line)}\n" for line in left), encoding="ascii")


def compute_modes(state_file: Path, slots: int) -> list[int]:
    """NVML's number of each GPU's compute mode."""
    said = {line[1]: int(line[3]) for line in _lines(state_file) if line[2:3] == ["compute-mode"]}
    return [said.get(str(slot), 0) for slot in range(slots)]


def mig_devices(state: DriverState, state_file: Path, slot: int) -> list[FakeMig]:
    """The GPU's MIG devices: those of the state, as others changed them since."""
    names = {str(number): name for name, number in PROFILES.items()}
    found = {(mig.gi, mig.ci): mig for mig in state.gpu(slot).migs}
    places = {mig.gi: (mig.profile, mig.start) for mig in found.values()}
    for word, where, gi, *rest in _lines(state_file):
        if where != str(slot):
            continue
        if word == "gi":
            places[int(gi)] = (names[rest[0]], int(rest[1]))
        elif word == "ci":
            found[int(gi), int(rest[0])] = FakeMig(*places[int(gi)], int(gi), int(rest[0]), uuid=rest[2])
        elif word == "-ci":
            del found[int(gi), int(rest[0])]
    return list(found.values())


def _file(state_file: Path) -> Path:
    return state_file.with_name(f"{state_file.name}.mig")


def _lines(state_file: Path) -> list[list[str]]:
    file = _file(state_file)
    text = file.read_text(encoding="ascii") if file.exists() else ""
    return [line.split() for line in text.splitlines()]
