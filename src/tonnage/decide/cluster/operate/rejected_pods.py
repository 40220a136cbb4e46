"""Pods that kubelet rejected for devices that were not there yet, as after a reboot, once they are there.

Source: k8s.io/kubernetes/pkg/kubelet/lifecycle/predicate.go (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tonnage.decide.cluster.operate.node_readiness import readiness
from tonnage.decide.kubernetes.kubelet.device_admission import UNEXPECTED
from tonnage.model.gpu_policy import OperatedNode, RejectedPod
from tonnage.model.json import JsonObject

CONDITION: Final = "tonnage.dev/RejectedPods"
_REPLACING: Final = frozenset(("ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job"))
_SHOWN: Final = 20
_LONGEST: Final = 200


@dataclass(frozen=True, slots=True)
class RejectedPods:
    """Those that go, since another one takes their place, and those that only people can replace."""

    replaced: tuple[RejectedPod, ...] = ()
    bare: tuple[RejectedPod, ...] = ()


def rejected_pods(
    pods: Iterable[RejectedPod], nodes: Mapping[str, OperatedNode], now: datetime
) -> RejectedPods:
    """Of failed pods those that the device of their node would run now."""
    replaced: list[RejectedPod] = []
    bare: list[RejectedPod] = []
    ready: dict[str, bool] = {}
    for pod in sorted(pods, key=lambda pod: (pod.namespace, pod.name)):
        node = nodes.get(pod.node)
        if node is None or pod.leaving or not _is_for_devices(pod):
            continue
        if node.name not in ready:
            ready[node.name] = readiness(node, now, validated=False).waits_for is None
        offered = all(node.allocatable.get(name, 0) >= count for name, count in pod.devices.items())
        if ready[node.name] and offered:
            (replaced if pod.controller in _REPLACING else bare).append(pod)
    return RejectedPods(tuple(replaced), tuple(bare))


def _is_for_devices(pod: RejectedPod) -> bool:
    return bool(pod.devices) and (
        pod.reason == UNEXPECTED or pod.reason in {f"OutOf{name}" for name in pod.devices}
    )


def bare_pods_condition(bare: Iterable[RejectedPod]) -> JsonObject:
    """The pods that somebody has to make anew, by name."""
    lines = [_line(pod) for pod in bare]
    more = len(lines) - _SHOWN
    shown = [*lines[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]
    return {
        "type": CONDITION,
        "status": "True" if lines else "False",
        "reason": "PodsWithoutController" if lines else "None",
        "message": "\n".join(shown),
    }


def _line(pod: RejectedPod) -> str:
    why = f"{pod.reason}: {pod.message}" if pod.message else pod.reason
    owner = f"{pod.controller} may make no other" if pod.controller else "no controller makes another"
    return (
        f"{pod.namespace}/{pod.name} on {pod.node}: kubelet rejected it ({why[:_LONGEST]}) and {owner};"
        f" the devices are there now: delete it and create it again"
    )
