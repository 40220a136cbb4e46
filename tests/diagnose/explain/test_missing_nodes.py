"""A pod bound to a node that is not there is never said to have a place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tonnage.diagnose.explain.explain import explain, find_pod
from tonnage.model.verdict import Explanation, Verdict
from tonnage.reading.documents import snapshot_from_documents

Body = dict[str, Any]
NODE: Body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}


def asked(
    *others: Body, phase: str = "Pending", on: str = "ghost", missing: str = "", complete: str = ""
) -> Explanation:
    pod: Body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"nodeName": on, "containers": [{"name": "c"}]},
        "status": {"phase": phase},
    }
    snapshot = replace(
        snapshot_from_documents([{"kind": "List", "items": [pod, *others]}]),
        missing=frozenset(missing.split()),
        complete=frozenset(complete.split()),
    )
    found = find_pod(snapshot, "default", "p")
    assert found is not None
    return explain(found, snapshot)


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        ("Pending", "its node ghost does not exist: no kubelet will start it"),
        ("Running", "its node ghost is gone: the pod garbage collector will remove it"),
    ],
)
def test_a_pod_on_a_node_that_is_gone_never_starts(phase: str, message: str) -> None:
    answer = asked(NODE, phase=phase)
    assert (answer.verdict, answer.message) == (Verdict.NEVER, message)
    assert [reason.code for reason in answer.reasons] == ["node-missing"]


def test_a_cluster_that_is_known_to_have_no_node_has_not_its_node() -> None:
    assert asked(complete="Node").reasons[0].code == "node-missing"


@pytest.mark.parametrize("given", [(), (NODE,)], ids=["no node was given", "nodes may not be listed"])
def test_what_was_not_read_leaves_it_open(given: tuple[Body, ...]) -> None:
    answer = asked(*given, missing="Node" if given else "")
    assert (answer.verdict, answer.reasons[0].code) == (Verdict.UNKNOWN, "kind-not-read")


@pytest.mark.parametrize(("phase", "on"), [("Pending", "a"), ("Running", "a"), ("Succeeded", "ghost")])
def test_a_node_that_is_there_and_a_pod_that_ended_say_nothing_of_it(phase: str, on: str) -> None:
    assert asked(NODE, phase=phase, on=on).verdict.good
