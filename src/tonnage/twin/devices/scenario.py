"""Pretended devices out of a small file that may change at any time."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from tonnage.documents.hardware import Hardware, HardwareDevice
from tonnage.documents.yaml.reader import MAX_BYTES
from tonnage.documents.yaml.source import parse_document
from tonnage.model.actions.devices import DeviceAction, SetComputeMode, SetTimeSlice
from tonnage.model.catalog.gpus import GpuModel, gpu_models
from tonnage.model.catalog.mig import device_mib, mig_model
from tonnage.model.devices.health import RecoveryAction
from tonnage.model.devices.inventory import (
    ComputeMode,
    Device,
    GpuProcess,
    Inventory,
    MigDevice,
    RawEvent,
    RawEventKind,
    Sample,
    TimeSlice,
    Vitals,
)
from tonnage.model.devices.links import NVSWITCH, PCI_WORDS, Link
from tonnage.model.errors import ConfigError, HardwareError, Problem, not_utf8, words_of
from tonnage.model.json import parsed_json
from tonnage.model.mig.layouts import DividedGpu
from tonnage.model.mig.profile_names import parse_profile
from tonnage.ports.clock import Clock
from tonnage.twin.devices.bounded_files import bounded_bytes
from tonnage.twin.devices.load.load_file import LoadRun
from tonnage.twin.devices.load.readings import DeviceLoads
from tonnage.twin.devices.scenario_mig import ScenarioLayout, ScenarioLayouts, part_name
from tonnage.twin.devices.scenario_readings import nvlinks_of, samples_of
from tonnage.twin.devices.scenario_sizes import profile_sizes

_POLL_S: Final = 0.2
_LEVELS: Final = {word: level for level, word in PCI_WORDS.items()}
_REASONS: Final = {"healthy": "", "unhealthy": "unhealthy", "lost": "GPU is lost", "hung": "does not answer"}


class GpuSettings(NamedTuple):
    """Of GPUs by uuid, the driver's default left out."""

    modes: dict[str, ComputeMode]
    slices: dict[str, TimeSlice]


class ScenarioBackend:
    """A DeviceBackend over `documents.hardware`; the file is read again whenever it changed."""

    def __init__(self, file: Path, clock: Clock) -> None:
        self._file = file
        self._modes = file.with_name(f"{file.name}.modes")
        self._layouts = ScenarioLayouts(file.with_name(f"{file.name}.mig"))
        self._loads = DeviceLoads(file.with_name(f"{file.name}.load"))
        self._clock = clock
        self._last_identity: bytes | None = None
        """The file as `events` knows it: a later scan must not hide from it what befell meanwhile."""
        self._reported: dict[str, tuple[int, ...]] | None = None
        """The errors of each device that are no news any more; None before the first scan."""
        self._last_read: tuple[str, Hardware] | None = None

    async def scan(self) -> Inventory:
        if self._last_identity is None:
            self._last_identity = self._identity()
        hardware = self._read()
        if self._reported is None:
            self._reported = {entry.uuid: entry.xids for entry in hardware.devices}
        return inventory_of(hardware, self._layouts.read(hardware))

    async def events(self) -> AsyncIterator[RawEvent]:
        while True:
            await self._clock.sleep(_POLL_S)
            now = self._identity()
            if now != self._last_identity:
                self._last_identity = now
                for event in self._news():
                    yield event
                yield RawEvent(RawEventKind.CHANGED)

    async def sample(self, fields: Collection[str]) -> tuple[Sample, ...]:
        hardware, modes = self._read(), self.settings().modes
        layouts, now_s = self._layouts.read(hardware), self._clock.now().timestamp()
        samples: list[Sample] = []
        for entry, index in hardware.indexed():
            if entry.health in ("lost", "hung"):
                continue
            device = _device(entry, index, layouts.get(entry.uuid))
            load = self._loads.of(hardware, device, entry.temperature_c, now_s)
            mode = modes.get(entry.uuid, ComputeMode.DEFAULT)
            samples += samples_of(hardware, entry, device, mode, load, fields)
        return tuple(samples)

    def start_load(self) -> None:
        """The node has booted: from here on its devices count energy."""
        self._loads.start(self._read().boot, self._clock.now().timestamp())

    def begin_load(self, run: LoadRun) -> None:
        """A workload begins to run on the devices that it names."""
        hardware = self._read()
        self._loads.begin(hardware, self._devices(hardware), run, self._clock.now().timestamp())

    def finish_load(self, key: str) -> None:
        """A workload has ended."""
        hardware = self._read()
        self._loads.finish(hardware, self._devices(hardware), key, self._clock.now().timestamp())

    def _devices(self, hardware: Hardware) -> tuple[Device, ...]:
        return inventory_of(hardware, self._layouts.read(hardware)).devices

    async def processes(self) -> tuple[GpuProcess, ...]:
        now_us = int(self._clock.now().timestamp() * 1e6)
        return tuple(
            GpuProcess(
                *(entry.uuid, process.pid, process.memory_mib, process.gpu_instance),
                *(process.utilization_percent, now_us, process.mps),
            )
            for entry in self._read().devices
            if entry.health not in ("lost", "hung")
            for process in entry.processes
        )

    async def apply(self, step: DeviceAction) -> None:
        hardware = self._read()
        entry = next((device for device in hardware.devices if device.uuid == step.uuid), None)
        if entry is None or entry.health in ("lost", "hung"):
            why = "no such device" if entry is None else _REASONS[entry.health]
            subjects = {SetComputeMode: "the compute mode", SetTimeSlice: "the time slice"}
            subject = subjects.get(type(step), "the MIG layout")
            raise HardwareError(Problem(f"{subject} of {step.uuid} cannot be set", str(self._file), why))
        modes, slices = self.settings()
        if isinstance(step, SetComputeMode):
            modes[step.uuid] = step.mode
        elif isinstance(step, SetTimeSlice):
            slices[step.uuid] = step.interval
        else:
            self._layouts.take(hardware, step)
            return
        if (modes, slices) != self.settings():
            fresh = self._modes.with_name(f".{self._modes.name}.new")
            stored = {"boot": hardware.boot, "modes": modes, "slices": slices}
            fresh.write_text(json.dumps(stored), encoding="utf-8")
            fresh.replace(self._modes)

    async def divided(self) -> tuple[DividedGpu, ...]:
        hardware = self._read()
        layouts = self._layouts.read(hardware)
        return tuple(
            layouts[entry.uuid].gpu(index, gpu_models()[entry.model])
            for entry, index in hardware.indexed()
            if entry.uuid in layouts and entry.health not in ("lost", "hung")
        )

    def settings(self) -> GpuSettings:
        """What was set since the pretended boot: a driver outlives agents."""
        return GpuSettings(
            {uuid: ComputeMode(mode) for uuid, mode in self._set_since_boot("modes").items()},
            {uuid: TimeSlice(number) for uuid, number in self._set_since_boot("slices").items()},
        )

    def _set_since_boot(self, key: str) -> dict[str, int]:
        kinds = {"modes": ComputeMode, "slices": TimeSlice}
        try:
            stored: Any = parsed_json(bounded_bytes(self._modes, MAX_BYTES))
            numbers = {str(uuid): int(kinds[key](number)) for uuid, number in stored.get(key, {}).items()}
            boot = stored["boot"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):  # not what `apply` writes
            return {}
        return numbers if boot == self._read().boot else {}

    def stuck_s(self) -> float:
        return 0.0

    async def close(self) -> None:
        """Nothing to let go of."""

    def _news(self) -> tuple[RawEvent, ...]:
        """The errors that devices have reported since; of a file that cannot be read the next scan tells."""
        try:
            devices = self._read().devices
        except (HardwareError, ConfigError):
            return ()
        before, self._reported = self._reported or {}, {entry.uuid: entry.xids for entry in devices}
        events: list[RawEvent] = []
        for entry in devices:
            old = before.get(entry.uuid, ())
            new = entry.xids[len(old) :] if entry.xids[: len(old)] == old else entry.xids
            events += (RawEvent(RawEventKind.XID, entry.uuid, code) for code in new)
        return tuple(events)

    def _identity(self) -> bytes:
        """What the file says; its content rather than its times, which a fast writer may leave equal."""
        try:
            content = bounded_bytes(self._file, MAX_BYTES)
        except OSError as error:
            return str(error.errno).encode()
        return content + self._layouts.bytes()

    def _read(self) -> Hardware:
        try:
            with self._file.open("rb") as stream:
                text = stream.read(MAX_BYTES + 1).decode("utf-8")
        except UnicodeDecodeError as error:
            raise HardwareError(not_utf8(error, str(self._file))) from None
        except OSError as error:
            raise HardwareError(
                Problem("the scenario's devices cannot be read", str(self._file), words_of(error))
            ) from None
        if self._last_read is None or self._last_read[0] != text:
            self._last_read = text, parse_document(text, Hardware, source=str(self._file))
        return self._last_read[1]


def inventory_of(hardware: Hardware, layouts: Mapping[str, ScenarioLayout]) -> Inventory:
    """The devices of a file, divided as `layouts` say by uuid."""
    fabric = hardware.fabric or ""
    return Inventory(
        tuple(_device(entry, index, layouts.get(entry.uuid), fabric) for entry, index in hardware.indexed()),
        hardware.driver_version,
        hardware.cuda_version,
        links=tuple(_links(hardware)),
        vitals=tuple(_vitals(entry, nvlinks_of(hardware, index)) for entry, index in hardware.indexed()),
        incarnation=hardware.boot,
    )


def _links(hardware: Hardware) -> Iterator[Link]:
    """Those that the file gives; else NVLinks to the switches of the boards that the models come on."""
    uuids = {index: entry.uuid for entry, index in hardware.indexed()}
    for link in hardware.links:
        first, other = link.gpus
        level = _LEVELS[link.path] if link.path else None
        yield Link(uuids[first], uuids[other], link.nvlinks, level)
        yield Link(uuids[other], uuids[first], link.nvlinks, level)
    if not hardware.links:
        for entry, _ in hardware.indexed():
            if count := gpu_models()[entry.model].nvswitch_links:
                yield Link(entry.uuid, NVSWITCH, count)


def _device(entry: HardwareDevice, index: int, layout: ScenarioLayout | None, fabric: str = "") -> Device:
    model = gpu_models()[entry.model]
    reason = entry.reason or _REASONS[entry.health]
    return Device(
        uuid=entry.uuid,
        index=index,
        product=model.product,
        memory_mib=model.memory_mib,
        compute_capability=model.compute_capability,
        pci_bus_id=f"00000000:{index + 1:02X}:00.0",
        minor=index,
        numa_node=entry.numa,
        healthy=entry.health == "healthy",
        reason=reason if entry.health != "healthy" else "",
        mig_enabled=None if layout is None else layout.enabled,
        fabric=fabric if model.nvswitch_links else "",
        migs=() if layout is None else tuple(_parts(entry, model, layout)),
        profile_sizes=profile_sizes(model) if layout is not None else {},
    )


def _parts(entry: HardwareDevice, model: GpuModel, layout: ScenarioLayout) -> Iterator[MigDevice]:
    healthy = entry.health == "healthy"
    mig = mig_model(model.product)
    places = count()
    for instance in layout.instances:
        for compute in instance.computes:
            profile = part_name(instance, compute)
            name = parse_profile(profile)
            kind = mig.profiles.get(instance.profile) if mig is not None else None
            yield MigDevice(
                compute.uuid,
                next(places),
                profile,
                gpu_instance=instance.id,
                compute_instance=compute.id,
                memory_mib=device_mib(mig, model.key, model.memory_mib, name) if mig is not None else 0,
                placement=(instance.start, layout.sizes.get(instance.profile, 1)),
                gpu_slices=name.slices,
                compute_slices=compute.slices,
                healthy=healthy,
                reason="" if healthy else entry.reason or _REASONS[entry.health],
                profile_number=kind.number if kind is not None else None,
            )


def _vitals(entry: HardwareDevice, links: int) -> Vitals:
    if entry.health == "hung":
        return Vitals(entry.uuid, hangs=True)
    return Vitals(
        entry.uuid,
        uncorrected_errors=entry.ecc_uncorrected,
        remap_pending=entry.row_remap == "pending",
        remap_failed=entry.row_remap == "failed",
        recovery_action=RecoveryAction[entry.recovery_action.replace("-", "_").upper()],
        nvlinks_up=max(0, links - entry.nvlinks_down) if links else None,
        nvlink_errors=entry.nvlink_errors if links else None,
    )
