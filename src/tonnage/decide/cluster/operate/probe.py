"""OPR-3: nodes that nobody has looked at: a pod reads class and vendor of their PCI devices, once a boot."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tonnage.decide.cluster.operate.node_pod import NodePodPlan, SeenPod
from tonnage.decide.cluster.operate.operand_labels import PROBED, has_gpu
from tonnage.model.gpu_policy import OperatedNode
from tonnage.model.json import JsonObject
from tonnage.model.names import AGENTS_LABELS

PROBE: Final = NodePodPlan(
    "tonnage-probe",
    "cli.node.pci_probe",
    {"requests": {"cpu": "1m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
)
PROBED_BOOT: Final = "tonnage.dev/probed-boot"
"""Annotation of a Node: the boot in which it was looked at."""
HAS_GPU: Final = 0
"""Exit status of the probe."""
HAS_NONE: Final = 4
_PATIENCE: Final = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """The Node's metadata to merge, if any, and whether the pod is to be made or to go."""

    metadata: JsonObject | None = None
    make_pod: bool = False
    delete_pod: bool = False


def probe_step(node: OperatedNode, probed_boot: str, pod: SeenPod | None, now: datetime) -> ProbeStep:
    """The next step. A node that discovery has looked at needs no probe, nor one whose agent reports devices.

    What an earlier probe said goes then: once they are gone, another tells whether the hardware is. Labels
    that an agent has published do not say that there is none: it leaves with the hardware, and they stay.
    """
    others = {key: value for key, value in node.labels.items() if key != PROBED}
    published = node.annotations.get(AGENTS_LABELS, "").split(",")
    discovered = {key: value for key, value in others.items() if key not in published}
    if has_gpu(others, node.devices) or has_gpu(discovered, None) is False:
        return ProbeStep(_without_answer(node, probed_boot), delete_pod=pod is not None)
    if pod is None:
        return ProbeStep(make_pod=bool(node.boot) and node.boot != probed_boot)
    if pod.ended:
        present = {HAS_GPU: "true", HAS_NONE: "false"}.get(pod.code if pod.code is not None else -1)
        return ProbeStep(_answer(node.boot, present), delete_pod=True)
    late = pod.created is not None and now - pod.created > _PATIENCE
    return ProbeStep(delete_pod=late)  # and then it is tried again


def _without_answer(node: OperatedNode, probed_boot: str) -> JsonObject | None:
    labels: JsonObject = {PROBED: None} if PROBED in node.labels else {}
    annotations: JsonObject = {PROBED_BOOT: None} if probed_boot else {}
    parts: JsonObject = {"labels": labels, "annotations": annotations}
    return {key: part for key, part in parts.items() if part} or None


def _answer(boot: str, present: str | None) -> JsonObject:
    """A probe that failed says nothing, and is not repeated in this boot."""
    labels: JsonObject = {} if present is None else {PROBED: present}
    return {"labels": labels, "annotations": {PROBED_BOOT: boot}}
