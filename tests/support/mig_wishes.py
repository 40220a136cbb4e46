"""MIG layouts to make, and a node to make them on."""

from __future__ import annotations

from pathlib import Path

from support.mig_node import Machine
from tonnage.decide.node.mig.desired_layout import MigWish
from tonnage.model.actions.devices import CreateGpuInstance, MigStep
from tonnage.model.mig.layouts import MigEntry
from tonnage.twin.clock import VirtualClock
from tonnage.twin.devices.scenario import ScenarioBackend

BEFORE = "[1g.10gb, 1g.10gb, 3g.40gb]"
SMALL = {"1g.10gb": 7}
MIXED = {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}


def machine_of(folder: Path, clock: VirtualClock, devices: str) -> Machine:
    file = folder / "hardware.yaml"
    file.write_text(f"devices: {devices}\n")
    return Machine(ScenarioBackend(file, clock))


def made(counts: dict[str, int], *, devices: tuple[int, ...] | None = None) -> MigWish:
    return MigWish("mine", (MigEntry(devices, True, counts),))


def one_gpu(mig: str = BEFORE, model: str = "A100-80") -> str:
    return f"[{{uuid: GPU-0, model: {model}, mig: {mig}}}]"


def refuse_2g(step: MigStep) -> str:
    return "no resources" if isinstance(step, CreateGpuInstance) and step.profile == "2g.20gb" else ""


def refuse_nothing(_: MigStep) -> str:
    return ""


BOARD = "[{{uuid: GPU-0, model: A100-80, migReset: true, mig: {}}}, {{uuid: GPU-1, model: A100-80, mig: {}}}]"
