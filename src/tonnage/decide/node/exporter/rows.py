"""Rows of an entity: one, or one for each pod and for each job that has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tonnage.decide.node.exporter.holders import DeviceKey, Holders, device_key, only_holder
from tonnage.decide.node.exporter.labels import (
    HOLDER_NAMES,
    LabelOptions,
    Labels,
    RowLabels,
    entity_labels,
    holder_attributes,
    pod_label_names,
)
from tonnage.model.node.telemetry import Entity, HoldingContainer, PodIdentity, SwitchEntity

_NO_POD: Final = PodIdentity()
_RESERVED: Final = ("pod_uid", "vgpu", "hpc_job", "err_code", "err_msg")
"""Labels that some rows have; those that name a holder, and the fixed ones, each row has in its own way."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """Whose devices are. `pods` by namespace and name, with the labels that rows carry; `jobs` (HPC) by key.

    `each_holder`: a row for each holder of a shared device (dcgm-exporter: `--kubernetes-virtual-gpus`);
    else a shared device has no pod.
    """

    holders: Holders = field(default_factory=dict)
    pods: Mapping[tuple[str, str], PodIdentity] = field(default_factory=dict)
    jobs: Mapping[DeviceKey, Sequence[str]] = field(default_factory=dict)
    each_holder: bool = False


@dataclass(frozen=True, slots=True)
class EntityRow:
    """Labels of a row; `holder` is whose it is, None of nobody, or of several."""

    labels: RowLabels
    holder: HoldingContainer | None = None


@dataclass(frozen=True, slots=True)
class EntityRows:
    """Rows of an entity: `device` without any pod, and `rows`, which is what most families show.

    Of both there is one for each job.
    """

    device: tuple[EntityRow, ...]
    rows: tuple[EntityRow, ...]


def entity_rows(
    entity: Entity, readings: Labels, attribution: Attribution, options: LabelOptions
) -> EntityRows:
    """The rows of an entity; `readings` are its label counters."""
    fixed = entity_labels(entity, options)
    bare = RowLabels(fixed, readings, {})
    if isinstance(entity, SwitchEntity):
        return EntityRows((EntityRow(bare),), (EntityRow(bare),))
    key = device_key(entity)
    holders = attribution.holders.get(key, ())
    if not attribution.each_holder:
        only = only_holder(holders)
        holders = () if only is None else (only,)
    device: tuple[EntityRow, ...] = (EntityRow(bare),)
    rows = tuple(_held(bare, holder, attribution, options) for holder in holders) or device
    jobs = attribution.jobs.get(key, ())
    if jobs:
        device, rows = (tuple(_of_job(row, job) for row in some for job in jobs) for some in (device, rows))
    return EntityRows(device, rows)


def _held(
    bare: RowLabels, holder: HoldingContainer, attribution: Attribution, options: LabelOptions
) -> EntityRow:
    pod = attribution.pods.get((holder.namespace, holder.pod), _NO_POD)
    attributes = holder_attributes(holder, pod, options)
    fixed = (name for name, _ in bare.fixed)
    reserved = (*_RESERVED, *HOLDER_NAMES[options.old_namespace], *fixed, *bare.sorted_labels)
    labels = {**bare.sorted_labels, **pod_label_names(pod.labels, reserved)}
    return EntityRow(RowLabels(bare.fixed, labels, attributes), holder)


def _of_job(row: EntityRow, job: str) -> EntityRow:
    labels = row.labels
    attributes = {**labels.attributes, "hpc_job": job}
    return EntityRow(RowLabels(labels.fixed, labels.sorted_labels, attributes), row.holder)
