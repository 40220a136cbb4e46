"""Validation of nodes: a pod tries a device of each, and NodeGPUStatus says what came of it."""

from __future__ import annotations

from typing import Any, Final

from tonnage.controller.context import ControllerWorld
from tonnage.decide.cluster.operate.operand_labels import DEPLOY, has_gpu
from tonnage.decide.cluster.operate.policy_status import in_force
from tonnage.decide.cluster.operate.validation import (
    APP,
    OF_NODE,
    ValidationStep,
    WorkloadPod,
    pod_name,
    validation_json,
    validation_step,
    workload_pod,
)
from tonnage.loop.informer import Informer, Key
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.actions.cluster import ApplyObject, ApplyValidation, DeleteObject, PatchNode
from tonnage.model.errors import ApiError
from tonnage.model.gpu_policy import GpuPolicy, OperatedNode
from tonnage.model.json import JsonObject
from tonnage.model.names import VALIDATED
from tonnage.model.validation import NodeValidation, Outcome, Stage, StageResult
from tonnage.reading.gpu_policy import gpu_policy_from, operated_node_from
from tonnage.reading.object_parts import moment
from tonnage.wire.kinds import CLUSTER_POLICY, NODE, NODE_GPU_STATUS, POD
from tonnage.wire.objects import Node, Pod

_WORKERS: Final = 4
_MOST_PODS: Final = 50
"""That try devices at one time."""
_SOON_S: Final = 5.0
_AGAIN_S: Final = 60.0


class ValidationLoop:
    """Looks at a node when it, its report or its pod changes, and each minute; without an image at none."""

    def __init__(self, world: ControllerWorld) -> None:
        self._world = world
        self._queue: WorkQueue[str] = WorkQueue(world.clock)
        self._nodes = world.copies.of(NODE, lambda key: self._queue.add(key[1]))
        self._reports = world.copies.of(NODE_GPU_STATUS, lambda key: self._queue.add(key[1]))
        self._policies = world.copies.of(CLUSTER_POLICY, self._policy_changed)
        self._pods = Informer(
            *(world.api, POD, world.clock),
            namespace=world.operator_namespace,
            on_change=self._pod_changed,
        )

    @property
    def copies(self) -> tuple[Informer[Any], ...]:
        """The copies that nobody else keeps fresh."""
        return (self._pods,) if self._world.operand_image else ()

    async def run(self) -> None:
        """Validate until cancelled."""
        self._add_all()
        await work(self._queue, self._reconcile, workers=_WORKERS)

    async def look_once(self) -> None:
        """Look at every node, one after another."""
        for node in self._nodes:
            await self._reconcile(node.metadata.name)

    def _add_all(self) -> None:
        for node in self._nodes:
            self._queue.add(node.metadata.name)

    def _policy_changed(self, _key: Key) -> None:
        self._add_all()

    def _pod_changed(self, key: Key) -> None:
        pod = self._pods.get(key[1], key[0])
        if pod is not None and pod.metadata.labels.get("app") == APP:
            self._queue.add(pod.metadata.annotations.get(OF_NODE, ""))

    async def _reconcile(self, name: str) -> float | None:
        node, policy = self._nodes.get(name), in_force(gpu_policy_from(policy) for policy in self._policies)
        if not self._world.operand_image or node is None or policy is None:
            return None
        operated = operated_node_from(node, self._reports.get(name))
        if not _is_wanted(operated, policy) or operated.report is None:
            return None
        self._world.counters.turned("validations")
        found = self._pods.get(pod_name(name), self._world.operator_namespace)
        pod = None if found is None else _workload_pod(found)
        last = operated.report.validation
        step = validation_step(operated, last, pod, self._world.clock.now())
        if step.make_pod:
            if len([other for other in self._pods if other.metadata.labels.get("app") == APP]) >= _MOST_PODS:
                return _SOON_S
            step = await self._try(operated, policy, step)
        await self._tell(node, last, step.validation)
        if step.delete_pod and pod is not None:
            await self._delete(pod)
        return _SOON_S if step.make_pod or pod is not None else _AGAIN_S

    async def _try(self, node: OperatedNode, policy: GpuPolicy, step: ValidationStep) -> ValidationStep:
        """Make the pod; where it is refused, the result says why."""
        world = self._world
        body = workload_pod(node, policy, world.operand_image, world.operator_namespace)
        try:
            await world.performer.perform(ApplyObject.of(body))
        except ApiError as error:
            refused = StageResult(Stage.WORKLOAD, Outcome.SKIPPED, f"the pod was refused: {error.message}")
            stages = (*step.validation.stages[:-1], refused)
            return ValidationStep(NodeValidation(step.validation.subject, stages, step.validation.ran_at))
        return step

    async def _tell(self, node: Node, last: NodeValidation, now: NodeValidation) -> None:
        """Write what differs: for people in the node's status, for its agent on the Node."""
        performer, name = self._world.performer, node.metadata.name
        body = validation_json(now)
        if body != validation_json(last):
            await performer.perform(ApplyValidation(name, body))
        passed = "true" if now.of(Stage.WORKLOAD).outcome is Outcome.PASSED else None
        if node.metadata.annotations.get(VALIDATED) != passed:
            annotations: JsonObject = {VALIDATED: passed}
            metadata: JsonObject = {
                "annotations": annotations,
                "resourceVersion": node.metadata.resource_version,
            }
            await performer.perform(PatchNode(name, {"metadata": metadata}))

    async def _delete(self, pod: WorkloadPod) -> None:
        world = self._world
        gone = DeleteObject("Pod", pod.name, pod.uid, world.operator_namespace)
        try:
            reading = world.api.get(POD, pod.name, world.operator_namespace)
            _, sight = await world.performer.look(gone.subject, reading)
            await world.performer.perform(gone, sight)
        except ApiError as error:
            if error.code != 404:
                raise


def _is_wanted(node: OperatedNode, policy: GpuPolicy) -> bool:
    off = node.labels.get(f"{DEPLOY}operator-validator") == "false"
    whole = node.labels.get(f"{DEPLOY}operands") == "false"
    return bool(has_gpu(node.labels, node.devices)) and not off and not whole and not policy.sandboxes


def _workload_pod(pod: Pod) -> WorkloadPod:
    states: list[dict[str, Any]] = [status.get("state") or {} for status in pod.status.container_statuses]
    ended: dict[str, Any] = next((state["terminated"] for state in states if "terminated" in state), {})
    waiting: dict[str, Any] = next((state["waiting"] for state in states if "waiting" in state), {})
    over = pod.status.phase in ("Succeeded", "Failed")
    code = int(ended.get("exitCode", 1)) if ended else None
    message = str(ended.get("message") or "").strip() or pod.status.message
    return WorkloadPod(
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        created=moment(pod.metadata.creation_timestamp),
        code=code,
        ended=over,
        scheduled=bool(pod.spec.node_name),
        message=message or str(waiting.get("message") or waiting.get("reason") or ""),
    )
