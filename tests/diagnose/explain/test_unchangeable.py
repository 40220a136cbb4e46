"""Remedies whose patch the API server would refuse, because the object exists, say what to do instead."""

from __future__ import annotations

import pytest

from tonnage.diagnose.explain.workloads.unchangeable import with_ways_to_change
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Owner, Pod
from tonnage.model.verdict import Explanation, Remedy, Subject, Verdict

SELECTOR: JsonObject = {"spec": {"nodeSelector": {"a": None}}}
TOLERATING: JsonObject = {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}
TEMPLATE: JsonObject = {"spec": {"template": SELECTOR}}
OF_ITS_OWN, OWNED = Pod("p"), Pod("p", owner=Owner("ReplicaSet", "r"))


@pytest.mark.parametrize(
    ("kind", "pod", "patch", "effect"),
    [
        pytest.param("Pod", OF_ITS_OWN, SELECTOR, "fits a; delete the pod and create it again", id="a pod"),
        pytest.param("Pod", OWNED, SELECTOR, "fits a; change its workload", id="a pod of a workload"),
        pytest.param("Pod", OF_ITS_OWN, TOLERATING, "fits a", id="a pod takes more tolerations"),
        pytest.param("Pod", Pod("p", gates=("g",)), SELECTOR, "fits a", id="a gated pod takes selectors"),
        pytest.param("Pod", OF_ITS_OWN, {}, "fits a", id="nothing to patch"),
        pytest.param("Job", None, TEMPLATE, "fits a; delete the Job and create it again", id="a Job"),
        pytest.param("Job", None, {"spec": {"parallelism": 1}}, "fits a", id="a Job takes fewer pods"),
        pytest.param("Deployment", None, TEMPLATE, "fits a", id="a Deployment rolls out its template"),
    ],
)
def test_a_patch_that_would_be_refused_is_not_left_alone(
    kind: str, pod: Pod | None, patch: JsonObject, effect: str
) -> None:
    before = Explanation(
        Subject(kind, "ml", "p"), Verdict.NOT_NOW, None, "", {}, "", remedies=(Remedy("do", "fits a", patch),)
    )
    (remedy,) = with_ways_to_change(before, pod).remedies
    assert remedy.patch == patch
    assert remedy.effect.startswith(effect)
    assert (remedy.effect == "fits a") is (effect == "fits a")
