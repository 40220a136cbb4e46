"""NVIDIA's operator stands still while its nodes are adopted."""

from __future__ import annotations

from dataclasses import replace

from tonnage.decide.cluster.adopt.operator_deployment import ScaleOperator, paused, resumed
from tonnage.model.adoption import REPLICAS, OperatorDeployment
from tonnage.model.reasons.cluster.operator import OperatorScaledUp

RUNS = OperatorDeployment("gpu-operator", "gpu-operator", "3", 2, {}, {})
PAUSED = replace(RUNS, replicas=0, annotations={REPLICAS: "2"})


def test_it_is_scaled_to_none_and_its_replicas_noted_in_one_write() -> None:
    scale = paused(RUNS)
    assert isinstance(scale, ScaleOperator)
    assert scale.patch == {
        "metadata": {"resourceVersion": "3", "annotations": {REPLICAS: "2"}},
        "spec": {"replicas": 0},
    }
    assert paused(PAUSED) is None


def test_who_scales_it_up_again_is_named() -> None:
    back = replace(PAUSED, replicas=2, labels={"argocd.argoproj.io/instance": "gpu"})
    reason = paused(back)
    assert isinstance(reason, OperatorScaledUp)
    assert reason.message == "Argo CD scaled it to 2 again, and it would take the nodes back"
    assert reason.facts == {"replicas": 2, "owner": "Argo CD"}


def test_it_gets_its_replicas_back() -> None:
    scale = resumed(PAUSED)
    assert scale is not None
    assert scale.patch["spec"] == {"replicas": 2}
    assert scale.patch["metadata"] == {"resourceVersion": "3", "annotations": {REPLICAS: None}}
    assert resumed(RUNS) is None


def test_a_note_that_is_no_number_means_one() -> None:
    scale = resumed(replace(PAUSED, annotations={REPLICAS: "many"}))
    assert scale is not None
    assert scale.replicas == 1
