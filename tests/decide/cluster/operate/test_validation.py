"""OPR-2: the order of a node's validation, and when a pod tries its devices."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tonnage.decide.cluster.operate.claimed_devices import claim_template
from tonnage.decide.cluster.operate.node_pod import SeenPod, node_pod
from tonnage.decide.cluster.operate.validation import (
    subject_of,
    validation_json,
    validation_step,
    workload_plan,
)
from tonnage.model.gpu_policy import GpuPolicy, OperatedNode
from tonnage.model.node.gpu_status import ClaimReport, DeviceHolder, GpuDevice, GpuStatus
from tonnage.model.operands import OperandImage
from tonnage.model.validation import NodeStage, NodeValidation, Outcome, StageResult

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GPU = "nvidia.com/gpu"
REPORT = GpuStatus("a", (GpuDevice("GPU-0"),), NOW, offered={GPU: 1}, free={GPU: 1}, driver="595.91.07")
NODE = OperatedNode("a", {}, {GPU: 1}, REPORT, "boot 1")
FULL = replace(NODE, report=replace(REPORT, free={GPU: 0}))
CLAIMS = ClaimReport("gpu.nvidia.com", {"GPU-0": "gpu-0"})
CLAIMED = replace(NODE, allocatable={GPU: 0}, report=replace(REPORT, offered={}, free={}, claims=CLAIMS))
HELD = GpuDevice("GPU-0", holders=(DeviceHolder("default", "train", "main", "gpu.nvidia.com", ("GPU-0",)),))
POD = SeenPod("nvidia-cuda-validator-x", "u", NOW, scheduled=True)
NEVER = NodeValidation()


def result(outcome: Outcome, node: OperatedNode = NODE, ran: timedelta | None = None) -> NodeValidation:
    before = tuple(
        StageResult(stage, Outcome.PASSED) for stage in NodeStage if stage is not NodeStage.WORKLOAD
    )
    return NodeValidation(
        subject_of(node),
        (*before, StageResult(NodeStage.WORKLOAD, outcome, "old")),
        None if ran is None else NOW - ran,
    )


def outcomes(validation: NodeValidation) -> list[str]:
    return [validation.of(stage).outcome.value for stage in NodeStage]


LONG_AGO = timedelta(days=3)


def with_report(node: OperatedNode, **fields: Any) -> OperatedNode:
    assert node.report is not None
    return replace(node, report=replace(node.report, **fields))


@pytest.mark.parametrize(
    ("node", "last", "pod", "names", "does"),
    [
        pytest.param(
            replace(NODE, report=replace(REPORT, devices=(), problems=("NVML: Driver Not Loaded",))),
            *(NEVER, None, ["failed", "waiting", "waiting", "waiting"], ""),
            id="no driver: nothing after it is tried",
        ),
        pytest.param(
            replace(NODE, allocatable={}),
            *(NEVER, None, ["passed", "passed", "failed", "waiting"], ""),
            id="kubelet offers nothing",
        ),
        pytest.param(
            replace(NODE, allocatable={}),
            *(NEVER, POD, ["passed", "passed", "failed", "waiting"], "delete"),
            id="it stopped offering meanwhile",
        ),
        pytest.param(NODE, NEVER, None, ["passed"] * 3 + ["waiting"], "make", id="the first time"),
        pytest.param(NODE, NEVER, POD, ["passed"] * 3 + ["waiting"], "", id="the pod runs"),
        pytest.param(
            NODE, NEVER, replace(POD, ended=True, code=0), ["passed"] * 4, "delete", id="the pod succeeded"
        ),
        pytest.param(
            NODE, NEVER, replace(POD, ended=True, code=3), ["passed"] * 4, "delete", id="injection only"
        ),
        pytest.param(
            NODE,
            NEVER,
            replace(POD, ended=True, code=0, subject=subject_of(NODE)),
            *(["passed"] * 4, "delete"),
            id="it succeeded at what the node still offers",
        ),
        pytest.param(
            CLAIMED,
            NEVER,
            replace(POD, ended=True, code=0, subject=subject_of(NODE)),
            *(["passed"] * 3 + ["waiting"], "delete"),
            id="it succeeded at what the node offered before",
        ),
        pytest.param(
            NODE,
            NEVER,
            replace(POD, ended=True, code=1),
            ["passed"] * 3 + ["failed"],
            "delete",
            id="it failed",
        ),
        pytest.param(
            NODE, result(Outcome.PASSED, ran=LONG_AGO), None, ["passed"] * 4, "", id="a result stands"
        ),
        pytest.param(
            NODE,
            result(Outcome.PASSED, replace(NODE, boot="boot 0"), LONG_AGO),
            *(None, ["passed"] * 3 + ["waiting"], "make"),
            id="the node was rebooted",
        ),
        pytest.param(
            NODE,
            result(Outcome.FAILED, ran=timedelta(minutes=1)),
            *(None, ["passed"] * 3 + ["failed"], ""),
            id="a failure is not tried again at once",
        ),
        pytest.param(
            NODE,
            result(Outcome.FAILED, ran=timedelta(minutes=11)),
            *(None, ["passed"] * 3 + ["failed"], "make"),
            id="but after ten minutes, and stands meanwhile",
        ),
        pytest.param(FULL, NEVER, None, ["passed"] * 3 + ["skipped"], "", id="a full node, never tried"),
        pytest.param(
            FULL,
            result(Outcome.FAILED, FULL, LONG_AGO),
            None,
            ["passed"] * 3 + ["failed"],
            "",
            id="a full node",
        ),
        pytest.param(
            NODE,
            NEVER,
            replace(POD, scheduled=False, created=NOW - timedelta(minutes=3)),
            *(["passed"] * 3 + ["skipped"], "delete"),
            id="somebody took the device first",
        ),
        pytest.param(
            NODE,
            NEVER,
            replace(POD, created=NOW - timedelta(minutes=3), message="ImagePullBackOff"),
            *(["passed"] * 3 + ["failed"], "delete"),
            id="the pod does not get going",
        ),
        pytest.param(
            CLAIMED, NEVER, None, ["passed"] * 3 + ["waiting"], "make", id="devices are claimed, not counted"
        ),
        pytest.param(
            with_report(CLAIMED, devices=(HELD,)),
            *(NEVER, None, ["passed"] * 3 + ["skipped"], ""),
            id="a claim holds the only device",
        ),
        pytest.param(
            with_report(CLAIMED, claims=replace(CLAIMS, unfit={"gpu-0": "Xid 79"})),
            *(NEVER, None, ["passed", "passed", "failed", "waiting"], ""),
            id="no device is fit for a claim",
        ),
        pytest.param(
            with_report(CLAIMED, claims=replace(CLAIMS, why="another driver is there")),
            *(NEVER, None, ["passed", "passed", "failed", "waiting"], ""),
            id="no claim is served",
        ),
        pytest.param(
            CLAIMED,
            result(Outcome.PASSED, ran=LONG_AGO),
            *(None, ["passed"] * 3 + ["waiting"], "make"),
            id="the node changed from counts to claims",
        ),
    ],
)
def test_the_next_step(
    node: OperatedNode, last: NodeValidation, pod: SeenPod | None, names: list[str], does: str
) -> None:
    step = validation_step(node, last, pod, NOW)
    assert outcomes(step.validation) == names
    assert (step.make_pod, step.delete_pod) == (does == "make", does == "delete")


def test_what_was_found_on_a_full_node_keeps_its_age() -> None:
    last = result(Outcome.PASSED, FULL, LONG_AGO)
    assert (
        validation_json(validation_step(FULL, last, None, NOW).validation)["ranAt"] == "2025-12-29T00:00:00Z"
    )


def test_the_pod_asks_for_one_device_and_takes_nobody_s_place() -> None:
    plan = workload_plan(REPORT, "3f2a")
    body: Any = node_pod(
        plan, "a", GpuPolicy("p", "u"), OperandImage("registry.example.com/tonnage:1"), "gpu-operator"
    )
    [container] = body["spec"]["containers"]
    assert container["resources"]["limits"][GPU] == "1"
    assert body["spec"]["priorityClassName"] == "tonnage-validation"
    assert body["metadata"]["labels"]["app"] == "nvidia-cuda-validator"
    assert body["metadata"]["annotations"]["tonnage.dev/validation-subject"] == "3f2a"
    [term] = body["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}


def test_a_users_image_runs_its_own_program_and_validates_anew() -> None:
    image = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0"
    plan = workload_plan(REPORT, "3f2a", image)
    body: Any = node_pod(
        plan, "a", GpuPolicy("p", "u"), OperandImage("registry.example.com/tonnage:1"), "gpu-operator"
    )
    [container] = body["spec"]["containers"]
    assert container["image"] == image
    assert "command" not in container
    assert container["resources"]["limits"][GPU] == "1"
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    ours = result(Outcome.PASSED)
    assert validation_step(NODE, ours, None, NOW).make_pod is False
    assert validation_step(NODE, ours, None, NOW, image).make_pod


def test_where_devices_are_claimed_the_pod_claims_one_of_either_kind() -> None:
    assert CLAIMED.report is not None
    policy = GpuPolicy("p", "u")
    plan = workload_plan(CLAIMED.report, "3f2a")
    body: Any = node_pod(plan, "a", policy, OperandImage("registry.example.com/tonnage:1"), "gpu-operator")
    [container] = body["spec"]["containers"]
    assert container["resources"]["limits"].keys() == {"memory"}
    assert container["resources"]["claims"] == [{"name": "device"}]
    template: Any = claim_template(policy, "gpu-operator")
    assert body["spec"]["resourceClaims"] == [
        {"name": "device", "resourceClaimTemplateName": template["metadata"]["name"]}
    ]
    [request] = template["spec"]["spec"]["devices"]["requests"]
    assert [part["deviceClassName"] for part in request["firstAvailable"]] == [
        "gpu.nvidia.com",
        "mig.nvidia.com",
    ]


def test_a_pod_without_a_place_is_told_in_the_scheduler_s_words() -> None:
    pod = replace(POD, scheduled=False, created=NOW - timedelta(minutes=3), message="0/1 nodes are available")
    step = validation_step(CLAIMED, NEVER, pod, NOW)
    assert step.validation.of(NodeStage.WORKLOAD).message == "the pod found no place: 0/1 nodes are available"
