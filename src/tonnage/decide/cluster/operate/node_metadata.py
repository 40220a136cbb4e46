"""What the operator keeps in a Node's metadata, and takes away with the last ClusterPolicy."""

from __future__ import annotations

from collections.abc import Mapping

from tonnage.decide.cluster.operate.operand_labels import (
    OPERATOR_LABELS,
    PRESENT,
    PROBED,
    has_gpu,
    is_noted,
    label_changes,
    labels_set,
    parts_off,
)
from tonnage.decide.cluster.operate.probe import PROBED_BOOT
from tonnage.model.gpu_policy import GpuPolicy
from tonnage.model.json import JsonObject
from tonnage.model.json_access import mapping
from tonnage.model.names import NVIDIA, VALIDATED
from tonnage.model.operands import PARTS_OFF


def metadata_changes(
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    policy: GpuPolicy | None,
    *,
    devices: int | None,
    divided: bool = True,
) -> JsonObject:
    """What to merge into the Node's metadata; empty: nothing. Labels and the note of them are one write."""
    if policy is None:
        return _farewell(labels, annotations)
    changes = label_changes(labels, annotations, policy, devices=devices, divided=divided)
    gpu = has_gpu(labels, devices)
    off = parts_off(labels, policy) if gpu else "" if gpu is False else annotations.get(PARTS_OFF, "")
    own = labels_set(annotations)
    own -= {label for label, value in changes.items() if value is None}
    own |= {label for label, value in changes.items() if value is not None and is_noted(label)}
    values = {PARTS_OFF: off, OPERATOR_LABELS: _note(own)}
    notes: JsonObject = {
        key: value or None for key, value in values.items() if annotations.get(key, "") != value
    }
    return _metadata(dict(changes), notes)


def with_consequences(
    change: JsonObject,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    policy: GpuPolicy | None,
    *,
    devices: int | None,
    divided: bool = True,
) -> JsonObject:
    """A change of the Node's metadata with what follows from it, as one write in place of two."""
    labelled = _changed(labels, mapping(change, "labels"))
    annotated = _changed(annotations, mapping(change, "annotations"))
    more = metadata_changes(labelled, annotated, policy, devices=devices, divided=divided)
    parts = ("labels", "annotations")
    return {part: {**mapping(change, part), **mapping(more, part)} for part in parts}


def _changed(values: Mapping[str, str], change: JsonObject) -> dict[str, str]:
    merged = {**values, **change}
    return {key: value for key, value in merged.items() if isinstance(value, str)}


def _farewell(labels: Mapping[str, str], annotations: Mapping[str, str]) -> JsonObject:
    """Without a policy: an opt-out that a user wrote over one of our labels is the user's."""
    gone = [
        label
        for label in sorted(labels_set(annotations))
        if label in labels and (label == PRESENT or labels[label] != "false")
    ]
    gone += [PROBED] if PROBED in labels else []
    notes = [key for key in (OPERATOR_LABELS, PARTS_OFF, VALIDATED, PROBED_BOOT) if key in annotations]
    return _metadata(dict.fromkeys(gone), dict.fromkeys(notes))


def _metadata(labels: JsonObject, annotations: JsonObject) -> JsonObject:
    parts: JsonObject = {"labels": labels, "annotations": annotations}
    return {key: part for key, part in parts.items() if part}


def _note(labels: set[str]) -> str:
    return ",".join(sorted(label.removeprefix(f"{NVIDIA}/") for label in labels))
