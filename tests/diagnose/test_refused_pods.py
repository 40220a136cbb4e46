"""What the API server refuses of a pod's fields, in its words: SCH-6, ADM-1, ADM-2, ADM-3."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tonnage.adapters.reading_documents import manifests_from_documents
from tonnage.diagnose.explain import explain_manifest
from tonnage.model.cluster import Snapshot
from tonnage.model.verdict import Explanation, Layer, Verdict

RECORDED = yaml.safe_load((Path(__file__).parent / "refused_pods.yaml").read_text())


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
        "'a b' is no key of a label",
        "no label has the value 'NVIDIA H100 80GB HBM3'",
    ]
    assert not any("80GB HBM3" in json.dumps(remedy.patch) for remedy in found.remedies)
