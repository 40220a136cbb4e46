"""What is left of Tonnage in a Node once its agents and its controller are gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tonnage.decide.cluster.operate.operand_labels import OPERATOR_LABELS, PROBED
from tonnage.decide.cluster.operate.probe import PROBED_BOOT
from tonnage.model.adoption import NOTE
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.names import AGENTS_LABELS, MIG_REASON_ANNOTATION, MIG_STATE_LABEL, NVIDIA, VALIDATED
from tonnage.model.node.condition_report import AGENT_CONDITIONS
from tonnage.model.operands import PARTS_OFF

_OURS: Final = "tonnage.dev/"
_PREFIXES: Final = (f"{NVIDIA}/", _OURS, "feature.node.kubernetes.io/")
"""Of labels that agents publish; what else stands in their note is not theirs."""
_ANNOTATIONS: Final = (
    OPERATOR_LABELS,
    AGENTS_LABELS,
    PARTS_OFF,
    PROBED_BOOT,
    VALIDATED,
    MIG_REASON_ANNOTATION,
)


def left_metadata(labels: Mapping[str, str], annotations: Mapping[str, str], *, divides: bool) -> JsonObject:
    """The metadata to merge into the Node; empty: nothing of ours is left.

    `divides`: the agents divided GPUs, so that the state of their layouts is theirs.

    >>> left_metadata({"nvidia.com/gpu.count": "1"}, {AGENTS_LABELS: "nvidia.com/gpu.count"}, divides=False)
    {'labels': {'nvidia.com/gpu.count': None}, 'annotations': {'tonnage.dev/labels': None}}
    """
    published = [key for key in annotations.get(AGENTS_LABELS, "").split(",") if key.startswith(_PREFIXES)]
    gone = sorted(
        {key for key in (*published, PROBED, *((MIG_STATE_LABEL,) if divides else ())) if key in labels}
    )
    notes = [key for key in _ANNOTATIONS if key in annotations]
    parts: JsonObject = {"labels": dict.fromkeys(gone), "annotations": dict.fromkeys(notes)}
    return {key: part for key, part in parts.items() if part}


def left_conditions(types: Iterable[str]) -> JsonObject:
    """The strategic merge patch that takes the agents' conditions off a Node; empty: it has none.

    >>> left_conditions(["Ready", "MPSReady"])
    {'status': {'conditions': [{'$patch': 'delete', 'type': 'MPSReady'}]}}
    """
    gone: list[JsonValue] = [
        {"$patch": "delete", "type": kind} for kind in sorted(set(types) & set(AGENT_CONDITIONS))
    ]
    return {"status": {"conditions": gone}} if gone else {}


def is_adopted(annotations: Mapping[str, str]) -> bool:
    """Whether the node was taken over from NVIDIA's operator, and not given back."""
    return NOTE in annotations
