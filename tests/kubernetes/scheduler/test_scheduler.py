"""Clusters and pods made by chance, with every option, on a genuine scheduler: the engine answers alike.

Nodes are only objects: an API server, its etcd and the scheduler are all there is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from random import Random

import pytest

from support.genuine_scheduler import GenuineScheduler, genuine_scheduler
from support.leftovers import own_folder
from support.random_manifests import Manifests
from support.scheduler_duel import Duel
from tonnage.cli.locations.binaries import chosen_minor
from tonnage.documents.scheduler.config import scheduler_profiles

pytestmark = pytest.mark.kubernetes

CLUSTERS = 40
CONTESTS = 40
STORED = 25
PODS = 8
MANY_NODES = 130
GPUS = {"name": "nvidia.com/gpu", "weight": 5}
BOTH = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 2}]
ALIKE = [{"name": name, "weight": 1} for name in ("nvidia.com/gpu", "cpu", "memory")]
PACKING = {
    "schedulerName": "packing",
    "plugins": {
        "score": {
            "enabled": [{"name": "NodeResourcesFit", "weight": 10}],
            "disabled": [{"name": "ImageLocality"}],
        }
    },
    "pluginConfig": [
        {
            "name": "NodeResourcesFit",
            "args": {
                "scoringStrategy": {"type": "MostAllocated", "resources": [GPUS, *BOTH]},
                "ignoredResources": ["example.com/nic"],
            },
        },
        {"name": "NodeResourcesBalancedAllocation", "args": {"resources": ALIKE}},
    ],
}
SHAPED = {
    "schedulerName": "shaped",
    "pluginConfig": [
        {
            "name": "NodeResourcesFit",
            "args": {
                "scoringStrategy": {
                    "type": "RequestedToCapacityRatio",
                    "resources": [GPUS, {"name": "ephemeral-storage", "weight": 2}, *BOTH],
                    "requestedToCapacityRatio": {
                        "shape": [
                            {"utilization": 10, "score": 1},
                            {"utilization": 40, "score": 9},
                            {"utilization": 95, "score": 3},
                        ]
                    },
                }
            },
        },
        {
            "name": "InterPodAffinity",
            "args": {"hardPodAffinityWeight": 30, "ignorePreferredTermsOfExistingPods": True},
        },
    ],
}
BOUND = {
    "schedulerName": "bound",
    "plugins": {
        "multiPoint": {"enabled": [{"name": "PodTopologySpread", "weight": 7}]},
        "filter": {"enabled": [{"name": "NodeResourcesFit"}, {"name": "NodeAffinity"}]},
    },
    "pluginConfig": [
        {
            "name": "NodeAffinity",
            "args": {
                "addedAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "tier", "operator": "Exists"}]}]
                    },
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 10,
                            "preference": {
                                "matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]
                            },
                        }
                    ],
                }
            },
        },
        {
            "name": "PodTopologySpread",
            "args": {
                "defaultingType": "List",
                "defaultConstraints": [
                    {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"},
                    {
                        "maxSkew": 2,
                        "topologyKey": "topology.kubernetes.io/zone",
                        "whenUnsatisfiable": "DoNotSchedule",
                    },
                ],
            },
        },
    ],
}
LEAN = {
    "schedulerName": "lean",
    "plugins": {
        "multiPoint": {"disabled": [{"name": "InterPodAffinity"}, {"name": "NodePorts"}]},
        "filter": {"disabled": [{"name": "TaintToleration"}]},
        "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "TaintToleration", "weight": 2}]},
        "postFilter": {"disabled": [{"name": "DefaultPreemption"}]},
    },
}


@pytest.fixture(scope="module")
def scheduler() -> Iterator[GenuineScheduler]:
    with own_folder() as folder, genuine_scheduler(folder) as scheduler:
        yield scheduler


@pytest.fixture(scope="module")
def duel(scheduler: GenuineScheduler) -> Duel:
    return Duel(scheduler, chosen_minor(os.environ))


@pytest.fixture
def around(duel: Duel) -> Duel:
    """The same, with nothing found yet."""
    duel.found.clear()
    duel.count.clear()
    duel.said.clear()
    return duel


def test_the_engine_decides_speaks_and_rates_as_the_scheduler(around: Duel) -> None:
    around.scheduler.run({"percentageOfNodesToScore": 100})
    for number in range(CLUSTERS):
        random = Random(f"{around.version}/{number}")
        manifests = Manifests(random)
        around.stage(manifests.cluster(random.randrange(1, 8), random.randrange(16)))
        for turn in range(PODS):
            if not around.judge(manifests.pod(f"new-{turn}"), f"{number}/{turn}"):
                break
        around.clear()
    assert not around.found, "\n".join(around.found)
    least = {"placed": 50, "scored": 20, "refused": 100, "nominated": 3}
    assert {kind: around.count[kind] for kind, count in least.items() if around.count[kind] < count} == {}


def test_the_engine_evicts_whom_the_scheduler_evicts(around: Duel) -> None:
    around.scheduler.run({"percentageOfNodesToScore": 100})
    for number in range(CONTESTS):
        random = Random(f"contest/{around.version}/{number}")
        manifests = Manifests(random)
        around.stage(manifests.contest(random.randrange(1, 6), random.randrange(10, 22)))
        for turn in range(PODS):
            if not around.judge(manifests.contender(f"new-{turn}"), f"contest {number}/{turn}"):
                break
        around.clear()
    assert not around.found, "\n".join(around.found)
    assert around.count["nominated"] > CONTESTS / 4


def test_the_engine_knows_where_volumes_are_and_how_many_fit(around: Duel) -> None:
    around.scheduler.run({"percentageOfNodesToScore": 100})
    for number in range(STORED):
        random = Random(f"stored/{around.version}/{number}")
        manifests = Manifests(random)
        around.stage(manifests.stored(random.randrange(1, 6), random.randrange(10)))
        for turn in range(PODS):
            if not around.judge(manifests.mount(manifests.pod(f"new-{turn}")), f"stored {number}/{turn}"):
                break
        around.clear()
    assert not around.found, "\n".join(around.found)
    assert min(around.count["placed"], around.count["refused"]) > STORED / 2
    words = ("exceed max volume count", "PersistentVolume's node affinity", "no available volume zone")
    assert [part for part in words if not any(part in text for text in around.said)] == []


def test_the_engine_decides_by_the_profiles_of_a_configuration(around: Duel) -> None:
    profiles = [PACKING, SHAPED, BOUND, LEAN]
    configuration = {"percentageOfNodesToScore": 100, "profiles": profiles}
    around.scheduler.run(configuration)
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    read = scheduler_profiles(json.dumps({**kind, **configuration}), "scheduler.json")
    around.profiles = {profile.name: profile for profile in read}
    for number in range(CLUSTERS):
        random = Random(f"profiles/{around.version}/{number}")
        manifests = Manifests(random)
        around.stage(manifests.cluster(random.randrange(2, 8), random.randrange(16)))
        for turn in range(PODS):
            pod = manifests.pod(f"new-{turn}")
            pod["spec"]["schedulerName"] = random.choice(list(around.profiles))
            if not around.judge(pod, f"profiles {number}/{turn}"):
                break
        around.clear()
    around.profiles = {}
    assert not around.found, "\n".join(around.found)
    assert min(around.count["scored"], around.count["refused"]) > 20


def test_of_many_nodes_the_scheduler_takes_one_that_the_engine_says_it_may(around: Duel) -> None:
    around.scheduler.run()
    around.samples = True
    manifests = Manifests(Random(f"many/{around.version}"))
    around.stage(manifests.many(MANY_NODES, 150))
    try:
        for turn in range(60):
            if not around.judge(manifests.pod(f"new-{turn}"), f"many/{turn}"):
                break
    finally:
        around.clear()
        around.samples = False
    assert not around.found, "\n".join(around.found)
    assert around.count["placed"] > 20
