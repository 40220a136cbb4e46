"""Remedies of pods that no scheduler serves name all that is needed."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.diagnose.explain.explain import explain
from tonnage.model.verdict import Remedy
from tonnage.reading.documents import snapshot_from_documents

Body = dict[str, Any]
ALL = " (all of these are needed)"


def node(**spec: Any) -> Body:
    amounts: Body = {"cpu": "64", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": 4}
    status = {"allocatable": amounts, "capacity": amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "spec": spec, "status": status}


def remedies(gpus: int, scheduler: str, *objects: Body) -> tuple[Remedy, ...]:
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    spec = {"schedulerName": scheduler, "containers": [container]}
    metadata: Body = {"name": "p"}
    pod: Body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    snapshot = snapshot_from_documents([pod, *objects])
    return explain(snapshot.pods[0], snapshot).remedies


@pytest.mark.parametrize(
    ("gpus", "spec", "also", "field"),
    [
        (9, {}, "ask for 4 nvidia.com/gpu", "containers"),
        (
            1,
            {"taints": [{"key": "t", "effect": "NoSchedule"}]},
            "tolerate the taint t:NoSchedule",
            "tolerations",
        ),
    ],
)
def test_what_helps_on_the_nodes_is_no_help_without_a_scheduler(
    gpus: int, spec: Body, also: str, field: str
) -> None:
    [told] = remedies(gpus, "volcano", node(**spec))
    assert told.action == f"leave it to the default scheduler; and {also}"
    assert told.effect == f"fits a{ALL}"
    assert isinstance(told.patch["spec"], dict)
    assert {"schedulerName", field} == set(told.patch["spec"])


def test_a_pod_that_fits_needs_but_a_scheduler() -> None:
    [told] = remedies(1, "volcano", node())
    assert (told.action, told.effect) == ("leave it to the default scheduler", "fits a")


def test_a_scheduler_that_is_there_is_left_its_pod() -> None:
    [told] = remedies(9, "default-scheduler", node())
    assert (told.action, told.effect) == ("ask for 4 nvidia.com/gpu", "fits a")
