"""On columns the loop places as the engine does, whatever else happens meanwhile."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from support.random_clusters import Chance
from tonnage.decide.kubernetes.scheduler.scheduling import schedule_on
from tonnage.decide.kubernetes.versions import profile_for
from tonnage.model.kubernetes.cluster import Pod, PodStatus
from tonnage.twin.scheduler.cache import SchedulerCache
from tonnage.twin.scheduler.columns import SchedulerColumns


def _waiting(pod: Pod) -> Pod:
    return replace(
        pod, node_name="", claims=(), volumes=(), disks=(), unmodelled=(), gates=(), status=PodStatus()
    )


class Side:
    """A cache that is told what happens."""

    def __init__(self, random: Random, chance: Chance) -> None:
        self.snapshot = chance.snapshot(12, 20)
        self.cache = SchedulerCache(profile_for("1.35"), SchedulerColumns(least_nodes=1))
        self.random = random
        self.bound: dict[tuple[str, str], Pod] = {}
        for node in self.snapshot.nodes:
            self.cache.set_node(node.name, node)
        for pod in self.snapshot.pods:
            self.cache.set_pod(pod.key, pod)
            if pod.node_name:
                self.bound[pod.key] = pod

    def happen(self) -> None:
        """Something other than the coming of a waiting pod."""
        names = [node.name for node in self.snapshot.nodes]
        key = self.random.choice([*self.bound]) if self.bound else None
        match self.random.randrange(7):
            case 0 if key:
                self.cache.set_pod(key, None)
                del self.bound[key]
            case 1 if key:
                self._tell(replace(self.bound[key], status=PodStatus(phase="Running")))
            case 2 if key:
                self._tell(replace(self.bound[key], status=PodStatus(terminating=True)))
            case 3 if key:
                self._tell(replace(self.bound[key], labels={"app": self.random.choice("abc")}))
            case 4:
                node = self.random.choice(self.snapshot.nodes)
                self.cache.set_node(node.name, replace(node, unschedulable=self.random.random() < 0.5))
            case 5 if key:
                other = replace(self.bound[key], name=f"other-{self.random.random()}")
                self._tell(replace(other, node_name=self.random.choice(names)))
            case _:
                self.cache.set_node(self.snapshot.nodes[0].name, self.snapshot.nodes[0])

    def _tell(self, pod: Pod) -> None:
        self.cache.set_pod(pod.key, pod)
        self.bound[pod.key] = pod


@pytest.mark.sampled("random clusters in columns", share="1/4")
@pytest.mark.parametrize("seed", range(40))
def test_columns_choose_as_the_engine_does(seed: int) -> None:
    random = Random(seed)
    chance = Chance(random)
    side = Side(random, chance)
    if seed % 2:  # nodes that are being cleared leave all to the engine
        for pod in side.snapshot.pods:
            if not pod.node_name:
                side.cache.set_pod(pod.key, None)
    placed = 0
    for number in range(25):
        if random.random() < 0.4:
            side.happen()
        pod = _waiting(chance.pod(f"new-{number}"))
        side.cache.set_pod(pod.key, pod)
        wanted = schedule_on(pod, side.cache.view(side.snapshot))
        got = side.cache.place(pod, lambda: side.snapshot)
        assert got in (None, wanted.chosen)
        if got is None:
            continue
        placed += 1
        assert side.cache.pod(pod.key) == replace(pod, node_name=got)
        if random.random() < 0.2:
            side.cache.forget(pod.key)  # it could not be bound
        elif random.random() < 0.7:
            shown = replace(pod, node_name=got)
            side.cache.set_pod(pod.key, shown)
            side.bound[pod.key] = shown
    assert placed or not seed % 2


def test_few_nodes_are_the_engines() -> None:
    chance = Chance(Random(1))
    snapshot = chance.snapshot(5, 0)
    cache = SchedulerCache(profile_for("1.35"))
    for node in snapshot.nodes:
        cache.set_node(node.name, node)
    assert cache.place(_waiting(chance.pod("p")), lambda: snapshot) is None
