"""The engine on columns against the plain one, which judges node by node, on clusters made by chance."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from support.random_clusters import Chance
from tonnage.decide.kubernetes.scheduler.filtering import filter_nodes
from tonnage.decide.kubernetes.scheduler.fleet.columns import in_order
from tonnage.decide.kubernetes.scheduler.fleet.engine import engine_of
from tonnage.decide.kubernetes.scheduler.fleet.filters import FEASIBLE
from tonnage.decide.kubernetes.scheduler.fleet.fleet import Fleet, conflicts, fleet_of
from tonnage.decide.kubernetes.scheduler.preemption import preempt
from tonnage.decide.kubernetes.scheduler.scheduling import rated, schedule_on
from tonnage.decide.kubernetes.scheduler.score_table import TOTAL
from tonnage.decide.kubernetes.view import ClusterView, view_of
from tonnage.model.kubernetes.cluster import Pod

CLUSTERS = 160
PODS = 6


@pytest.mark.sampled("random clusters for both engines", share="1/3")
@pytest.mark.parametrize("start", range(4))
@pytest.mark.parametrize("version", ["1.33", "1.35", "1.37"])
def test_both_engines_refuse_and_rate_alike(start: int, version: str) -> None:
    decided = refused = 0
    for number in range(start, CLUSTERS, 4):
        chance = Chance(Random(f"{version}/{number}"))
        view = view_of(chance.snapshot(nodes=number % 9, pods=number % 17), version=version)
        fleet = fleet_of(view)
        for turn in range(PODS):
            pod = chance.pod(f"new-{turn}")
            feasible = assert_alike(pod, view, fleet, f"{version}/{number}/{turn}")
            decided += feasible
            refused += not feasible
    assert min(decided, refused) > CLUSTERS * PODS / 40  # both ends are met


def assert_alike(pod: Pod, view: ClusterView, fleet: Fleet, case: str) -> bool:
    """Whether any node takes the pod."""
    if conflicts(pod):
        assert filter_nodes(pod, view).conflict, case
        return False
    plain, refused = filter_nodes(pod, view), fleet.refused(pod)
    said = {
        name: refused.kinds[code]
        for name, code in zip(fleet.columns.names, refused.codes.tolist(), strict=True)
        if code != FEASIBLE
    }
    wanted = {name: refusals[0] for name, refusals in plain.refusals.items()}
    assert {name: (k.plugin, k.texts, k.unresolvable) for name, k in said.items()} == {
        name: (r.plugin, r.texts, r.unresolvable) for name, r in wanted.items()
    }, case
    if plain.feasible:
        columns = fleet.ratings(pod, refused.codes == FEASIBLE)
        table = {name: dict[str, int]() for name in plain.feasible}
        for name in plain.feasible:
            row = fleet.columns.row_of[name]
            table[name] = {plugin: int(column[row]) for plugin, column in columns.items()}
            table[name][TOTAL] = sum(table[name].values())
        assert table == rated(pod, view, plain.feasible), case
        best = max(row[TOTAL] for row in table.values())
        assert fleet.best(pod) == min(name for name, row in table.items() if row[TOTAL] == best), case
        assert list(table[plain.feasible[0]]) == list(rated(pod, view, plain.feasible)[plain.feasible[0]])
    else:
        assert fleet.best(pod) is None, case
    return bool(plain.feasible)


@pytest.mark.sampled("random queues for both engines", share="1/3")
@pytest.mark.parametrize("number", range(60))
def test_both_engines_place_a_queue_of_pods_alike(number: int) -> None:
    chance = Chance(Random(f"queue/{number}"))
    snapshot = chance.snapshot(nodes=6, pods=number % 5)
    bound = tuple(pod for pod in snapshot.pods if pod.node_name)
    view = view_of(replace(snapshot, pods=bound))
    fleet = fleet_of(view)
    shapes = [chance.pod(f"shape-{turn}") for turn in range(4)]
    for turn in range(16):
        pod = replace(shapes[turn % 4], name=f"new-{turn}", uid=f"{turn}")
        chosen = schedule_on(replace(pod, may_preempt=False), view).chosen
        assert fleet.place(pod) == chosen, f"{number}/{turn}"
        if chosen is not None:
            view = view.with_node(view.nodes[chosen].plus([replace(pod, node_name=chosen)]))


@pytest.mark.sampled("random preemptions for both engines", share="1/2")
@pytest.mark.parametrize("start", range(4))
def test_both_engines_preempt_alike(start: int) -> None:
    counts: Counter[str] = Counter()
    for number in range(start, 360, 4):
        chance = Chance(Random(f"preempt/{number}"))
        view = view_of(chance.snapshot(nodes=1 + number % 8, pods=number % 37))
        engine = engine_of(view, rows := range(len(view.nodes)), rows)
        for turn in range(4):
            pod = replace(chance.pod(f"new-{turn}"), priority=1 + 8 * (turn % 2))
            if conflicts(pod) or (filtered := engine.filter(pod)).feasible:
                continue
            fast, plain = engine.preempt(pod, filtered), preempt(pod, view, filter_nodes(pod, view))
            assert fast == plain, f"{number}/{turn}"
            counts["cleared" if plain.node else "not cleared"] += 1
            counts["spares some"] += len(plain.victims) not in (0, _lesser(pod, plain.node, view))
            looks = pod.affinity.pods or pod.affinity.anti or any(c.hard for c in pod.spread)
            counts["looks at others"] += bool(plain.node and looks)
    assert min(counts[what] for what in ("cleared", "not cleared", "spares some", "looks at others")) > 3, (
        counts
    )


def _lesser(pod: Pod, node: str | None, view: ClusterView) -> int:
    return sum(other.priority < pod.priority for other in view.nodes[node].pods) if node else 0


@pytest.mark.parametrize("number", range(40))
def test_rows_stand_in_the_order_of_keys_of_any_size(number: int) -> None:
    random, rows = Random(number), number % 7
    spans = [random.choice((1, 2, 9, 2**40, 2**62)) for _ in range(random.randint(1, 5))]
    keys = [np.array([random.randrange(-span, span) for _ in range(rows)], np.int64) for span in spans]
    wanted = sorted(range(rows), key=lambda row: [int(key[row]) for key in keys])
    assert in_order(keys).tolist() == wanted


def test_a_fork_changes_nothing_of_what_it_came_from() -> None:
    chance = Chance(Random("fork"))
    fleet = fleet_of(view_of(chance.snapshot(nodes=6, pods=6)))
    pods = [chance.pod(f"new-{turn}") for turn in range(12)]
    before = [fleet.refused(pod).codes.tolist() for pod in pods]
    fork = fleet.fork()
    placed = [fork.place(pod) for pod in pods]
    assert any(placed)
    assert [fleet.refused(pod).codes.tolist() for pod in pods] == before
    assert fork.fork().refused(pods[0]).codes.tolist() == fork.refused(pods[0]).codes.tolist()
