"""Files of alternatives: every kind of change, and everything that is wrong told at once with its place."""

from __future__ import annotations

import pytest

from tonnage.documents.changes import chosen_nodes, parse_changes
from tonnage.model.changes import (
    AddNodes,
    AddWorkload,
    CordonNode,
    Drain,
    NodeSelection,
    RemoveNodes,
    Replay,
    ScaleWorkload,
    SetMig,
    SetSharing,
)
from tonnage.model.errors import ConfigError
from tonnage.model.kubernetes.selectors import Taint

GIB = 1 << 30
EVERY = """
alternatives:
- name: all kinds
  changes:
  - setMig: {nodes: "a100-*", layout: all-1g.10gb}
  - setMig: {nodes: "pool=a100", layout: {3g.40gb: 1, 1g.10gb: 3}, devices: [0, 1], strategy: mixed}
  - setSharing: {nodes: "t4-*,zone=a", replicas: 4, rename: true}
  - addNodes: {count: 2, like: a100-0, labels: {pool: new}}
  - addNodes: {count: 1, product: H100-80, gpus: 8, cpu: 96, memory: 1Ti, taints: ["gpu=yes:NoSchedule"]}
  - cordon: {nodes: a}
  - uncordon: {nodes: b}
  - drain: {nodes: c}
  - removeNodes: {nodes: d}
  - addWorkload: {file: train.yaml, replicas: 3}
  - scale: {kind: Deployment, name: chat, replicas: 6}
  - removeWorkload: {namespace: old, name: gone}
  - replay: {}
- name: nothing
"""


def test_every_kind_of_change_is_read() -> None:
    first, second = parse_changes(EVERY, source="c.yaml", namespace="ml")
    where = [change.where for change in first.changes]
    assert where[0] == "c.yaml:5:5 alternatives[0].changes[0]"
    amounts = {"cpu": 96_000, "memory": 1024 * GIB}
    assert first.changes == (
        SetMig(NodeSelection("a100-*"), "all-1g.10gb", where=where[0]),
        SetMig(NodeSelection("*", {"pool": "a100"}), "3g.40gb:1,1g.10gb:3", (0, 1), "mixed", where[1]),
        SetSharing(NodeSelection("t4-*", {"zone": "a"}), 4, rename=True, where=where[2]),
        AddNodes(2, like="a100-0", labels={"pool": "new"}, where=where[3]),
        AddNodes(
            1, product="H100-80", gpus=8, amounts=amounts, taints=(Taint("gpu", "yes", "NoSchedule"),),
            where=where[4],
        ),
        CordonNode(NodeSelection("a"), where=where[5]),
        CordonNode(NodeSelection("b"), undo=True, where=where[6]),
        Drain(NodeSelection("c"), where[7]),
        RemoveNodes(NodeSelection("d"), where[8]),
        AddWorkload("train.yaml", 3, where=where[9]),
        ScaleWorkload("Deployment", "ml", "chat", 6, where[10]),
        ScaleWorkload("", "old", "gone", 0, where[11]),
        Replay(where[12]),
    )  # fmt: skip
    assert (second.name, second.changes) == ("nothing", ())


@pytest.mark.parametrize(
    ("text", "what", "place"),
    [
        pytest.param("alternatives: []", "no alternative", "c.yaml:1:1", id="no alternative"),
        pytest.param("", "the document is empty", "c.yaml:1:1", id="an empty file"),
        pytest.param("alternatives: [{name: a}, {name: a}]", "name a is taken", "c.yaml", id="a name twice"),
        pytest.param("alternatives: [{name: before}]", "the name before is taken", "c.yaml", id="our name"),
        pytest.param(
            "alternatives: [{name: a, changes: [{drian: {nodes: x}}]}]", "unknown field drian", ":1:37",
            id="a misspelt change",
        ),
        pytest.param(
            "alternatives: [{name: a, changes: [{drain: {nodes: x}, cordon: {nodes: y}}]}]",
            "a change must have exactly one kind", ":1:36", id="two changes in one",
        ),
        pytest.param(
            "alternatives: [{name: a, changes: [{drain: {nodes: 'a,b'}}]}]", "more than one pattern", ":1:45",
            id="two patterns",
        ),
        pytest.param(
            "alternatives: [{name: a, changes: [{setSharing: {nodes: x, replicas: 0}}]}]",
            "the least is 1", ":1:60", id="no replica",
        ),
        pytest.param(
            "alternatives: [{name: a, changes: [{addNodes: {count: 1}}]}]", "give either like or product",
            ":1:37",            id="nodes like nothing",
        ),
        pytest.param(
            "alternatives: [{name: a, changes: [{addNodes: {count: 1, product: T4}}]}]", "number of GPUs",
            ":1:37", id="a product without a number",
        ),
        pytest.param(
            "alternatives: [{name: a, changes: [{addNodes: {count: 1, like: x, cpu: lots}}]}]",
            "must match the regular expression", ":1:36", id="no quantity",
        ),
        pytest.param(
            "alternatives: [{name: a, changes: [{addNodes: {count: 1, like: x, taints: [what]}}]}]",
            "'what' is not a taint", ":1:36", id="no taint",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(text: str, what: str, place: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_changes(text, source="c.yaml")
    (problem,) = caught.value.problems
    assert what in problem.what
    assert place in problem.where


def test_all_problems_are_told_at_once() -> None:
    text = "alternatives:\n- {name: a, changes: [{drain: {}}, {cordon: {nodes: ''}}]}\n- {nam: b}\n"
    with pytest.raises(ConfigError) as caught:
        parse_changes(text, source="c.yaml")
    assert len(caught.value.problems) == 4


@pytest.mark.parametrize("text", ["", ",", "=x", "a,,b"])
def test_nothing_chooses_no_nodes(text: str) -> None:
    with pytest.raises(ValueError, match="no nodes are chosen"):
        chosen_nodes(text)
