"""What the API server refuses of a pod's fields, in its words: SCH-6, ADM-1, ADM-2, ADM-3."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tonnage.diagnose.explain.explain import explain_manifest
from tonnage.model.kubernetes.cluster import Node, PriorityClass, Snapshot
from tonnage.model.layer import Layer
from tonnage.model.reasons.pod.admission import NamespaceTerminating, PriorityNotOfClass
from tonnage.model.reasons.pod.quota import QuotaExceeded, QuotaNotTakenOver
from tonnage.model.verdict import Explanation, Verdict
from tonnage.reading.documents import manifests_from_documents, snapshot_from_documents

RECORDED = yaml.load((Path(__file__).parent / "refused_pods.yaml").read_text(), yaml.CSafeLoader)


def told(document: dict[str, Any], snapshot: Snapshot) -> Explanation:
    [manifest] = manifests_from_documents([document], classes=snapshot.priority_classes)
    return explain_manifest(manifest, snapshot)


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: str(case["about"]))
def test_a_refusal_is_foreseen_in_the_words_of_the_server(case: dict[str, str]) -> None:
    foreseen = told(json.loads(case["manifest"]), Snapshot())
    assert (foreseen.upstream_message if foreseen.layer is Layer.ADMISSION else "") == case["said"]
    if case["said"]:
        assert foreseen.verdict is Verdict.NEVER


def test_sch_6_every_impossible_label_is_told_at_once_and_none_is_kept_in_a_remedy() -> None:
    selector = {"nvidia.com/gpu.product": "NVIDIA H100 80GB HBM3", "a b": "c"}
    spec = {"containers": [{"name": "c", "image": "x"}], "nodeSelector": selector}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    found = told(document, Snapshot())
    assert [reason.message.partition(": ")[2] for reason in found.reasons] == [
        "'a b' is not a valid label key",
        "'NVIDIA H100 80GB HBM3' is not a valid label value",
    ]
    assert not any("80GB HBM3" in json.dumps(remedy.patch) for remedy in found.remedies)


CLASSES = (PriorityClass("hi", 1000), PriorityClass("mild", 10, may_preempt=False))


def of_priority(**spec: object) -> dict[str, Any]:
    containers = [{"name": "c", "image": "x"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": containers, **spec},
    }


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"priority": 7}, "integer value of priority (7) 0"),
        ({"priority": 0}, ""),
        ({"priority": 7, "priorityClassName": "hi"}, "integer value of priority (7) 1000"),
        ({"priority": 1000, "priorityClassName": "hi"}, ""),
        ({"priorityClassName": "hi"}, ""),
        (
            {"preemptionPolicy": "Never", "priorityClassName": "hi"},
            "string value of PreemptionPolicy (Never) PreemptLowerPriority",
        ),
        ({"preemptionPolicy": "Never", "priorityClassName": "mild"}, ""),
    ],
)
def test_a_priority_comes_from_its_class_alone(spec: dict[str, Any], said: str) -> None:
    snapshot = Snapshot((Node("n1"),), priority_classes=CLASSES)
    found = told(of_priority(**spec), snapshot)
    words = found.upstream_message if found.layer is Layer.ADMISSION else ""
    what, _, rest = words.removeprefix('pods "p" is forbidden: the ').partition(" must not be provided in")
    computed = rest.partition("computed ")[2].partition(" ")[0]
    assert f"{what} {computed}".strip() == said
    if said:
        assert found.reasons[0].code == PriorityNotOfClass.code
        [remedy] = found.remedies
        assert remedy.action == f"leave {next(iter(spec))} out"
        assert "accepts the pod" in remedy.effect


def test_nothing_comes_into_a_namespace_that_ends() -> None:
    ending: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    snapshot = snapshot_from_documents([{**ending, "status": {"phase": "Terminating"}}])
    found = told(of_priority(), snapshot)
    assert found.reasons[0].code == NamespaceTerminating.code
    said = "unable to create new content in namespace default because it is being terminated"
    assert found.upstream_message == f'pods "p" is forbidden: {said}'


def test_a_quota_that_its_controller_has_yet_to_take_over_is_not_raised() -> None:
    key = "requests.nvidia.com/gpu"
    quota: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {key: "8"}},
        "status": {"hard": {key: "4"}, "used": {key: "4"}},
    }
    pod = of_priority()
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "2"}}
    found = told(pod, snapshot_from_documents([quota]))
    assert (found.verdict, found.reasons[0].code) == (Verdict.NOT_NOW, QuotaNotTakenOver.code)
    assert "raise" not in " ".join(remedy.action for remedy in found.remedies)
    lower = {**quota, "spec": {"hard": {key: "5"}}}
    found = told(pod, snapshot_from_documents([lower]))
    assert found.reasons[0].code == QuotaExceeded.code
    assert any("raise" in remedy.action for remedy in found.remedies)
