"""A what-if places pods as the engine does that judges node by node, on clusters made by chance."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from support.claim_fleets import LARGE, MODEL, asking, asking_first_of, claim_fleet, claiming
from support.random_clusters import Chance
from tonnage.decide.kubernetes.claims.pod_claims import claims_of
from tonnage.decide.kubernetes.scheduler.scheduling import schedule_on
from tonnage.decide.kubernetes.view import view_of
from tonnage.diagnose.simulate.what_if import what_if
from tonnage.model.kubernetes.cluster import PodStatus, Snapshot
from tonnage.model.kubernetes.resource_claims import AllocatedDevice, ClaimAllocation

pytestmark = pytest.mark.long

NUMA = "gpu.nvidia.com/numa"


def places_one_by_one(snapshot: Snapshot) -> tuple[dict[str, str | None], Counter[str]]:
    """Where every waiting pod goes, and what happened on the way: the same rule in few plain lines."""
    view = replace(view_of(snapshot), nominated={})
    queue = [p for p in snapshot.pods if not p.node_name and not p.finished and not p.status.terminating]
    again: set[tuple[str, str]] = set()
    found: dict[str, str | None] = {}
    counts: Counter[str] = Counter()
    while queue:
        queue.sort(key=lambda p: (-p.priority, p.key in again, p.namespace, p.name))
        pod = queue.pop(0)
        pod = replace(pod, status=replace(pod.status, nominated_node=""))
        decision = schedule_on(pod, view)
        chosen = decision.chosen
        counts["placed" if chosen else "refused"] += 1
        if chosen is None and decision.nominated and decision.victims:
            chosen = decision.nominated
            view = view.with_node(view.nodes[chosen].without(decision.victims))
            counts["preempted"] += 1
            for victim in decision.victims:
                found.pop(victim.name, None)
                again.add(victim.key)
                fresh = replace(victim, node_name="", status=PodStatus())
                queue += [fresh] if victim.owner else []
        if chosen is not None:
            view = view.with_node(view.nodes[chosen].plus([replace(pod, node_name=chosen)]))
        found[pod.name] = chosen
    return found, counts


@pytest.mark.parametrize("start", range(2))
def test_pods_go_where_the_plain_engine_puts_them(start: int) -> None:
    counts: Counter[str] = Counter()
    for number in range(start, 160, 2):
        chance = Chance(Random(f"what-if/{number}"))
        snapshot = chance.snapshot(nodes=2 + number % 9, pods=number % 16)
        waits = tuple(chance.pod(f"new-{turn}") for turn in range(2 + number % 6))
        snapshot = replace(snapshot, pods=(*snapshot.pods, *waits))
        expected, seen = places_one_by_one(snapshot)
        outcome = what_if(snapshot, []).before
        told = {f.candidate.pod.name: f.node for f in outcome.fates if not f.lost}
        assert told == expected, number
        counts += seen
    assert min(counts[what] for what in ("placed", "refused", "preempted")) > 2


@pytest.mark.parametrize("version", ["1.35", "1.37"])
def test_pods_with_claims_go_where_the_plain_engine_puts_them(version: str) -> None:
    counts: Counter[str] = Counter()
    shapes = [
        (asking(1),), (asking(2, LARGE),), (asking(1, MODEL), asking(1)), (asking(2, constraint=NUMA),),
        (asking_first_of((2, LARGE), (1, MODEL)),),
    ]  # fmt: skip
    for number in range(8):
        chance = Random(f"{version}/{number}")
        snapshot = claim_fleet(chance, 2 + 2 * number, version)
        made = [claiming(f"new-{turn:02}", *chance.choice(shapes), cpu=500) for turn in range(4 + 2 * number)]
        claims = (*snapshot.claims, *(claim for _, own in made for claim in own))
        snapshot = replace(snapshot, pods=tuple(pod for pod, _ in made), claims=claims)
        outcome = what_if(snapshot, []).before
        told = {fate.candidate.pod.name: fate.node for fate in outcome.fates}
        assert told == _claims_one_by_one(snapshot), number
        counts.update("placed" if node else "refused" for node in told.values())
    assert min(counts["placed"], counts["refused"]) > 5


def _claims_one_by_one(snapshot: Snapshot) -> dict[str, str | None]:
    """Where every waiting pod goes, each on a cluster read anew with the devices that are given by then."""
    chosen: dict[str, str | None] = {}
    for pod in snapshot.pods:
        view = view_of(snapshot)
        node = chosen[pod.name] = schedule_on(pod, view).chosen
        if node is None:
            continue
        waiting = claims_of(pod, view.supply.claims).waiting
        given = dict(zip(waiting, view.allocator.devices_on(view.nodes[node].node, waiting), strict=True))
        allocated = {
            claim.key: ClaimAllocation(tuple(AllocatedDevice(entry.request, entry.id) for entry in picked))
            for claim, picked in given.items()
        }
        claims = tuple(
            replace(claim, allocation=allocated.get(claim.key, claim.allocation)) for claim in snapshot.claims
        )
        there = tuple(replace(p, node_name=node) if p is pod else p for p in snapshot.pods)
        snapshot = replace(snapshot, pods=there, claims=claims)
    return chosen
