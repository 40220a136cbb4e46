"""Whether a container that ended is started again. Pure.

Source: Kubernetes 1.35, pkg/api/v1/pod/util.go (ContainerShouldRestart) and kuberuntime_manager.go.
"""

from __future__ import annotations

from typing import Any

from tonnage.twin.kubelet.slots import Slot
from tonnage.wire.objects import Container, Pod


def starts_again(pod: Pod, container: Container, exit_code: int) -> bool:
    """By the container's rules, then its own policy, then the pod's."""
    if container.restart_policy:
        if any(_matches(rule, exit_code) for rule in container.restart_policy_rules):
            return True
        return _by_policy(container.restart_policy, exit_code)
    return _by_policy(pod.spec.restart_policy, exit_code)


def wanted_again(pod: Pod, slot: Slot, exit_code: int) -> bool:
    """By what the container is for, then by its rules and policies."""
    if slot.part == "ephemeralContainers":
        return False
    if slot.part == "initContainers" and not slot.sidecar and not exit_code:
        return False
    return starts_again(pod, slot.container, exit_code)


def starts_again_when_killed(pod: Pod, container: Container) -> bool:
    """Whether what failed a probe is wanted again: no exit code is asked for."""
    return (container.restart_policy or pod.spec.restart_policy) != "Never"


def _by_policy(policy: str, exit_code: int) -> bool:
    return policy not in {"Never", "OnFailure"} or (policy == "OnFailure" and exit_code != 0)


def _matches(rule: dict[str, Any], exit_code: int) -> bool:
    match rule:
        case {"action": "Restart", "exitCodes": {"operator": "In", "values": list(values)}}:
            return exit_code in values
        case {"action": "Restart", "exitCodes": {"operator": "NotIn", "values": list(values)}}:
            return exit_code not in values
    return False
