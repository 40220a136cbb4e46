"""What is paused on a Node during a MIG change, and given back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.node.mig.pause import (
    ANNOTATION,
    OPERANDS,
    PAUSED,
    NodeNow,
    Paused,
    pause,
    restore,
    resume,
)

DCGM, EXPORTER, DRIVER = "nvidia.com/gpu.deploy.dcgm", OPERANDS[2], "nvidia.com/gpu.deploy.driver"


def patched(node: NodeNow, patch: Any) -> NodeNow:
    """The Node after a merge patch."""
    if patch is None:
        return node

    def merged(old: Any, new: Any) -> dict[str, str]:
        return {key: value for key, value in {**old, **(new or {})}.items() if value is not None}

    meta, spec = patch["metadata"], patch.get("spec", {})
    assert meta["resourceVersion"] == node.version
    return NodeNow(
        f"{node.version}+",
        merged(node.labels, meta.get("labels")),
        merged(node.annotations, meta["annotations"]),
        bool(spec["unschedulable"]) if spec else node.unschedulable,
    )


nodes = st.builds(
    NodeNow,
    st.just("1"),
    st.dictionaries(
        st.sampled_from((*OPERANDS, DRIVER)), st.sampled_from(("true", "false", "", "x", PAUSED))
    ),
    st.just({}),
    st.booleans(),
)


@given(nodes, st.booleans(), st.booleans())
def test_what_was_paused_is_given_back_as_it_was(node: NodeNow, cordon: bool, operands: bool) -> None:
    during = patched(node, pause(node, cordon=cordon, operands=operands))
    assert pause(during, cordon=cordon, operands=operands) is None
    assert during.unschedulable == (cordon or node.unschedulable)
    after = patched(during, restore(during))
    assert (after.labels, after.annotations, after.unschedulable) == (
        *(node.labels, node.annotations, node.unschedulable),
    )
    assert restore(after) is None


def test_only_what_runs_is_paused() -> None:
    labels = {DCGM: "true", EXPORTER: "false", OPERANDS[3]: "true", DRIVER: "true", OPERANDS[4]: PAUSED}
    during = patched(node := NodeNow("1", labels, {}), pause(node, cordon=False, operands=True))
    assert during.labels == {**labels, DCGM: PAUSED}
    assert json.loads(during.annotations[ANNOTATION]) == {"cordoned": False, "labels": {DCGM: "true"}}


def test_what_comes_later_is_paused_beside_it() -> None:
    node = NodeNow("1", {DCGM: "true"}, {})
    cordoned = patched(node, pause(node, cordon=True, operands=False))
    both = patched(cordoned, pause(cordoned, cordon=False, operands=True))
    assert both.paused.cordoned
    after = patched(both, restore(both))
    assert (after.labels, after.unschedulable) == ({DCGM: "true"}, False)


@pytest.mark.parametrize("cordon", [True, False])
def test_operands_run_again_while_the_node_stays_cordoned(cordon: bool) -> None:
    node = NodeNow("1", {DCGM: "true"}, {})
    during = patched(node, pause(node, cordon=cordon, operands=True))
    after = patched(during, resume(during))
    assert (after.labels, after.unschedulable, after.paused) == ({DCGM: "true"}, cordon, Paused(cordon))
    assert resume(after) is None
    assert (ANNOTATION in after.annotations) == cordon


def test_what_somebody_else_does_meanwhile_stays() -> None:
    node = NodeNow("1", {DCGM: "true", EXPORTER: "true"}, {})
    during = patched(node, pause(node, cordon=True, operands=True))
    other = NodeNow("9", {**during.labels, DCGM: "false"}, during.annotations, unschedulable=False)
    after = patched(other, restore(other))
    assert (after.labels, after.unschedulable) == ({DCGM: "false", EXPORTER: "true"}, False)
    cordoned = NodeNow("1", {}, {}, unschedulable=True)
    assert pause(cordoned, cordon=True, operands=True) is None


@pytest.mark.parametrize(
    "words",
    ["", "{", "[]", "3", '{"cordoned": 1, "labels": 3}', json.dumps({"labels": {DRIVER: "true", DCGM: 7}})],
)
def test_nonsense_in_the_annotation_restores_nothing_and_is_taken_away(words: str) -> None:
    node = NodeNow("1", {DCGM: PAUSED, DRIVER: "x"}, {ANNOTATION: words}, unschedulable=True)
    after = patched(node, restore(node))
    assert after == NodeNow("1+", node.labels, {}, unschedulable=True)
