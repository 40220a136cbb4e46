"""What the operator keeps in a Node's metadata, and takes away with the last ClusterPolicy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.decide.cluster.operate.operand_labels import (
    PRESENT,
    PROBED,
    has_gpu,
    label_changes,
    parts_off,
)
from tonnage.decide.cluster.operate.probe import PROBED_BOOT
from tonnage.model.gpu_policy import GpuPolicy
from tonnage.model.json import JsonObject
from tonnage.model.names import NVIDIA, VALIDATED
from tonnage.model.operands import DEPLOY, PARTS_OFF

OPERATOR_LABELS: Final = "tonnage.dev/operator-labels"
"""Annotation of a Node: labels of NVIDIA's that the controller has set there, with commas."""


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
    changes = label_changes(labels, policy, devices=devices, divided=divided)
    off = parts_off(labels, policy) if has_gpu(labels, devices) else ""
    own = _own(annotations)
    own -= {label for label, value in changes.items() if value is None}
    own |= {label for label, value in changes.items() if value is not None and _is_kept(label)}
    values = {PARTS_OFF: off, OPERATOR_LABELS: _note(own)}
    notes: JsonObject = {
        key: value or None for key, value in values.items() if annotations.get(key, "") != value
    }
    return _metadata(dict(changes), notes)


def _farewell(labels: Mapping[str, str], annotations: Mapping[str, str]) -> JsonObject:
    """Without a policy: an opt-out that a user wrote over one of our labels is the user's."""
    gone = [
        label
        for label in sorted(_own(annotations))
        if label in labels and (label == PRESENT or labels[label] != "false")
    ]
    gone += [PROBED] if PROBED in labels else []
    notes = [key for key in (OPERATOR_LABELS, PARTS_OFF, VALIDATED, PROBED_BOOT) if key in annotations]
    return _metadata(dict.fromkeys(gone), dict.fromkeys(notes))


def _metadata(labels: JsonObject, annotations: JsonObject) -> JsonObject:
    parts: JsonObject = {"labels": labels, "annotations": annotations}
    return {key: part for key, part in parts.items() if part}


def _is_kept(label: str) -> bool:
    """A MIG layout that was asked for stays on the GPUs, and so does its label."""
    return label == PRESENT or label.startswith(DEPLOY)


def _own(annotations: Mapping[str, str]) -> set[str]:
    names = annotations.get(OPERATOR_LABELS, "").split(",")
    return {label for name in names if _is_kept(label := f"{NVIDIA}/{name}")}


def _note(labels: set[str]) -> str:
    return ",".join(sorted(label.removeprefix(f"{NVIDIA}/") for label in labels))
