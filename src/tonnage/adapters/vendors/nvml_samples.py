"""Samples of GPUs and their MIG devices out of NVML, the fields asked for and no others. All may block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tonnage.adapters.vendors.nvml_fields import FieldPlan, plans_of, read_fields
from tonnage.adapters.vendors.nvml_reading import is_display, optional
from tonnage.adapters.vendors.platforms import is_integrated
from tonnage.model.devices.inventory import Sample

if TYPE_CHECKING:
    from tonnage.adapters.vendors.nvml_activity import ActivityReader


class SampleReader:
    """Reads one device after the other; what changes over time it remembers between two samples."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic

    @cached_property
    def _activity(self) -> ActivityReader:
        from tonnage.adapters.vendors.nvml_activity import ActivityReader  # for those who ask for GPM

        return ActivityReader(self._monotonic)

    def read(
        self, nvml: ModuleType, session: int, fields: tuple[str, ...], indices: Iterable[int]
    ) -> tuple[Sample, ...]:
        """Every device of those that can be read; what scan says about the others is the report."""
        whole, part = plans_of(fields)
        samples: list[Sample] = []
        handles: dict[str, Any] = {}
        for index in indices:
            identity = optional(nvml, partial(_identity, nvml, index))
            if identity is None:
                continue
            handle, uuid = identity
            handles[uuid] = handle
            samples.append(self._whole(nvml, session, handle, uuid, whole))
            if part:
                samples += self._parts(nvml, session, handle, part)
        if whole.metrics:
            self._activity.forget(nvml, {sample.uuid for sample in samples})
        if whole.peers:  # after all others: a pair with a GPU that hangs is never asked
            return tuple(replace(sample, peers=_peers(nvml, sample.uuid, handles)) for sample in samples)
        return tuple(samples)

    def _whole(self, nvml: ModuleType, session: int, handle: Any, uuid: str, plan: FieldPlan) -> Sample:
        def take(sample: Any) -> Any:
            return nvml.nvmlGpmSampleGet(handle, sample)

        metrics = [number for number, _ in plan.metrics]
        able = bool(metrics) and optional(nvml, partial(_has_gpm, nvml, handle))
        activity = self._activity.read(nvml, session, uuid, take, metrics) if able else {}
        return read_fields(nvml, handle, uuid, plan, activity)

    def _parts(self, nvml: ModuleType, session: int, parent: Any, plan: FieldPlan) -> Iterator[Sample]:
        """GPM measures a GPU instance: compute instances of one have the same activity."""
        mode = optional(nvml, lambda: nvml.nvmlDeviceGetMigMode(parent))
        count = optional(nvml, lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(parent)) if mode and mode[0] else 0
        metrics = [number for number, _ in plan.metrics]
        able = bool(metrics and count) and optional(nvml, partial(_has_gpm, nvml, parent))
        for index in range(count or 0):
            identity = optional(nvml, partial(_mig_identity, nvml, parent, index))
            if identity is None:
                continue
            handle, uuid = identity

            def take(sample: Any, handle: Any = handle) -> Any:
                return nvml.nvmlGpmMigSampleGet(parent, nvml.nvmlDeviceGetGpuInstanceId(handle), sample)

            activity = self._activity.read(nvml, session, uuid, take, metrics) if able else {}
            yield read_fields(nvml, handle, uuid, plan, activity)


def _identity(nvml: ModuleType, index: int) -> tuple[Any, str] | None:
    """Handle and UUID, None for what is no device of ours."""
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    uuid: str = nvml.nvmlDeviceGetUUID(handle)
    product: str = nvml.nvmlDeviceGetName(handle)
    return None if is_display(product) or is_integrated(product) else (handle, uuid)


def _mig_identity(nvml: ModuleType, parent: Any, index: int) -> tuple[Any, str]:
    handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, index)
    return handle, nvml.nvmlDeviceGetUUID(handle)


def _peers(nvml: ModuleType, uuid: str, handles: Mapping[str, Any]) -> Mapping[str, int]:
    """The status of NVLink to each other GPU that answered; nothing for a MIG device."""
    if uuid not in handles:
        return {}
    about = partial(nvml.nvmlDeviceGetP2PStatus, handles[uuid])
    answers = {
        other: optional(nvml, partial(about, handle, nvml.NVML_P2P_CAPS_INDEX_NVLINK))
        for other, handle in handles.items()
        if other != uuid
    }
    return {other: int(status) for other, status in answers.items() if status is not None}


def _has_gpm(nvml: ModuleType, handle: Any) -> bool:
    return bool(nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)
