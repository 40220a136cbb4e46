"""KubeSchedulerConfiguration: what its profiles decide by, and every fault of it at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tonnage.documents.scheduler.config import scheduler_profiles
from tonnage.model.errors import ConfigError
from tonnage.model.kubernetes.scheduler_profile import DefaultSpread, FitRating, SchedulerProfile, Strategy

Body = dict[str, Any]


NEEDED = ("PrioritySort", "DefaultBinder")


def read(*profiles: Body, **more: Any) -> tuple[SchedulerProfile, ...]:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return scheduler_profiles(json.dumps({**head, "profiles": [*profiles], **more}), "s.yaml")


def plugins(**sets: Body) -> Body:
    return {"plugins": sets}


def named(*names: str) -> list[Body]:
    return [{"name": name} for name in names]


def args(name: str, **fields: Any) -> Body:
    return {"pluginConfig": [{"name": name, "args": fields}]}


def test_a_profile_that_says_nothing_decides_as_a_scheduler_without_configuration() -> None:
    [profile] = read({})
    assert profile == SchedulerProfile("default-scheduler")
    assert profile.is_default


def test_gpus_are_packed_where_the_profile_says_so() -> None:
    resources = [{"name": "nvidia.com/gpu", "weight": 5}, {"name": "cpu"}]
    scoring = {"type": "MostAllocated", "resources": resources}
    [profile] = read(args("NodeResourcesFit", scoringStrategy=scoring))
    assert profile.fit == FitRating(Strategy.MOST, (("nvidia.com/gpu", 5), ("cpu", 1)))
    assert not profile.is_default


@pytest.mark.parametrize(
    ("sets", "filters", "weights"),
    [
        pytest.param(
            {"score": {"enabled": [{"name": "ImageLocality", "weight": 9}]}},
            None,
            {"ImageLocality": 9, "TaintToleration": 3},
            id="a weight of one point",
        ),
        pytest.param(
            {"multiPoint": {"disabled": named("*"), "enabled": named(*NEEDED, "NodeName")}},
            ("NodeName",),
            {},
            id="nothing but what is named",
        ),
        pytest.param(
            {"filter": {"disabled": named("*"), "enabled": named("NodePorts", "NodeName")}},
            ("NodePorts", "NodeName"),
            None,
            id="one point in an order of its own",
        ),
        pytest.param(
            {"multiPoint": {"enabled": [{"name": "NodeAffinity", "weight": 4}]}},
            ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity"),
            {"NodeAffinity": 4, "TaintToleration": 3},
            id="a weight for all points keeps the order",
        ),
        pytest.param(
            {"filter": {"enabled": named("NodeAffinity")}},
            ("NodeAffinity", "NodeUnschedulable", "NodeName", "TaintToleration"),
            None,
            id="what is named comes first",
        ),
    ],
)  # fmt: skip
def test_sets_of_plugins(sets: Body, filters: tuple[str, ...] | None, weights: Body | None) -> None:
    [profile] = read(plugins(**sets))
    if filters is None:
        assert profile.filters is None
    else:
        assert profile.filters is not None
        assert profile.filters[: len(filters)] == filters
    if weights is None:
        assert profile.weights is None
    else:
        assert profile.weights is not None
        assert {name: profile.weights[name] for name in weights} == weights
        assert bool(weights) == bool(profile.weights)


def test_arguments_of_plugins() -> None:
    constraint = {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
    spread = args("PodTopologySpread", defaultingType="List", defaultConstraints=[constraint])
    [profile] = read({**spread, "percentageOfNodesToScore": 70}, percentageOfNodesToScore=30)
    assert profile.spread == (DefaultSpread("rack", 2, hard=True),)
    assert profile.percent == 70
    [none, other] = read(
        {"schedulerName": "a", **args("PodTopologySpread", defaultingType="List")},
        {"schedulerName": "b", **args("InterPodAffinity", hardPodAffinityWeight=7)},
        percentageOfNodesToScore=30,
    )
    assert (none.spread, none.percent, other.required_weight) == ((), 30, 7)


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (plugins(score={"enabled": named("Coscheduling")}), "the scheduler's plugin Coscheduling"),
        (plugins(preFilter={"disabled": named("NodePorts")}), "NodePorts without its preFilter"),
        (
            plugins(filter={"disabled": named("VolumeZone")}),
            "a profile that asks some of the plugins for volumes",
        ),
    ],
)  # fmt: skip
def test_what_is_not_known_is_said(profile: Body, message: str) -> None:
    [read_profile] = read(profile)
    assert read_profile.unknown == (message,)
    assert read({}, extenders=[{"urlPrefix": "http://x"}])[0].unknown == ("the scheduler's extenders",)


def test_every_fault_is_told_with_its_place() -> None:
    shape = [{"utilization": 50, "score": 1}, {"utilization": 20, "score": 11}]
    constraint = {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}
    faults = [
        args("NodeResourcesFit", scoringStrategy={"type": "RequestedToCapacityRatio"}),
        args("NodeResourcesBalancedAllocation", resources=[{"name": "cpu", "weight": 3}]),
        args("PodTopologySpread", defaultConstraints=[constraint]),
        args("NodeResourcesFit", scoringStrategy={"requestedToCapacityRatio": {"shape": shape}}),
        plugins(bind={"disabled": named("DefaultBinder")}),
    ]
    faults = [{"schedulerName": name, **fault} for name, fault in zip("aabcd", faults, strict=True)]
    with pytest.raises(ConfigError) as raised:
        read(*faults)
    told = "\n".join(f"{problem.where} {problem.what}" for problem in raised.value.problems)
    for text in (
        "two profiles are called a",
        "RequestedToCapacityRatio needs",
        "cpu has weight 3",
        "defaultingType: List",
        "score",
        "no plugin is enabled for bind",
    ):
        assert text in told
    assert all(problem.where.startswith("s.yaml:1:") for problem in raised.value.problems)
    with pytest.raises(ConfigError, match="percentageOfNodesToScor"):
        read({}, percentageOfNodesToScor=3)
