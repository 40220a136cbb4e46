"""The pods that a node's upgrade waits for, and their eviction."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tonnage.controller.context import ControllerContext
from tonnage.decide.cluster.operate.drivers.node_upgrade import LeavingPod, UpgradingNode
from tonnage.decide.cluster.operate.drivers.states import SKIP_DRAIN_LABEL, UpgradeState
from tonnage.model.actions.cluster import EvictPod
from tonnage.model.actions.subjects import pod_subject
from tonnage.model.drivers.policy import DrainLimits, UpgradePolicy
from tonnage.model.errors import ApiError
from tonnage.model.kubernetes.well_known import MIRROR
from tonnage.reading.driver_policy import keeps_files, uses_gpu
from tonnage.wire.kinds import POD
from tonnage.wire.objects import Pod

_ENDED: Final = ("Succeeded", "Failed")


class LeavingPods:
    """Reads a node's pods when its upgrade is about them: a copy of all pods would be large, and late."""

    def __init__(self, context: ControllerContext) -> None:
        self._api = context.api
        self._performer = context.performer

    async def of(self, member: UpgradingNode, policy: UpgradePolicy) -> UpgradingNode:
        """The node with the pods that its state is about."""
        match member.state:
            case UpgradeState.JOBS if policy.jobs:
                pods = [_leaving(pod, "") for pod in await self._on(member, policy.jobs)]
            case UpgradeState.POD_DELETION:
                users = [pod for pod in await self._on(member, "") if uses_gpu(pod)]
                pods = [_leaving(pod, _stays(pod, policy.pod_deletion)) for pod in users]
            case UpgradeState.DRAIN:
                limits = policy.drain or DrainLimits()
                all_pods = await self._on(member, limits.selector)
                drained = [pod for pod in all_pods if pod.metadata.labels.get(SKIP_DRAIN_LABEL) != "true"]
                pods = [_leaving(pod, _stays(pod, limits)) for pod in drained]
            case _:
                return member
        return replace(member, leaving=tuple(pods))

    async def _on(self, member: UpgradingNode, selector: str) -> list[Pod]:
        """The node's pods that run or will, but for those that nobody can make leave."""
        on_node = f"spec.nodeName={member.node.name}"
        listing = await self._api.list(POD, label_selector=selector, field_selector=on_node)
        return [
            pod
            for pod in listing.items
            if pod.status.phase not in _ENDED
            and MIRROR not in pod.metadata.annotations
            and not any(
                owner.controller and owner.kind == "DaemonSet" for owner in pod.metadata.owner_references
            )
        ]

    async def evict(self, namespace: str, name: str) -> str:
        """Ask a pod to leave; why it does not. Disruption budgets are the API server's to keep."""
        try:
            reading = self._api.list(POD, namespace=namespace, field_selector=f"metadata.name={name}")
            pods, sight = await self._performer.look(pod_subject(namespace, name), reading)
            pod = next((pod for pod in pods.items if pod.metadata.name == name), None)
            if pod is not None and pod.metadata.deletion_timestamp is None:
                await self._performer.perform(EvictPod(namespace, name, pod.metadata.uid), sight)
        except ApiError as error:
            return "" if error.code == 404 else error.message[:300]
        return ""


def _leaving(pod: Pod, stays: str) -> LeavingPod:
    metadata = pod.metadata
    return LeavingPod(metadata.namespace, metadata.name, stays, metadata.deletion_timestamp is not None)


def _stays(pod: Pod, limits: DrainLimits) -> str:
    """Why a pod may not be evicted, as `kubectl drain` has it."""
    if pod.metadata.deletion_timestamp is not None:
        return ""
    if not limits.force and not any(owner.controller for owner in pod.metadata.owner_references):
        return "no controller would make it anew; delete it, or set force"
    if not limits.delete_empty_dir and keeps_files(pod):
        return "it has files in an emptyDir; delete it, or set deleteEmptyDir"
    return ""
