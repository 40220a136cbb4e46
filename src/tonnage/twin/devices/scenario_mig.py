"""MIG layouts of pretended devices: what was made of them since their file was written, kept beside it."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tonnage.documents.hardware import Hardware, HardwareDevice
from tonnage.documents.yaml.reader import MAX_BYTES
from tonnage.model.actions.devices import (
    CreateComputeInstance,
    CreateGpuInstance,
    DestroyComputeInstance,
    DestroyGpuInstance,
    MigStep,
    ResetGpu,
    SetMigMode,
)
from tonnage.model.catalog.gpus import GpuModel, gpu_models
from tonnage.model.catalog.mig import MigModel, mig_model
from tonnage.model.errors import HardwareError, Problem
from tonnage.model.json import parsed_json
from tonnage.model.mig.compute import compute_sizes, splits_for
from tonnage.model.mig.geometry import Spot, is_valid
from tonnage.model.mig.layouts import ComputeInstance, DividedGpu, GpuInstance
from tonnage.model.reasons.gpu.mig import MigLayoutReason
from tonnage.twin.devices.bounded_files import bounded_bytes

_UUIDS: Final = uuid.UUID("3f2b7a52-5d3c-5a0e-9a27-0c1d4f9e8b60")
"""Namespace of made-up uuids of MIG devices: the same place on a device always has the same."""


@dataclass(frozen=True, slots=True)
class ScenarioLayout:
    """How one device is divided; `sizes` are memory slices by profile. A mode may wait for a reset."""

    uuid: str
    enabled: bool
    pending: bool
    instances: tuple[GpuInstance, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)

    def gpu(self, index: int, model: GpuModel) -> DividedGpu:
        """As the port has it; nobody but kubelet's pods uses it."""
        made, product, device = self.instances, model.product, model.pci_device
        return DividedGpu(self.uuid, index, product, self.enabled, self.pending, made, device=device)


class ScenarioLayouts:
    """Layouts by device. Those of a file that says something else meanwhile, or of another boot, are void."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._configured: tuple[Hardware, dict[str, ScenarioLayout]] | None = None

    def bytes(self) -> bytes:
        """What was written last; empty for nothing."""
        try:
            return bounded_bytes(self._file, MAX_BYTES)
        except OSError:
            return b""

    def changed(self, hardware: Hardware) -> dict[str, ScenarioLayout]:
        """The layouts that are not the file's own."""
        try:
            return self._valid_layouts(parsed_json(self.bytes()), hardware)
        except (ValueError, KeyError, TypeError, AttributeError):  # not what `take` writes
            return {}

    @staticmethod
    def _valid_layouts(rows: Any, hardware: Hardware) -> dict[str, ScenarioLayout]:
        layouts: dict[str, ScenarioLayout] = {}
        for entry in hardware.devices:
            row, model = rows.get(entry.uuid), _model_of(entry)
            if model is not None and row is not None and row["basis"] == _basis(hardware, entry):
                instances = tuple(_instance(instance) for instance in row["instances"])
                modes = row["enabled"], row.get("pending", row["enabled"])
                layouts[entry.uuid] = ScenarioLayout(entry.uuid, *modes, instances, _sizes(model))
        return layouts

    def read(self, hardware: Hardware) -> dict[str, ScenarioLayout]:
        """The layout of every device that can be divided, unless its own in the file is impossible."""
        if self._configured is None or self._configured[0] is not hardware:
            self._configured = hardware, configured_layouts(hardware)
        return {**self._configured[1], **self.changed(hardware)}

    def take(self, hardware: Hardware, step: MigStep) -> None:
        """Take the step. Raises HardwareError: a driver would refuse it."""
        layouts = self.read(hardware)
        entry = next(device for device in hardware.devices if device.uuid == step.uuid)
        model = _model_of(entry)
        if model is None or step.uuid not in layouts:
            raise _refused(step, "it cannot be divided")
        changed = self.changed(hardware)
        if isinstance(step, ResetGpu):
            changed |= _reset(hardware, layouts, step)
        else:
            changed[step.uuid] = layout_after(layouts[step.uuid], model, step, waits=entry.mig_reset)
        devices = {device.uuid: device for device in hardware.devices}
        rows = {key: _row(layout, _basis(hardware, devices[key])) for key, layout in changed.items()}
        fresh = self._file.with_name(f".{self._file.name}.new")
        fresh.write_text(json.dumps(rows), encoding="utf-8")
        fresh.replace(self._file)


def configured_layouts(hardware: Hardware) -> dict[str, ScenarioLayout]:
    """The file's own layout of every device that can be divided, unless it is impossible."""
    models = ((entry, _model_of(entry)) for entry in hardware.devices)
    layouts = (_configured(entry, model) for entry, model in models if model)
    return {layout.uuid: layout for layout in layouts if layout is not None}


def part_uuid(device: str, place: int, profile: str) -> str:
    """The made-up uuid of a MIG device."""
    return f"MIG-{uuid.uuid5(_UUIDS, f'{device}/{place}/{profile}')}"


def part_name(instance: GpuInstance, compute: ComputeInstance) -> str:
    """The profile of a MIG device: with its compute slices where it has not all of them."""
    whole = compute.slices == _slices(instance.profile)
    return instance.profile if whole else f"{compute.slices}c.{instance.profile}"


def _slices(profile: str) -> int:
    return int(profile.partition("g.")[0])


def _model_of(entry: HardwareDevice) -> MigModel | None:
    return mig_model(gpu_models()[entry.model].product)


def _sizes(model: MigModel) -> dict[str, int]:
    return {name: profile.memory for name, profile in model.profiles.items()}


def _basis(hardware: Hardware, entry: HardwareDevice) -> list[Any]:
    return [hardware.boot, None if entry.mig is None else list(entry.mig)]


def _configured(entry: HardwareDevice, model: MigModel) -> ScenarioLayout | None:
    """The file's own layout: compute instances share GPU instances where they can; None: impossible."""
    profiles = entry.mig or ()
    splits = splits_for(Counter(profiles))
    if isinstance(splits, MigLayoutReason):
        return None
    places = {text: [n for n, other in enumerate(profiles) if other == text] for text in profiles}
    instances: list[GpuInstance] = []
    for name, instance_splits in splits.items():
        for split in instance_splits:
            texts = [f"{slices}c.{name}" for slices in split] or [name]
            parts = [(places[text].pop(0), text) for text in texts]
            computes = tuple(
                replace(_compute(entry.uuid, place, text), id=n) for n, (place, text) in enumerate(parts)
            )
            instances.append(GpuInstance(min(parts)[0], name, 0, computes))
    instances.sort(key=lambda instance: instance.id)
    starts = _starts(model, tuple(instance.profile for instance in instances))
    if starts is None:
        return None
    placed = tuple(replace(instance, start=start) for instance, start in zip(instances, starts, strict=True))
    enabled = entry.mig is not None
    return ScenarioLayout(entry.uuid, enabled, enabled, placed, _sizes(model))


def _starts(model: MigModel, names: tuple[str, ...], before: tuple[Spot, ...] = ()) -> tuple[int, ...] | None:
    """Where instances begin, each at the first slice that leaves room for the later ones; None: nowhere."""
    if not names:
        return ()
    profile = model.profiles.get(names[0])
    for start in profile.starts if profile is not None else ():
        spots = (*before, (names[0], start))
        if is_valid(model, spots) and (rest := _starts(model, names[1:], spots)) is not None:
            return (start, *rest)
    return None


def _compute(device: str, place: int, profile: str, number: int = 0) -> ComputeInstance:
    own = part_uuid(device, place, profile if not number else f"{profile}/{number}")
    return ComputeInstance(number, int(profile[0]), own)


def _reset(
    hardware: Hardware, layouts: Mapping[str, ScenarioLayout], step: ResetGpu
) -> dict[str, ScenarioLayout]:
    """What a reset makes of them: modes that waited take effect, and instances are gone."""
    models = {entry.uuid: gpu_models()[entry.model] for entry in hardware.devices}
    uuids = {step.uuid, *step.others}
    if not uuids <= layouts.keys():
        raise _refused(step, "Not Found")
    switched = {uuid for uuid, model in models.items() if model.nvswitch_links}
    if not hardware.links and uuids & switched and not switched <= uuids:
        raise _refused(step, "GPUs behind NVSwitches are reset together")
    return {uuid: replace(layouts[uuid], enabled=layouts[uuid].pending, instances=()) for uuid in uuids}


def layout_after(
    layout: ScenarioLayout, model: MigModel, step: MigStep, *, waits: bool = False
) -> ScenarioLayout:
    """The layout after the step. `waits`: another mode waits for a reset.

    Raises:
        HardwareError: a driver would refuse the step.
    """
    match step:
        case SetMigMode(_, enabled):
            if layout.instances:
                raise _refused(step, "In use by another client")
            return replace(layout, pending=enabled, enabled=layout.enabled if waits else enabled)
        case ResetGpu():
            raise AssertionError("one of several: see _reset")
        case CreateGpuInstance(_, profile, start):
            return _with_instance(layout, model, profile, start)
        case CreateComputeInstance(_, instance, slices):
            return _with_compute(layout, instance, slices)
        case DestroyComputeInstance(_, instance, compute):
            current = _current(layout, instance)
            left = tuple(other for other in current.computes if other.id != compute)
            return _with(layout, replace(current, computes=left))
        case DestroyGpuInstance(_, instance):
            if _current(layout, instance).computes:
                raise _refused(step, "In use by another client")
            left_over = tuple(other for other in layout.instances if other.id != instance.id)
            return replace(layout, instances=left_over)


def _with_instance(layout: ScenarioLayout, model: MigModel, name: str, start: int) -> ScenarioLayout:
    step = CreateGpuInstance(layout.uuid, name, start)
    profile = model.profiles.get(name)
    if not layout.enabled or profile is None or start not in profile.starts:
        raise _refused(step, "Not Supported" if profile is not None else "Invalid Argument")
    if not is_valid(model, [*((there.profile, there.start) for there in layout.instances), (name, start)]):
        raise _refused(step, "Insufficient Resources")
    number = next(n for n in range(64) if all(instance.id != n for instance in layout.instances))
    return replace(layout, instances=(*layout.instances, GpuInstance(number, name, start)))


def _with_compute(layout: ScenarioLayout, instance: GpuInstance, slices: int) -> ScenarioLayout:
    current = _current(layout, instance)
    step = CreateComputeInstance(layout.uuid, instance, slices)
    whole = _slices(current.profile)
    if slices != whole and slices not in compute_sizes(whole):
        raise _refused(step, "Not Supported")
    if sum(current.slices) + slices > whole:
        raise _refused(step, "Insufficient Resources")
    number = next(n for n in range(8) if all(compute.id != n for compute in current.computes))
    name = current.profile if slices == whole else f"{slices}c.{current.profile}"
    made = replace(_compute(layout.uuid, current.id, name, number), slices=slices)
    return _with(layout, replace(current, computes=(*current.computes, made)))


def _current(layout: ScenarioLayout, instance: GpuInstance) -> GpuInstance:
    key = instance.id, instance.profile, instance.start
    for present in layout.instances:
        if (present.id, present.profile, present.start) == key:
            return present
    raise HardwareError(
        Problem(f"GPU instance {instance.id} of {layout.uuid} has been replaced or destroyed")
    )


def _with(layout: ScenarioLayout, instance: GpuInstance) -> ScenarioLayout:
    others = tuple(instance if present.id == instance.id else present for present in layout.instances)
    return replace(layout, instances=others)


def _refused(step: MigStep, why: str) -> HardwareError:
    return HardwareError(Problem(f"{type(step).__name__} of {step.uuid} is refused", why=why))


def _row(layout: ScenarioLayout, basis: list[Any]) -> dict[str, Any]:
    instances = [
        [
            instance.id,
            instance.profile,
            instance.start,
            [[compute.id, compute.slices, compute.uuid] for compute in instance.computes],
        ]
        for instance in layout.instances
    ]
    return {"basis": basis, "enabled": layout.enabled, "pending": layout.pending, "instances": instances}


def _instance(row: Any) -> GpuInstance:
    computes = tuple(ComputeInstance(int(compute[0]), int(compute[1]), str(compute[2])) for compute in row[3])
    return GpuInstance(int(row[0]), str(row[1]), int(row[2]), computes)
