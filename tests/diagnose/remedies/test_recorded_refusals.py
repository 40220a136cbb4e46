"""Every remedy that is offered works: applied as the API server would, over all recorded refusals."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
import pytest

from support.remedy_scenes import Body, patched
from tonnage.decide.kubernetes.scheduler.scheduling import schedule
from tonnage.diagnose.explain.explain import explain_manifest
from tonnage.diagnose.explain.text import explanation_lines
from tonnage.model.kubernetes.cluster import PriorityClass, Snapshot
from tonnage.model.verdict import Verdict
from tonnage.reading.cluster import snapshot_from
from tonnage.reading.documents import manifests_from_documents
from tonnage.wire import objects as w

_FILE: Final = Path(__file__).parents[2] / "data" / "kube-scheduler-1.35.4-fuzz-700.json.gz"


@cache
def refused() -> dict[str, tuple[Body, Snapshot]]:
    """Pending pods (as manifests) that the real scheduler refused, with their clusters."""
    found: dict[str, tuple[Body, Snapshot]] = {}
    with gzip.open(_FILE) as file:
        for case in json.load(file)["cases"]:
            scenario = case["scenario"]
            pod = scenario["pending"][0]
            if "node" in case["expect"] or pod["spec"].get("resourceClaims"):
                continue
            objects: list[w.Object] = [msgspec.convert(node, w.Node) for node in scenario["nodes"]]
            objects += [msgspec.convert(other, w.Pod) for other in scenario["pods"]]
            classes = [w.PriorityClass(metadata=w.ObjectMeta(name=f"p{n}"), value=n) for n in (50, 5000)]
            manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"], "spec": pod["spec"]}
            found[scenario["name"]] = manifest, snapshot_from([*objects, *classes], server_version="1.35.4")
    return found


def of_a_class(manifest: Body, snapshot: Snapshot) -> tuple[Body, Snapshot]:
    """Pods recorded of a scheduler alone have priorities that the API server does not take."""
    own = ("priority", "preemptionPolicy", "priorityClassName")
    spec = {key: value for key, value in manifest["spec"].items() if key not in own}
    may_preempt = manifest["spec"].get("preemptionPolicy") != "Never"
    made = PriorityClass("made", manifest["spec"].get("priority", 0), may_preempt=may_preempt)
    there = replace(snapshot, priority_classes=(*snapshot.priority_classes, made))
    return {**manifest, "spec": {**spec, "priorityClassName": made.name}}, there


@pytest.mark.sampled("patches for recorded refusals", share="1/4")
@pytest.mark.parametrize("part", range(8))
def test_every_patch_offered_for_a_recorded_refusal_places_the_pod(part: int) -> None:
    offered = 0
    for one in list(refused().values())[part::8]:
        manifest, snapshot = of_a_class(*one)
        [read] = manifests_from_documents([manifest], classes=snapshot.priority_classes)
        explanation = explain_manifest(read, snapshot)
        assert explanation.verdict is not Verdict.FITS
        assert len(explanation.remedies) == len({r.action for r in explanation.remedies})
        edits = [
            json.dumps(r.patch, sort_keys=True)
            for r in explanation.remedies
            if r.patch and "wait" not in r.action
        ]
        assert len(edits) == len(set(edits))
        assert all(len(line) < 1200 for line in explanation_lines(explanation))
        for remedy in explanation.remedies:
            if not remedy.patch or any(
                told in remedy.action for told in ("wait for", "uncordon", "kubectl label")
            ):
                continue
            [changed] = manifests_from_documents(
                [patched(manifest, remedy.patch)], classes=snapshot.priority_classes
            )
            decision = schedule(changed.pod, snapshot)
            assert decision.chosen or decision.nominated, (manifest, remedy)
            assert str(decision.chosen or decision.nominated) in remedy.effect
            offered += 1
    assert offered > 3
