"""What the pretended driver knows, as typed values; `write` gives it to every process with the library."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Final, Literal

from tonnage.model.catalog.gpus import GpuModel, gpu_models
from tonnage.model.catalog.mig import device_mib, mig_model
from tonnage.model.mig.profile_names import parse_profile

SWITCH: Final = "switch"
EVERY: Final = "*"
XID: Final = 8
NO_INSTANCE: Final = 0xFFFFFFFF
_EVENT_TYPES: Final = 0xFF9F
"""All that nvidia-ml-py names, from single bit errors to recovery actions."""

_ARCHITECTURES: Final = {"turing": 6, "ampere": 7, "ada-lovelace": 8, "hopper": 9, "blackwell": 10}
_MULTIPROCESSORS: Final = {"7.5": 40, "8.0": 108, "8.9": 142, "9.0": 132, "10.0": 148}
_SLICE_MULTIPROCESSORS: Final = {"8.0": 14, "9.0": 16, "10.0": 18}
_NVLINK_VERSIONS: Final = {"8.0": 4, "9.0": 6, "10.0": 7}
PROFILES: Final = {"1g": 0, "2g": 1, "3g": 2, "4g": 3, "7g": 4, "1g+me": 7, "2g+me": 8, "1g.double": 9}
"""NVML's numbers of GPU instance profiles."""
NUMBERS: Final = (0, 7, 9, 1, 2, 3, 4)
"""The same in the catalogue's order of profiles on a board of seven slices."""
_AT_REST: Final = """
    vbios 96.00.74.00.01  part-number 900-21010-0000-000  pci-subsystem-id 0x10de  pci-class 0x0302
    memory-used-mib 0  memory-reserved-mib 512  bar1-mib 131072  bar1-used-mib 1
    gpu-utilization 0  memory-utilization 0  encoder-utilization 0  decoder-utilization 0
    temperature 35  temperature-slowdown 87  temperature-shutdown 92  energy-mj 0  performance-state 0
    clock-graphics 345  clock-sm 345  clock-memory 2619  clock-video 765  clock-reasons 1
    clock-max-graphics 1980  clock-max-sm 1980  clock-max-memory 2619  clock-max-video 1545
    ecc-mode 1  ecc-pending 1  remapped-corrected 0  remapped-uncorrected 0  remap-pending 0  remap-failure 0
    retired-pending 0  persistence 1  compute-mode 0  recovery-action 0
    pcie-generation 5  pcie-width 16  pcie-max-generation 5  pcie-max-width 16
    pcie-replays 0  pcie-tx-kib-s 0  pcie-rx-kib-s 0
    memory-temperature 40  row-banks-max 640  sram-threshold 0  inforom 2.1  inforom-image G520.0200.00.05
    inforom-checksum 2748  inforom-corrupt 0  clock-application-graphics 1980  clock-application-memory 2619
    temperature-margin 52  memory-unrepairable 0  confidential 0  virtual-mode 0
"""
"""Words and values of a GPU that nobody uses."""
_SLICES: Final = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}
"""NVML's numbers of compute instance profiles."""


@dataclass(frozen=True, slots=True)
class FakeMig:
    """A GPU instance and one compute instance of it that takes `slices` (all of them unless given)."""

    profile: str
    start: int
    gi: int
    ci: int = 0
    slices: int = 0
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class FakeGpu:
    """A GPU in a slot; what is not given follows from the catalogue's model and the slot.

    `facts` are further words of the state file (`tests/support/nvml/state.h`), or other values for them.
    """

    slot: int
    model: str = "H100-80"
    uuid: str = ""
    numa: int | None = 0
    minor: int | None = None
    lost: bool = False
    mig_enabled: bool = False
    migs: tuple[FakeMig, ...] = ()
    facts: Mapping[str, int | str] = field(default_factory=dict)

    @property
    def catalogue(self) -> GpuModel:
        return gpu_models()[self.model]

    @property
    def identity(self) -> str:
        """The uuid, in NVML's form when none is given."""
        return self.uuid or f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, f'{self.model}/{self.slot}')}"

    @property
    def minor_number(self) -> int:
        return self.slot if self.minor is None else self.minor

    @property
    def pci_bus_id(self) -> str:
        return str(self.facts.get("pci-bus-id", f"00000000:{self.slot + 1:02X}:00.0"))

    def mig_uuid(self, mig: FakeMig) -> str:
        name = f"{self.identity}/{mig.gi}/{mig.ci}"
        return mig.uuid or f"MIG-{uuid.uuid5(uuid.NAMESPACE_OID, name)}"


@dataclass(frozen=True, slots=True)
class FakeLink:
    """One end of an NVLink: link number `link` of `slot` leads to another slot, a switch or a bus id."""

    slot: int
    link: int
    peer: int | str
    active: bool = True


@dataclass(frozen=True, slots=True)
class FakeEvent:
    """An event; the queue's order is by sequence, and a process hears those after its registration."""

    sequence: int
    slot: int
    data: int
    kind: int = XID
    gi: int = NO_INSTANCE
    ci: int = NO_INSTANCE


@dataclass(frozen=True, slots=True)
class FakeProcess:
    """Somebody who uses a GPU, or a MIG device of it."""

    slot: int
    pid: int
    memory_mib: int = 0
    gi: int = NO_INSTANCE
    ci: int = NO_INSTANCE
    kind: Literal["compute", "graphics", "mps"] = "compute"


@dataclass(frozen=True, slots=True)
class FakeUse:
    """A reading of what a process had of a GPU's multiprocessors, in percent."""

    slot: int
    pid: int
    percent: int
    at_us: int


@dataclass(frozen=True, slots=True)
class Rule:
    """What a call of a function does instead of answering at once; for one slot, or any of them.

    `error`: NVML's code; `slow`: microseconds; `hang`: until the rule is gone.
    """

    deed: Literal["error", "slow", "hang"]
    function: str = EVERY
    slot: int | None = None
    value: int = 0


@dataclass(frozen=True, slots=True)
class DriverState:
    """A driver and its GPUs. `levels` are NVML's topology levels of pairs, both ways alike."""

    gpus: tuple[FakeGpu, ...] = ()
    driver_version: str = "570.124.06"
    cuda_version: str = "12.8"
    links: tuple[FakeLink, ...] = ()
    levels: Mapping[tuple[int, int], int] = field(default_factory=dict)
    no_peer_access: frozenset[tuple[int, int]] = frozenset()
    rules: tuple[Rule, ...] = ()
    events: tuple[FakeEvent, ...] = ()
    processes: tuple[FakeProcess, ...] = ()
    uses: tuple[FakeUse, ...] = ()
    fields: Mapping[tuple[int, int], float] = field(default_factory=dict)
    metrics: Mapping[tuple[int, int], float] = field(default_factory=dict)
    counted_at_init: bool = False
    calls_file: Path | None = None

    def gpu(self, slot: int) -> FakeGpu:
        return next(gpu for gpu in self.gpus if gpu.slot == slot)

    def with_gpu(self, gpu: FakeGpu) -> DriverState:
        """The same with this GPU in its slot, whatever was there."""
        others = (other for other in self.gpus if other.slot != gpu.slot)
        return replace(self, gpus=tuple(sorted((*others, gpu), key=lambda each: each.slot)))

    def without(self, slot: int) -> DriverState:
        """The same with that slot empty."""
        return replace(self, gpus=tuple(gpu for gpu in self.gpus if gpu.slot != slot))

    def text(self) -> str:
        return "".join(f"{line}\n" for line in _lines(self))

    def write(self, file: Path) -> None:
        """Replace the file at once; a process that has the library sees it at its next call."""
        made = file.with_name(f".{file.name}.{os.getpid()}")
        made.write_text(self.text(), encoding="utf-8")
        made.chmod(0o644)
        made.replace(file)


def h100_node(count: int = 8) -> DriverState:
    """GPUs of one kind behind NVSwitches, half of them near each NUMA node."""
    gpus = tuple(FakeGpu(slot, numa=slot * 2 // count) for slot in range(count))
    return DriverState(gpus, links=switched(range(count)))


def switched(slots: Iterable[int], per_gpu: int = 18) -> tuple[FakeLink, ...]:
    """Links of every GPU to NVSwitches."""
    return tuple(FakeLink(slot, link, SWITCH) for slot in slots for link in range(per_gpu))


def linked(pairs: Mapping[tuple[int, int], int]) -> tuple[FakeLink, ...]:
    """Direct links, so many for each pair; each GPU's links are numbered from 0."""
    links: list[FakeLink] = []
    used: dict[int, int] = {}
    for (one, other), count in pairs.items():
        for slot, peer in ((one, other), (other, one)):
            first = used.get(slot, 0)
            links += (FakeLink(slot, first + i, peer) for i in range(count))
            used[slot] = first + count
    return tuple(links)


def all_pairs(slots: Iterable[int], count: int) -> dict[tuple[int, int], int]:
    """The same number of links between any two."""
    return dict.fromkeys(combinations(slots, 2), count)


def _lines(state: DriverState) -> Iterator[str]:
    major, minor = map(int, state.cuda_version.split("."))
    yield f"driver {state.driver_version}"
    yield f"nvml {major}.{state.driver_version}"
    yield f"cuda {major * 1000 + minor * 10}"
    if state.counted_at_init:
        yield "count at-init"
    if state.calls_file is not None:
        yield f"calls {state.calls_file}"
    for gpu in state.gpus:
        yield from (f"gpu {gpu.slot} {word} {value}" for word, value in _facts(gpu).items())
        yield from _instance_memory(gpu)
        yield from _instances(gpu)
    for link in state.links:
        yield f"link {link.slot} {link.link} {'up' if link.active else 'down'} {link.peer}"
    for (one, other), level in state.levels.items():
        yield f"level {one} {other} {level}"
        yield f"level {other} {one} {level}"
    yield from (f"no-peer-access {one} {other}" for one, other in sorted(state.no_peer_access))
    for rule in state.rules:
        yield f"{rule.deed} {rule.function} {EVERY if rule.slot is None else rule.slot} {rule.value}"
    for event in state.events:
        yield f"event {event.sequence} {event.slot} {event.kind} {event.data} {event.gi} {event.ci}"
    for process in state.processes:
        who = f"{process.slot} {process.pid} {process.memory_mib << 20} {process.gi} {process.ci}"
        yield f"process {who} {process.kind}"
    for use in state.uses:
        yield f"use {use.slot} {use.pid} {use.percent} {use.at_us}"
    for word, numbers in (("field", state.fields), ("metric", state.metrics)):
        yield from (f"{word} {slot} {number} {value:.6f}" for (slot, number), value in numbers.items())


def _facts(gpu: FakeGpu) -> dict[str, int | str]:
    model, slot = gpu.catalogue, gpu.slot
    capability = model.compute_capability
    major, minor = map(int, capability.split("."))
    power_mw = model.power_limit_w * 1000
    at_rest = _AT_REST.split()
    facts: dict[str, int | str] = {
        **dict(zip(at_rest[::2], at_rest[1::2], strict=True)),
        "uuid": gpu.identity,
        "name": model.product,
        "pci-bus-id": gpu.pci_bus_id,
        "minor": gpu.minor_number,
        "serial": f"16{slot:011d}",
        "memory-mib": model.memory_mib,
        "board-id": (slot + 1) << 8,
        "module-id": slot + 1,
        "pci-device-id": int(model.pci_device, 16) << 16 | 0x10DE,
        "architecture": _ARCHITECTURES[model.architecture],
        "brand": 2 if "Tesla" in model.product else 14,
        "capability-major": major,
        "capability-minor": minor,
        "power-mw": power_mw // 10,
        "power-limit-mw": power_mw,
        "power-default-mw": power_mw,
        "power-min-mw": power_mw // 4,
        "power-max-mw": power_mw,
        "event-types": _EVENT_TYPES,
        "multiprocessors": _MULTIPROCESSORS[capability],
        "gpm": int(major >= 9),
    }
    if gpu.numa is not None:
        facts["numa"] = gpu.numa
    if model.mig:
        facts |= {"mig-family": 1, "mig-mode": int(gpu.mig_enabled), "mig-pending": int(gpu.mig_enabled)}
        facts["slice-multiprocessors"] = _SLICE_MULTIPROCESSORS[capability]
        facts["mig-needs-reset"] = int(capability == "8.0")
    if capability in _NVLINK_VERSIONS:
        facts["nvlink-version"] = _NVLINK_VERSIONS[capability]
    if gpu.lost:
        facts["lost"] = 1
    return facts | dict(gpu.facts)


def _instance_memory(gpu: FakeGpu) -> Iterator[str]:
    """What GPU instances have of memory, by the catalogue; an unknown product is like an H100."""
    if not gpu.catalogue.mig:
        return
    facts = _facts(gpu)
    memory_mib = int(facts["memory-mib"])
    board = mig_model(str(facts["name"])) or mig_model(gpu.catalogue.product)
    assert board is not None
    key = gpu.model if memory_mib == gpu.catalogue.memory_mib else ""
    for name, number in zip(board.profiles, NUMBERS, strict=True):
        mib = device_mib(board, key, memory_mib, parse_profile(name))
        yield f"gi-mib {gpu.slot} {number} {mib}"


def _instances(gpu: FakeGpu) -> Iterator[str]:
    seen: set[int] = set()
    for mig in gpu.migs:
        if mig.gi not in seen:
            seen.add(mig.gi)
            yield f"gi {gpu.slot} {mig.gi} {PROFILES[mig.profile]} {mig.start}"
        profile = _SLICES[mig.slices or int(mig.profile[0])]
        yield f"ci {gpu.slot} {mig.gi} {mig.ci} {profile} {gpu.mig_uuid(mig)}"
