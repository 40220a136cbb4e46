"""Validation of nodes: a pod tries a device of each, and NodeGPUStatus says what came of it."""

from __future__ import annotations

from typing import Final

from tonnage.controller.context import ControllerContext
from tonnage.controller.operator.node_loop import NodeLoop
from tonnage.controller.operator.node_pods import PodPlaces, delete_pod
from tonnage.decide.cluster.operate.claimed_devices import claim_template
from tonnage.decide.cluster.operate.node_pod import node_pod
from tonnage.decide.cluster.operate.operand_labels import has_gpu
from tonnage.decide.cluster.operate.validation import (
    APP,
    STARTUP_TAINT,
    ValidationStep,
    validation_json,
    validation_step,
    workload_plan,
)
from tonnage.loop.informer import Informer, Key
from tonnage.model.actions.cluster import ApplyObject, ApplyValidation, PatchNode
from tonnage.model.errors import ApiError
from tonnage.model.gpu_policy import GpuPolicy, OperatedNode
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.names import VALIDATED
from tonnage.model.node.gpu_status import SILENT_AFTER
from tonnage.model.operands import DEPLOY
from tonnage.model.validation import NodeStage, NodeValidation, Outcome, StageResult
from tonnage.reading.gpu_policy import operated_node_from
from tonnage.reading.gpu_status import heartbeat_of
from tonnage.wire.objects import Node, Pod, Taint

_SOON_S: Final = 5.0
_AGAIN_S: Final = 60.0


class ValidationLoop(NodeLoop):
    """Looks at a node when it, its report or its pod changes, and each minute; without an image at none."""

    def __init__(self, context: ControllerContext, pods: Informer[Pod]) -> None:
        self._standing: set[str] = set()
        """Nodes that have passed and not changed since: only silence changes what is said of them."""
        super().__init__(context)
        self._pods = PodPlaces(context, pods, APP, self._queue.add)

    def _node_changed(self, key: Key) -> None:
        self._standing.discard(key[1])
        super()._node_changed(key)

    def _policy_changed(self) -> None:
        self._standing.clear()
        super()._policy_changed()

    async def _reconcile(self, name: str) -> float | None:
        if name in self._standing and self._pods.pod_of(name) is None and not self._is_silent(name):
            return _AGAIN_S
        with self._pods.turn(name):
            return await self._look(name)

    def _is_silent(self, name: str) -> bool:
        report = self._reports.get(name)
        beat = None if report is None else heartbeat_of(report)
        return beat is not None and self._context.clock.now() - beat > SILENT_AFTER

    async def _look(self, name: str) -> float | None:
        node, policy = self._nodes.get(name), self._policy()
        if not self._context.operand_image or node is None:
            return None
        operated = operated_node_from(node, self._reports.get(name))
        if policy is None:
            if operated.report is not None and operated.report.validation.stages:
                await self._context.performer.perform(ApplyValidation(name, {}))
            return None
        if not _is_wanted(operated, policy) or operated.report is None:
            return None
        self._context.counters.turned("validations")
        pod = self._pods.pod_of(name)
        last = operated.report.validation
        now = self._context.clock.now()
        step = validation_step(operated, last, pod, now, self._context.workload_image)
        if step.make_pod:
            if not self._pods.has_place(name):
                return _AGAIN_S
            step = await self._try(operated, policy, step)
        wrote = await self._tell(node, last, step.validation)
        if step.delete_pod and pod is not None:
            await delete_pod(self._context, pod)
        if pod is None and not step.make_pod and not wrote and _has_passed(last):
            self._standing.add(name)  # nothing was waited for, so that nothing has changed meanwhile
        return _SOON_S if step.make_pod or pod is not None else _AGAIN_S

    async def _try(self, node: OperatedNode, policy: GpuPolicy, step: ValidationStep) -> ValidationStep:
        """Make the pod; where it is refused, the result says why."""
        context = self._context
        assert node.report is not None
        assert context.operand_image is not None
        plan = workload_plan(node.report, step.validation.subject, context.workload_image)
        namespace = context.operator_namespace
        body = node_pod(plan, node.name, policy, context.operand_image, namespace)
        try:
            if plan.template:
                template = claim_template(policy, namespace)
                await context.performer.perform(ApplyObject.of(template))
            await self._pods.make(node.name, body)
        except ApiError as error:
            refused = StageResult(
                NodeStage.WORKLOAD, Outcome.SKIPPED, f"the pod was refused: {error.message}"
            )
            stages = (*step.validation.stages[:-1], refused)
            return ValidationStep(NodeValidation(step.validation.subject, stages, step.validation.ran_at))
        return step

    async def _tell(self, node: Node, last: NodeValidation, now: NodeValidation) -> bool:
        """Write what differs, if anything does: in the node's status, and on the Node for its agent."""
        performer, name = self._context.performer, node.metadata.name
        body = validation_json(now)
        is_news = body != validation_json(last)
        if is_news:
            await performer.perform(ApplyValidation(name, body))
        passed = "true" if _has_passed(now) else None
        tainted = passed is not None and any(taint.key == STARTUP_TAINT for taint in node.spec.taints)
        differs = node.metadata.annotations.get(VALIDATED) != passed or tainted
        if differs:
            annotations: JsonObject = {VALIDATED: passed}
            metadata: JsonObject = {
                "annotations": annotations,
                "resourceVersion": node.metadata.resource_version,
            }
            patch: JsonObject = {"metadata": metadata}
            if tainted:
                left = [_plain(taint) for taint in node.spec.taints if taint.key != STARTUP_TAINT]
                patch["spec"] = {"taints": left or None}
            await performer.perform(PatchNode(name, patch))
        return is_news or differs


def _has_passed(validation: NodeValidation) -> bool:
    return validation.of(NodeStage.WORKLOAD).outcome is Outcome.PASSED


def _plain(taint: Taint) -> JsonValue:
    fields = {
        "key": taint.key,
        "value": taint.value,
        "effect": taint.effect,
        "timeAdded": taint.time_added,
    }
    return {name: value for name, value in fields.items() if value}


def _is_wanted(node: OperatedNode, policy: GpuPolicy) -> bool:
    off = node.labels.get(f"{DEPLOY}operator-validator") == "false"
    whole = node.labels.get(f"{DEPLOY}operands") == "false"
    return bool(has_gpu(node.labels, node.devices)) and not off and not whole and not policy.sandboxes
