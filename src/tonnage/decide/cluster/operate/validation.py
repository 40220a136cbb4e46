"""OPR-2: whether a node's parts work, in their order, and at last whether a pod can use a device.

Source of the order and the pod's name: NVIDIA/gpu-operator, cmd/nvidia-validator (v26.7).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tonnage.decide.cluster.operate.claimed_devices import TEMPLATE, has_claimable, serves_claims
from tonnage.decide.cluster.operate.node_pod import NodePodPlan, SeenPod
from tonnage.decide.cluster.operate.node_readiness import NodePart, readiness
from tonnage.model.gpu_policy import OperatedNode
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.model.node.gpu_status import GpuStatus
from tonnage.model.validation import INJECTED, PASSED, NodeStage, NodeValidation, Outcome, StageResult

APP: Final = "nvidia-cuda-validator"
STARTUP_TAINT: Final = "nvidia.com/gpu-not-ready"
"""With which a kubelet may register its node: it goes once a pod has used a device there."""
_PATIENCE: Final = timedelta(minutes=2)
_AGAIN: Final = timedelta(minutes=10)
_WORDS: Final[dict[int | None, str]] = {
    PASSED: "a pod used a device",
    INJECTED: "injection only: a pod got a device, and had nothing to use it with",
}
_STAGE_OF: Final = {
    NodePart.AGENT: NodeStage.DRIVER,
    NodePart.DRIVER: NodeStage.DRIVER,
    NodePart.CONFIGURATION: NodeStage.PLUGIN,
    NodePart.PLUGIN: NodeStage.PLUGIN,
}


@dataclass(frozen=True, slots=True)
class ValidationStep:
    """What is to be said of the node, and whether its pod is to be made or to go."""

    validation: NodeValidation
    make_pod: bool = False
    delete_pod: bool = False


def subject_of(node: OperatedNode, image: str = "") -> str:
    """What a validation holds for: this boot, driver and set of resources, and a user's image."""
    report = node.report
    offered = sorted(report.offered if report else ())
    if report is not None and serves_claims(report):
        offered.append("claims")
    facts = (node.boot, report.driver if report else "", ",".join(offered), *([image] if image else ()))
    return hashlib.sha256("|".join(facts).encode()).hexdigest()[:12]


def validation_step(
    node: OperatedNode, last: NodeValidation, pod: SeenPod | None, now: datetime, image: str = ""
) -> ValidationStep:
    """The next step of a node's validation, with a user's `image` or our own workload.

    What was workload stands until the node or the image is another one.
    """
    subject = subject_of(node, image)
    waiting = readiness(node, now, validated=False)
    if waiting.waits_for is not None:
        stages = tuple(_stages(_STAGE_OF[waiting.waits_for], waiting.why))
        standing = NodeValidation(subject, stages, last.ran_at)
        return ValidationStep(standing, delete_pod=pod is not None)
    if pod is None:
        workload = last.of(NodeStage.WORKLOAD)
        settled = workload.outcome is not Outcome.WAITING and last.subject == subject
        due = workload.outcome is not Outcome.PASSED and (last.ran_at is None or now - last.ran_at >= _AGAIN)
        if settled and not due:
            return ValidationStep(last)
        if not _has_room(node.report):
            return ValidationStep(_without_room(subject, last))
        workload = workload if settled else StageResult(NodeStage.WORKLOAD, Outcome.WAITING, "a pod is tried")
        return ValidationStep(_passed(subject, workload, last.ran_at), make_pod=True)
    if pod.subject not in ("", subject):  # it had a device of what the node offered before
        again = StageResult(NodeStage.WORKLOAD, Outcome.WAITING, "a pod is tried")
        return ValidationStep(_passed(subject, again, last.ran_at), delete_pod=True)
    if pod.ended:
        return ValidationStep(_passed(subject, _of_pod(pod), now), delete_pod=True)
    if pod.created is not None and now - pod.created > _PATIENCE:
        if not pod.scheduled:
            return ValidationStep(_without_room(subject, last, pod.message), delete_pod=True)
        minutes = int(_PATIENCE.total_seconds() // 60)
        late = StageResult(
            NodeStage.WORKLOAD,
            Outcome.FAILED,
            f"the pod has not ended within {minutes} minutes: {pod.message}",
        )
        return ValidationStep(_passed(subject, late, now), delete_pod=True)
    standing = last if last.subject == subject else NodeValidation(subject)
    workload = standing.of(NodeStage.WORKLOAD)
    if workload.outcome is Outcome.WAITING:
        workload = StageResult(NodeStage.WORKLOAD, Outcome.WAITING, "a pod is tried")
    return ValidationStep(_passed(subject, workload, last.ran_at))


def _stages(stuck: NodeStage, why: str) -> Iterator[StageResult]:
    """Those before the one that is stuck have passed, those after it wait."""
    for stage in NodeStage:
        if stage is stuck:
            yield StageResult(stage, Outcome.FAILED, why)
        else:
            before = list(NodeStage).index(stage) < list(NodeStage).index(stuck)
            yield StageResult(stage, Outcome.PASSED if before else Outcome.WAITING)


def _passed(subject: str, workload: StageResult, ran_at: datetime | None) -> NodeValidation:
    before = (StageResult(stage, Outcome.PASSED) for stage in NodeStage if stage is not NodeStage.WORKLOAD)
    return NodeValidation(subject, (*before, workload), ran_at)


def _without_room(subject: str, last: NodeValidation, why: str = "") -> NodeValidation:
    """On a full node the last result stands, as old as it is."""
    workload = last.of(NodeStage.WORKLOAD)
    if last.subject == subject and workload.outcome in (Outcome.PASSED, Outcome.FAILED):
        return last
    message = f"the pod found no place: {why}" if why else "every device is in use, so no pod was tried"
    return _passed(subject, StageResult(NodeStage.WORKLOAD, Outcome.SKIPPED, message), last.ran_at)


def _of_pod(pod: SeenPod) -> StageResult:
    message = pod.message or _WORDS.get(pod.code, f"the pod ended with status {pod.code}")
    worked = pod.code in (PASSED, INJECTED)
    return StageResult(NodeStage.WORKLOAD, Outcome.PASSED if worked else Outcome.FAILED, message)


def _has_room(report: GpuStatus | None) -> bool:
    return report is not None and (_resource(report) != "" or has_claimable(report))


def _resource(report: GpuStatus) -> str:
    """A resource of which the agent offers one that nobody holds; empty: there is none."""
    return next((name for name, free in sorted(report.free.items()) if free > 0), "")


def validation_json(validation: NodeValidation) -> JsonObject:
    """As it stands in the node's NodeGPUStatus."""
    stages: list[JsonValue] = [
        {"stage": workload.stage.value, "outcome": workload.outcome.value, "message": workload.message[:1024]}
        for workload in validation.stages
    ]
    body: JsonObject = {"subject": validation.subject, "stages": stages}
    if validation.ran_at is not None:
        body["ranAt"] = timestamp(validation.ran_at)
    return body


def workload_plan(report: GpuStatus, subject: str, image: str = "") -> NodePodPlan:
    """A pod that asks for one device of the node; where none is free it waits, and takes nobody's place.

    What a node offers as claims alone is claimed. `image` is a user's, to be run in place of our workload.
    """
    limits: JsonObject = {"memory": "1Gi"}
    resource = _resource(report)
    if resource:
        limits[resource] = "1"
    resources: JsonObject = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": limits}
    return NodePodPlan(APP, "adapters.workload", resources, "" if resource else TEMPLATE, subject, image)
