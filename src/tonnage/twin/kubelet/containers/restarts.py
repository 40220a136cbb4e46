"""ShouldContainerBeRestarted: whether a container that ended is started again. Pure.

Source: Kubernetes 1.35, kuberuntime_manager.go.
"""

from __future__ import annotations

from tonnage.decide.kubernetes.kubelet import restarts
from tonnage.twin.kubelet.containers.container_records import ContainerSlot
from tonnage.wire.objects import Container, Pod


def starts_again(pod: Pod, container: Container, exit_code: int) -> bool:
    """By the container's rules, then its own policy, then the pod's."""
    own, rules = container.restart_policy, container.restart_policy_rules
    return restarts.starts_again(own, rules, pod.spec.restart_policy, exit_code)


def wanted_again(pod: Pod, slot: ContainerSlot, exit_code: int) -> bool:
    """By what the container is for, then by its rules and policies."""
    if slot.part == "ephemeralContainers":
        return False
    if slot.part == "initContainers" and not slot.sidecar and not exit_code:
        return False
    return starts_again(pod, slot.container, exit_code)


def starts_again_when_killed(pod: Pod, container: Container) -> bool:
    """Whether what failed a probe is wanted again: no exit code is asked for."""
    return (container.restart_policy or pod.spec.restart_policy) != "Never"
