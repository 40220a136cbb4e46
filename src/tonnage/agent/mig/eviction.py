"""Asks pods to leave that use what a change of the MIG layout must destroy, by the eviction API."""

from __future__ import annotations

from tonnage.agent.context import AgentContext
from tonnage.decide.node.mig.obstacles import pod_ending, pod_not_evicted
from tonnage.loop.performer import Performer
from tonnage.model.actions.cluster import EvictPod
from tonnage.model.actions.subjects import pod_subject
from tonnage.model.errors import ApiError, ClusterError
from tonnage.model.kubernetes.well_known import MIRROR
from tonnage.model.reasons.gpu.mig import MigPodNotEvicted
from tonnage.ports.kubernetes import KubernetesReader
from tonnage.wire.kinds import POD
from tonnage.wire.objects import Pod


class PodEvictions:
    """Evicts pods of this node. Disruption budgets are the API server's to keep."""

    def __init__(self, context: AgentContext) -> None:
        self._node = context.node
        self._api = context.api
        self._performer = context.performer
        self._events = context.events

    async def evict(self, namespace: str, name: str) -> MigPodNotEvicted | None:
        """None: it is evicted; or why not, as `ask_to_leave`."""
        if self._api is None or not namespace or not name:
            return pod_not_evicted(namespace, name, "Tonnage does not know its pod")
        refusal = await ask_to_leave(self._api, self._performer, self._node, namespace, name)
        if refusal is None:
            self._events.post("Normal", "MigPodEvicted", f"{namespace}/{name} blocks the MIG layout")
        return refusal


async def ask_to_leave(
    api: KubernetesReader,
    performer: Performer,
    node: str,
    namespace: str,
    name: str,
    *,
    dry_run: bool = False,
) -> MigPodNotEvicted | None:
    """Evict a pod of the node. None: it is; or why it is not, or need not be. A dry run changes nothing."""
    try:
        reading = api.list(POD, namespace=namespace, field_selector=f"metadata.name={name}")
        pods, sight = await performer.look(pod_subject(namespace, name), reading)
        pod = next((pod for pod in pods.items if pod.metadata.name == name), None)
        if pod is None or pod.spec.node_name != node:
            return pod_not_evicted(namespace, name, "this node has no such pod")
        if pod.metadata.deletion_timestamp:
            return pod_ending(namespace, name)
        if why := _left_alone(pod):
            return pod_not_evicted(namespace, name, why)
        await performer.perform(EvictPod(namespace, name, pod.metadata.uid, dry_run), sight)
    except ApiError as error:
        return pod_not_evicted(namespace, name, error.message)
    except ClusterError as error:
        why = error.problems[0].what if error.problems else "no answer"
        return pod_not_evicted(namespace, name, why)
    return None


def _left_alone(pod: Pod) -> str:
    """Why nothing is asked of a pod; empty: it is."""
    if MIRROR in pod.metadata.annotations:
        return "it is a static pod"
    if any(owner.controller and owner.kind == "DaemonSet" for owner in pod.metadata.owner_references):
        return "its DaemonSet would bring it back"
    return ""
