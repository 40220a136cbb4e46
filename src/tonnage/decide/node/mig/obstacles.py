"""Why a change of the MIG layout does not go on."""

from __future__ import annotations

from typing import Final

from tonnage.model.reasons.facts import MigUser
from tonnage.model.reasons.gpu.mig import (
    MigBoardResetNeeded,
    MigChangeRefused,
    MigDeviceInUse,
    MigForeignInstance,
    MigGpuGone,
    MigLayoutContested,
    MigNodeNotPaused,
    MigNodeNotRestarted,
    MigPodNotEvicted,
    MigRestartNeeded,
)

_MOST_NAMED: Final = 5


def gpu_gone(uuid: str) -> MigGpuGone:
    """The driver does not show a GPU of the change, or of its board."""
    message = f"{uuid} does not answer, or is lost: the driver does not show its MIG instances"
    return MigGpuGone(subject=f"GPU {uuid}", message=message, uuid=uuid)


def foreign_instance(uuid: str, profile: str, start: int) -> MigForeignInstance:
    """A reset would destroy somebody else's instance."""
    message = f"{profile} at {start} of {uuid} belongs to another program, and a reset would destroy it"
    return MigForeignInstance(subject=f"GPU {uuid}", message=message, uuid=uuid, profile=profile, start=start)


def device_in_use(users: tuple[MigUser, ...]) -> MigDeviceInUse:
    """Somebody uses what the change would destroy."""
    return MigDeviceInUse(subject="MIG layout", message="; ".join(map(str, users)), users=users)


def board_reset_needed(uuid: str, board: tuple[str, ...]) -> MigBoardResetNeeded:
    """A reset takes the whole `board` along."""
    message = f"{uuid} changes its MIG mode only by a reset together with {', '.join(board)}"
    return MigBoardResetNeeded(subject=f"GPU {uuid}", message=message, uuid=uuid, board=board)


def restart_needed(uuid: str) -> MigRestartNeeded:
    """No reset is known that brings the other mode."""
    message = f"{uuid} changes its MIG mode only by a reboot of the node"
    return MigRestartNeeded(subject=f"GPU {uuid}", message=message, uuid=uuid)


def change_refused(config: str, words: str) -> MigChangeRefused:
    """The driver, a hook, a service or a disk has said this to a change to the configuration."""
    return MigChangeRefused(subject=f"MIG configuration {config}", message=words)


def layout_contested(config: str) -> MigLayoutContested:
    """Many steps led nowhere."""
    message = "another program keeps changing the MIG layout of these GPUs"
    return MigLayoutContested(subject=f"MIG configuration {config}", message=message)


def not_restarted(message: str) -> MigNodeNotRestarted:
    """The node was told to restart."""
    return MigNodeNotRestarted(subject="MIG layout", message=message)


def pod_not_evicted(namespace: str, pod: str, why: str) -> MigPodNotEvicted:
    """The pod stays, for now."""
    return _pod_stays(namespace, pod, f"not evicted: {why}")


def pod_ending(namespace: str, pod: str) -> MigPodNotEvicted:
    """Nobody need evict the pod."""
    return _pod_stays(namespace, pod, "is ending")


def _pod_stays(namespace: str, pod: str, message: str) -> MigPodNotEvicted:
    subject = f"Pod {namespace}/{pod}"
    return MigPodNotEvicted(subject=subject, message=message, namespace=namespace, pod=pod)


def eviction_words(refusal: MigPodNotEvicted | None) -> str:
    """What came of an eviction."""
    return "evicted" if refusal is None else refusal.message


def node_not_paused(node: str, why: str) -> MigNodeNotPaused:
    """The Node cannot be written, or nobody knows what it is."""
    return MigNodeNotPaused(subject=f"Node {node}", message=f"nothing can be paused: {why}")


def paused_pods_stay(node: str, pods: tuple[str, ...], patience_s: float) -> MigNodeNotPaused:
    """Pods of what is paused have not ended in time."""
    named = ", ".join(pods[:_MOST_NAMED]) or "unknown, the API server does not answer"
    message = f"paused pods have not ended within {patience_s:.0f} s: {named}"
    return MigNodeNotPaused(subject=f"Node {node}", message=message, pods=pods)
