"""Autoscalers keep everything on the way through their first version."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.twin.apiserver.autoscaler_versions import first_autoscaler, stored_autoscaler

_SHARE = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}},
}
_METRICS: dict[str, dict[str, Any]] = {
    "memory": {
        "type": "Resource",
        "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
    },
    "pods": {
        "type": "Pods",
        "pods": {
            "metric": {"name": "hits", "selector": {"matchLabels": {"a": "b"}}},
            "target": {"type": "AverageValue", "averageValue": "10"},
        },
    },
    "an object": {
        "type": "Object",
        "object": {
            "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "s"},
            "metric": {"name": "m"},
            "target": {"type": "Value", "value": "5"},
        },
    },
    "something outside": {
        "type": "External",
        "external": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "3"}},
    },
    "a container": {
        "type": "ContainerResource",
        "containerResource": {
            "name": "cpu",
            "container": "c",
            "target": {"type": "Utilization", "averageUtilization": 50},
        },
    },
}


def _autoscaler(*metrics: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "annotations": {"own": "x"}},
        "spec": {"maxReplicas": 3, "metrics": list(metrics), **spec},
        "status": {"desiredReplicas": 2, "currentMetrics": None},
    }


@pytest.mark.parametrize("metric", _METRICS.values(), ids=_METRICS.keys())
def test_a_metric_comes_back_as_it_was(metric: dict[str, Any]) -> None:
    whole = _autoscaler(metric, _SHARE)
    shown = first_autoscaler(whole)
    assert shown["spec"] == {"maxReplicas": 3, "targetCPUUtilizationPercentage": 60}
    assert stored_autoscaler(shown) == whole


def test_how_fast_it_goes_and_how_it_went_come_back() -> None:
    rules = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}], "selectPolicy": "Max"}
    whole = _autoscaler(_SHARE, behavior={"scaleDown": rules})
    used = {"averageUtilization": 33, "averageValue": "100m"}
    whole["status"] |= {
        "currentReplicas": 2,
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": used}}],
        "conditions": [{"type": "AbleToScale", "status": "True"}],
    }
    shown = first_autoscaler(whole)
    assert shown["status"] == {
        "currentReplicas": 2,
        "desiredReplicas": 2,
        "currentCPUUtilizationPercentage": 33,
    }
    assert stored_autoscaler(shown) == whole


def test_without_a_metric_there_is_the_usual_share() -> None:
    shown = first_autoscaler(stored_autoscaler({"apiVersion": "autoscaling/v1", "spec": {"maxReplicas": 1}}))
    assert shown["spec"] == {"maxReplicas": 1, "targetCPUUtilizationPercentage": 80}


def test_how_fast_it_goes_is_read_in_either_spelling() -> None:
    told = '{"ScaleUp":null,"scaleDown":{"Policies":[{"type":"Pods","Value":4,"periodSeconds":60}],"odd":1}}'
    notes: dict[str, Any] = {"autoscaling.alpha.kubernetes.io/behavior": told}
    stored: Any = stored_autoscaler({"metadata": {"annotations": notes}, "spec": {}})
    policy = {"type": "Pods", "value": 4, "periodSeconds": 60}
    assert stored["spec"]["behavior"] == {"scaleDown": {"policies": [policy]}}


@pytest.mark.parametrize("text", ["nonsense", "[" * 3000], ids=["no JSON", "too deep"])
def test_an_annotation_that_cannot_be_read_goes(text: str) -> None:
    notes: dict[str, Any] = {"autoscaling.alpha.kubernetes.io/metrics": text, "own": "x"}
    stored = stored_autoscaler({"metadata": {"annotations": notes}, "spec": {}})
    assert stored["metadata"] == {"annotations": {"own": "x"}}
