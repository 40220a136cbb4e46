"""Autoscalers of the first version are kept as those of the second."""

from __future__ import annotations

from typing import Any

from tonnage.twin.apiserver.versions.autoscalers import first_autoscaler, stored_autoscaler

_SHARE = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}},
}
_MEMORY = {
    "type": "Resource",
    "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
}


def _autoscaler(*metrics: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "annotations": {"own": "x"}},
        "spec": {"maxReplicas": 3, "metrics": list(metrics), **spec},
        "status": {"desiredReplicas": 2, "currentMetrics": None},
    }


def test_the_share_of_cpu_comes_back_as_it_was() -> None:
    whole = _autoscaler(_SHARE)
    shown = first_autoscaler(whole)
    assert shown["spec"] == {"maxReplicas": 3, "targetCPUUtilizationPercentage": 60}
    assert shown["status"] == {"currentReplicas": 0, "desiredReplicas": 2}
    assert stored_autoscaler(shown) == whole


def test_the_first_version_shows_neither_other_metrics_nor_behavior() -> None:
    shown = first_autoscaler(_autoscaler(_MEMORY, behavior={"scaleDown": {"selectPolicy": "Max"}}))
    assert shown["spec"] == {"maxReplicas": 3}


def test_without_a_metric_there_is_the_usual_share() -> None:
    shown = first_autoscaler(stored_autoscaler({"apiVersion": "autoscaling/v1", "spec": {"maxReplicas": 1}}))
    assert shown["spec"] == {"maxReplicas": 1, "targetCPUUtilizationPercentage": 80}
