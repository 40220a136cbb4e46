"""Large clusters are explained by classes of nodes: what is said is what asking each node would say."""

from __future__ import annotations

import re
from random import Random

import pytest

from support.random_clusters import GPU, Chance
from tonnage.diagnose.cluster_view import LARGE, ground_of
from tonnage.diagnose.explain.explain import explain_waiting_pod
from tonnage.diagnose.explain.nodes.verdicts import NodeVerdicts
from tonnage.diagnose.explain.text import explanation_lines
from tonnage.model.kubernetes.cluster import Container, Node, Pod, Snapshot
from tonnage.model.verdict import Explanation, NodeVerdict, Verdict

pytestmark = pytest.mark.long

HELD = re.compile(r"; held by (?P<names>.*?)(?: and (?P<more>[0-9]+) more)?$")

SO_ON = re.compile(r"\(so on node-[0-9]+\)")
"""One of several that say the like."""


def node_lines(explanation: Explanation) -> list[str]:
    """What is said of nodes, with the number of holders for their names, and no example's name."""

    def counted(match: re.Match[str]) -> str:
        return f"; held by {len(match['names'].split(', ')) + int(match['more'] or 0)}"

    text = "\n".join(explanation_lines(explanation)).partition("\nWhat to do:")[0]
    return [SO_ON.sub("", HELD.sub(counted, line)) for line in text.splitlines()]


@pytest.mark.parametrize("start", range(4))
def test_classes_say_what_asking_every_node_says(start: int) -> None:
    verdicts, fewer = set(), 0
    for number in range(start, 120, 4):
        chance = Chance(Random(f"large/{number}"))
        snapshot = chance.snapshot(nodes=3 + number % 30, pods=number % 60)
        each, classed = ground_of(snapshot, large=10**6), ground_of(snapshot, large=1)
        for turn in range(3):
            pod = chance.pod(f"new-{turn}")
            one, other = explain_waiting_pod(each, pod), explain_waiting_pod(classed, pod)
            case = f"{number}/{turn}"
            assert list(other.nodes) == list(one.nodes), case
            assert other.to_json()["nodes"] == one.to_json()["nodes"], case
            for name in ("verdict", "layer", "message", "upstream_message", "placement", "reasons"):
                assert getattr(other, name) == getattr(one, name), (case, name)
            assert node_lines(other) == node_lines(one), case
            assert bool(other.remedies) == bool(one.remedies), case
            members = sorted(name for found in other.classes for name in found.members)
            assert members in ([], list(each.view.nodes)), case
            fewer += len(other.classes) < len(one.classes)
            verdicts.add(one.verdict)
    assert {Verdict.FITS, Verdict.NOT_NOW, Verdict.NEVER} <= verdicts
    assert fewer > 15


def test_few_nodes_of_a_large_cluster_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    ask = NodeVerdicts.of

    def counting(verdicts: NodeVerdicts, name: str) -> NodeVerdict:
        asked.append(name)
        return ask(verdicts, name)

    monkeypatch.setattr(NodeVerdicts, "of", counting)
    gpus = {"cpu": 64000, "pods": 110, GPU: 8}
    nodes = tuple(Node(f"node-{n}", {"zone": f"z{n % 3}"}, allocatable=gpus) for n in range(300))
    holders = tuple(
        Pod(f"old-{n}", node_name=f"node-{n}", containers=(Container("c", "", {GPU: 1 + n % 4}),))
        for n in range(300)
    )
    snapshot = Snapshot(nodes, holders)
    pod = Pod("new", containers=(Container("c", "", {GPU: 8}),), node_selector={"zone": "z0"})
    classed, each = (
        explain_waiting_pod(ground_of(snapshot), pod),
        explain_waiting_pod(ground_of(snapshot, large=1000), pod),
    )
    asked.clear()
    told = classed.to_json()["nodes"]
    assert len(asked) <= 3 * 12  # three of each class: of what is free, and in which zone
    assert told == each.to_json()["nodes"]


def test_a_cluster_is_large_from_so_many_nodes_on() -> None:
    chance = Chance(Random("size"))
    assert ground_of(chance.snapshot(LARGE - 1, 0)).engine is None
    assert ground_of(chance.snapshot(LARGE, 0)).engine is not None
