"""Which nodes the scheduler may choose when it looks at a part of them: against trying every beginning."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tonnage.decide.kubernetes.scheduler.fleet.best_rows import may_be_best
from tonnage.decide.kubernetes.scheduler.sampling import candidates, may_choose, sample_size
from tonnage.decide.kubernetes.scheduler.score_table import Scores
from tonnage.decide.kubernetes.view import asking_order, view_of
from tonnage.diagnose.explain.explain import explain
from tonnage.model.kubernetes.cluster import Container, Node, Pod, Snapshot
from tonnage.model.verdict import Verdict

GIB = 1024**3


def node(number: int, *, cpu: int = 8000, zone: str = "") -> Node:
    labels = {"topology.kubernetes.io/zone": zone} if zone else {}
    return Node(f"n-{number:04d}", labels, allocatable={"cpu": cpu, "memory": 64 * GIB, "pods": 110})


def tried(order: list[str], totals: dict[str, int], size: int) -> set[str]:
    """Every beginning, as the scheduler goes about it."""
    found: set[str] = set()
    for start in range(len(order)):
        fitting = [name for name in order[start:] + order[:start] if name in totals][:size]
        best = max(totals[name] for name in fitting)
        found |= {name for name in fitting if totals[name] == best}
    return found


@pytest.mark.sampled("random beginnings of a search for nodes")
@pytest.mark.parametrize("number", range(200))
def test_every_beginning_is_allowed_for(number: int) -> None:
    random = Random(number)
    order = [f"n{n}" for n in range(random.randint(1, 30))]
    fitting = random.sample(order, random.randint(1, len(order)))
    totals = {name: random.randint(0, 6) for name in fitting}
    size = random.randint(1, 12)
    found = may_choose(order, totals, size)
    assert set(found) == tried(order, totals, size)
    assert list(found) == [name for name in order if name in found]
    in_turn = [name for name in order if name in totals]
    on_columns = may_be_best(np.array([totals[name] for name in in_turn]), size)
    assert [name for name, may in zip(in_turn, on_columns, strict=True) if may] == list(found)


def test_nodes_are_asked_in_turns_over_their_zones() -> None:
    zones = ["a", "a", "b", "a", "c", "b"]
    nodes = [node(number, zone=zone) for number, zone in enumerate(zones)]
    assert [int(name[2:]) for name in asking_order(nodes)] == [0, 2, 4, 1, 5, 3]


def test_up_to_a_hundred_nodes_all_are_looked_at() -> None:
    assert [sample_size(count) for count in (1, 99, 100, 240, 5001, 20_000)] == [1, 99, 100, 117, 500, 1000]


def test_explain_says_that_only_a_part_is_looked_at() -> None:
    snapshot = Snapshot(tuple(node(n, cpu=16000 if n % 150 == 0 else 8000) for n in range(1000)))
    pod = Pod("new", containers=(Container("main", "", {"cpu": 1000, "memory": GIB}),))
    explanation = explain(pod, snapshot)
    roomy = {f"n-{n:04d}" for n in range(0, 1000, 150)}
    assert explanation.verdict is Verdict.FITS
    assert set(explanation.placement.candidates) == roomy
    assert explanation.message.startswith("fits one of 7 nodes: n-0000 or n-0150 or n-0300 or n-0450 or …")
    assert "the best of the first 420 nodes that fit" in explanation.message
    assert explanation.to_json()["placement"]["candidates"] == sorted(roomy)  # type: ignore[index, call-overload]


def test_scores_that_compare_nodes_make_every_fitting_node_possible() -> None:
    view = view_of(Snapshot(tuple(node(n) for n in range(200))))
    rates = [n % 2 for n in range(200)]
    assert len(candidates(view, Scores(tuple(view.nodes), {"NodeAffinity": rates, "total": rates}))) == 200
    few = Scores(tuple(view.nodes)[:90], {"NodeAffinity": rates[:90], "total": rates[:90]})
    assert set(candidates(view, few)) == {name for name, row in few.items() if row["total"]}
