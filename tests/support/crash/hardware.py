"""The pretended GPUs as they are now: the state that was written, and what processes changed since."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from support.crash.transitions import SHORT, Place
from support.nvml.state import PROFILES

_NAMES: Final = {PROFILES[short]: name for name, short in SHORT.items()}
_SLICES: Final = (1, 2, 3, 4, 7, 8, 6, 1)


@dataclass(slots=True)
class Gpu:
    """A GPU: its mode; (profile, start) of GPU instances; (slices, uuid) of compute instances."""

    uuid: str = ""
    enabled: bool = False
    instances: dict[int, tuple[int, int]] = field(default_factory=dict)
    computes: dict[tuple[int, int], tuple[int, str]] = field(default_factory=dict)

    def names(self) -> dict[str, str]:
        """The name of each MIG device, by uuid; of a GPU instance without any nothing."""
        found: dict[str, str] = {}
        for (gi, _), (slices, uuid) in self.computes.items():
            name = _NAMES[self.instances[gi][0]]
            found[uuid] = name if slices == int(name[0]) else f"{slices}c.{name}"
        return found

    def parts(self) -> list[tuple[int, int, tuple[int, ...]]]:
        """(profile, start, sorted slices of its compute instances) of all GPU instances."""
        return sorted(
            (*spot, tuple(sorted(slices for (of, _), (slices, _) in self.computes.items() if of == gi)))
            for gi, spot in self.instances.items()
        )

    def wanted(self) -> Counter[str] | None:
        """As a transition has it."""
        return Counter(self.names().values()) if self.enabled else None


def read_gpus(state_file: Path) -> dict[int, Gpu]:
    """The GPUs by their slots."""
    gpus: dict[int, Gpu] = {}
    for word, slot, *rest in _lines(state_file):
        gpu = gpus.setdefault(int(slot), Gpu())
        if word == "gpu" and rest[0] == "uuid":
            gpu.uuid = rest[1]
        elif word == "gpu" and rest[0] == "mig-mode":
            gpu.enabled = rest[1] == "1"
        elif word == "gi":
            gpu.instances[int(rest[0])] = int(rest[1]), int(rest[2])
        elif word == "-gi":
            del gpu.instances[int(rest[0])]
        elif word == "ci":
            gpu.computes[int(rest[0]), int(rest[1])] = _SLICES[int(rest[2])], rest[3]
        elif word == "-ci":
            del gpu.computes[int(rest[0]), int(rest[1])]
    return gpus


def ever_gone(state_file: Path) -> set[Place]:
    """GPU instances that were destroyed, or of which a part was, even if they are there again."""
    rows = (line.split() for line in _changes(state_file).splitlines())
    return {(int(row[1]), int(row[2])) for row in rows if row[0] in ("-gi", "-ci")}


def _changes(state_file: Path) -> str:
    file = state_file.with_name(f"{state_file.name}.mig")
    text = file.read_text(encoding="ascii") if file.exists() else ""
    return text[: text.rfind("\n") + 1]


def _lines(state_file: Path) -> list[list[str]]:
    lines = (state_file.read_text() + _changes(state_file)).splitlines()
    return [line.split() for line in lines if line.startswith(("gpu ", "gi ", "-gi ", "ci ", "-ci "))]
