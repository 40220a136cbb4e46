"""What helps a pod that asks for a MIG device: over all profiles of all boards, never a smaller one."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.decide.node.resource_units import mig_resource
from tonnage.diagnose.explain.explain import explain_manifest
from tonnage.diagnose.related_resources import profile_of, serves
from tonnage.model.catalog.mig import mig_models
from tonnage.model.verdict import Explanation
from tonnage.reading.documents import manifests_from_documents, snapshot_from_documents

Body = dict[str, Any]
GPU = "nvidia.com/gpu"
ASKED = "nvidia.com/mig-2g.20gb"
A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}


def node(name: str, amounts: dict[str, int], labels: dict[str, str] | None = None) -> Body:
    there = {"cpu": "64", "memory": "512Gi", "pods": "110", **{n: str(a) for n, a in amounts.items()}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "status": {"allocatable": there, "capacity": there},
    }


def pod(name: str, resource: str, on: str = "", count: int = 1) -> Body:
    containers = [{"name": "c", "image": "i", "resources": {"limits": {resource: str(count)}}}]
    spec = {"containers": containers, **({"nodeName": on} if on else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def explained(wanted: Body, *objects: Body) -> Explanation:
    [manifest] = manifests_from_documents([wanted])
    return explain_manifest(manifest, snapshot_from_documents([*objects, pod("d", "example.com/x", "m")]))


def actions(wanted: Body, *objects: Body) -> list[str]:
    return [remedy.action for remedy in explained(wanted, *objects).remedies]


def busy(resource: str, more: dict[str, int]) -> list[Body]:
    """A node whose one device of the resource is taken."""
    return [node("m", {resource: 1, **more}), pod("h", resource, "m")]


@pytest.mark.parametrize("model", mig_models(), ids=lambda model: model.name)
def test_no_profile_is_offered_that_lacks_something_of_the_one_asked_for(model: Any) -> None:
    for asked in map(mig_resource, model.profiles):
        for other in map(mig_resource, model.profiles):
            if other == asked:
                continue
            one, two = profile_of(str(asked)), profile_of(str(other))
            assert one is not None
            assert two is not None
            less = two.slices < one.slices or two.gb < one.gb or two.engines != one.engines
            assert serves(str(other), str(asked)) is not less


def test_a_smaller_device_is_no_misspelling_of_the_one_asked_for() -> None:
    explanation = explained(pod("p", ASKED), node("m", {"nvidia.com/mig-1g.10gb": 7}))
    [remedy] = explanation.remedies
    assert remedy.action.startswith("change the MIG configuration: ")
    assert not remedy.patch


def test_waiting_comes_before_a_larger_part_and_that_before_a_whole_gpu() -> None:
    larger = busy(ASKED, {"nvidia.com/mig-3g.40gb": 2})
    assert actions(pod("p", ASKED), *larger, node("w", {GPU: 8})) == [
        "wait for h on m to end, or end it",
        f"ask for nvidia.com/mig-3g.40gb instead of {ASKED}: a larger part of a GPU",
        f"ask for {GPU} instead of {ASKED}: a whole GPU instead of a part",
    ]


def test_gpus_that_nobody_uses_are_partitioned_first() -> None:
    first, *_ = explained(pod("p", ASKED), node("m", {GPU: 8}, A100)).remedies
    assert first.action == (
        "partition the GPUs of m, which no pod uses: "
        "kubectl label node m nvidia.com/mig.config=all-2g.20gb --overwrite"
    )


@pytest.mark.parametrize(
    ("labels", "objects", "asked"),
    [
        (A100, [pod("h", GPU, "m")], ASKED),
        (A100, [], "nvidia.com/mig-1g.5gb"),
        ({"nvidia.com/gpu.product": "Tesla-T4"}, [], ASKED),
        ({**A100, "nvidia.com/mig.strategy": "single"}, [], ASKED),
        ({**A100, "nvidia.com/mig.config": "all-balanced"}, [], ASKED),
        ({}, [], ASKED),
    ],
    ids=["in use", "of another board", "no MIG", "under one name", "being changed", "unknown product"],
)
def test_gpus_that_cannot_be_partitioned_are_left_alone(
    labels: dict[str, str], objects: list[Body], asked: str
) -> None:
    answers = actions(pod("p", asked), node("m", {GPU: 8}, labels), *objects)
    assert answers == [f"ask for {GPU} instead of {asked}: a whole GPU instead of a part"]
