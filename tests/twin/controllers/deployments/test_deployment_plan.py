from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.model.json import JsonObject
from tonnage.twin.controllers.deployments.plan import (
    Action,
    CreateSet,
    DeleteSet,
    ScaleSet,
    is_complete,
    plan,
)
from tonnage.twin.controllers.deployments.replica_sets import (
    DESIRED,
    HASH_LABEL,
    HISTORY,
    MAXIMUM,
    REVISION,
    RolloutLimits,
    Sets,
    limits_of,
    new_set_body,
    new_set_patch,
    scale_annotations,
    sets_of,
    with_revision,
)
from tonnage.wire.objects import (
    Deployment,
    LabelSelector,
    ObjectMeta,
    ReplicaSet,
    WorkloadSpec,
    WorkloadStatus,
)


def _template(image: str) -> JsonObject:
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }


def _deployment(replicas: int, image: str = "new", strategy: JsonObject | None = None) -> Deployment:
    return Deployment(
        metadata=ObjectMeta(name="web", namespace="ns", uid="d", generation=1),
        spec=WorkloadSpec(
            replicas=replicas,
            selector=LabelSelector(match_labels={"app": "web"}),
            template=_template(image),
            strategy=strategy or {"type": "RollingUpdate"},
        ),
    )


def _set(
    name: str,
    replicas: int,
    *,
    available: int | None = None,
    image: str = "old",
    age: int = 0,
    notes: dict[str, str] | None = None,
) -> ReplicaSet:
    count = replicas if available is None else available
    return ReplicaSet(
        metadata=ObjectMeta(
            name=name, creation_timestamp=f"2026-01-01T00:00:{59 - age:02}Z", annotations=notes or {}
        ),
        spec=WorkloadSpec(replicas=replicas, template=_template(image)),
        status=WorkloadStatus(replicas=replicas, ready_replicas=count, available_replicas=count),
    )


def _sizes(actions: tuple[Action, ...]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for action in actions:
        match action:
            case CreateSet(replicas):
                sizes["create"] = replicas
            case ScaleSet(target, replicas):
                sizes[target.metadata.name] = replicas
            case DeleteSet(target):
                sizes[target.metadata.name] = -1
    return sizes


_ROLLING: JsonObject = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
_RECREATE: JsonObject = {"type": "Recreate"}

_STEPS = [
    pytest.param(_deployment(3), Sets(None, ()), False, {"create": 3}, id="the first set gets all pods"),
    pytest.param(
        _deployment(3, strategy=_ROLLING),
        Sets(None, (_set("old", 3),)),
        False,
        {"create": 1},
        id="a rollout begins with the surge",
    ),
    pytest.param(
        _deployment(3, strategy=_ROLLING),
        Sets(_set("new", 1, available=0, image="new"), (_set("old", 3),)),
        False,
        {},
        id="no old pod goes before the new one is available",
    ),
    pytest.param(
        _deployment(3, strategy=_ROLLING),
        Sets(_set("new", 1, image="new"), (_set("old", 3),)),
        False,
        {"old": 2},
        id="an available new pod takes the place of an old one",
    ),
    pytest.param(
        _deployment(8),
        Sets(_set("new", 2, available=0, image="new"), (_set("old", 8, available=5),)),
        False,
        {"old": 6},
        id="unhealthy old pods go first, as far as the minimum allows",
    ),
    pytest.param(
        _deployment(3, strategy=_RECREATE),
        Sets(None, (_set("old", 3),)),
        True,
        {"old": 0},
        id="Recreate takes the old pods away first",
    ),
    pytest.param(
        _deployment(3, strategy=_RECREATE),
        Sets(None, (_set("old", 0),)),
        True,
        {},
        id="Recreate waits for the last old pod to end",
    ),
    pytest.param(
        _deployment(3, strategy=_RECREATE),
        Sets(None, (_set("old", 0),)),
        False,
        {"create": 3},
        id="then Recreate makes the new set whole",
    ),
    pytest.param(
        _deployment(2),
        Sets(_set("new", 5, image="new"), ()),
        False,
        {"new": 2},
        id="a set that is too large shrinks",
    ),
]


@pytest.mark.parametrize(("deployment", "sets", "old_pods_remain", "expected"), _STEPS)
def test_one_step(
    deployment: Deployment, sets: Sets, old_pods_remain: bool, expected: dict[str, int]
) -> None:
    assert _sizes(plan(deployment, sets, old_pods_remain=old_pods_remain)) == expected


def test_a_paused_deployment_follows_its_size_but_not_its_template() -> None:
    deployment = _deployment(5)
    deployment.spec.paused = True
    assert _sizes(plan(deployment, Sets(None, (_set("old", 3),)), old_pods_remain=False)) == {"old": 5}


def test_a_resize_amid_a_rollout_is_shared_by_size() -> None:
    """The example of the Deployment documentation: 10 to 15 replicas, 8 old and 5 new, surge 3."""
    strategy: JsonObject = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
    deployment = _deployment(15, strategy=strategy)
    notes = {DESIRED: "10", MAXIMUM: "13"}
    sets = Sets(_set("new", 5, available=0, image="new", notes=notes), (_set("old", 8, age=9, notes=notes),))
    assert _sizes(plan(deployment, sets, old_pods_remain=False)) == {"old": 11, "new": 7}


def test_idle_old_sets_beyond_the_history_limit_go_lowest_revision_first() -> None:
    deployment = _deployment(1)
    deployment.spec.revision_history_limit = 1
    old = [_set(f"r{revision}", 0, notes={REVISION: revision}) for revision in ("3", "1", "2")]
    sets = Sets(_set("new", 1, image="new"), tuple(old))
    assert _sizes(plan(deployment, sets, old_pods_remain=False)) == {"r1": -1, "r2": -1}


_LIMITS = [
    ({"maxSurge": "25%", "maxUnavailable": "25%"}, 10, RolloutLimits(3, 2)),
    ({"maxSurge": 0, "maxUnavailable": 0}, 10, RolloutLimits(0, 1)),
    ({"maxSurge": 0, "maxUnavailable": "25%"}, 1, RolloutLimits(0, 1)),
    ({}, 4, RolloutLimits(1, 1)),
    ({"maxSurge": 2, "maxUnavailable": 9}, 4, RolloutLimits(2, 4)),
]


@pytest.mark.parametrize(("rolling", "replicas", "expected"), _LIMITS)
def test_surge_rounds_up_unavailable_down_and_never_are_both_zero(
    rolling: JsonObject, replicas: int, expected: RolloutLimits
) -> None:
    strategy: JsonObject = {"type": "RollingUpdate", "rollingUpdate": rolling}
    assert limits_of(_deployment(replicas, strategy=strategy)) == expected


def test_the_new_set_is_the_oldest_with_the_present_template() -> None:
    deployment = _deployment(1)
    labelled = _set("a", 1, image="new", age=5)
    labelled.spec.template["metadata"] = {"labels": {"app": "web", HASH_LABEL: "x"}}
    sets = sets_of(deployment, [_set("b", 1, image="new"), _set("old", 1, age=9), labelled])
    assert sets.new is labelled
    assert [s.metadata.name for s in sets.old] == ["old", "b"]


def test_a_set_is_named_after_its_template_and_selects_by_the_hash() -> None:
    deployment = _deployment(3)
    deployment.metadata.annotations = {
        "note": "kept",
        "kubectl.kubernetes.io/last-applied-configuration": "dropped",
        REVISION: "7",
    }
    body = new_set_body(deployment, 2, 8)
    made = msgspec.convert(body, ReplicaSet)
    digest = made.metadata.labels[HASH_LABEL]
    assert made.metadata.name == f"web-{digest}"
    assert set(digest) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert made.spec.selector.match_labels == {"app": "web", HASH_LABEL: digest}
    assert made.spec.template["metadata"]["labels"][HASH_LABEL] == digest
    assert made.metadata.annotations == {"note": "kept", REVISION: "8", **scale_annotations(deployment)}
    assert sets_of(deployment, [made]).new is made
    assert new_set_patch(deployment, Sets(made, ())) is None
    other = msgspec.convert(new_set_body(_deployment(3, image="other"), 2, 8), ReplicaSet)
    assert other.metadata.name != made.metadata.name
    deployment.status.collision_count = 1
    assert msgspec.convert(new_set_body(deployment, 2, 8), ReplicaSet).metadata.name != made.metadata.name


def test_going_back_to_an_old_template_makes_its_set_the_newest_revision() -> None:
    deployment = _deployment(1, image="old")
    sets = sets_of(
        deployment,
        [
            _set("first", 0, age=9, notes={REVISION: "1"}),
            _set("second", 1, image="new", notes={REVISION: "2"}),
        ],
    )
    assert sets.new is not None
    assert sets.new.metadata.name == "first"
    notes: JsonObject = {REVISION: "3", HISTORY: "1"}
    assert new_set_patch(deployment, sets) == {"metadata": {"annotations": notes}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "7"),
        ("1,4", "1,4,7"),
        (",".join(["99"] * 667), ",".join(["99"] * 666 + ["7"])),
    ],
    ids=["the first", "one more", "the oldest are forgotten beyond 2000 characters"],
)
def test_a_set_remembers_the_revisions_that_it_was(before: str, after: str) -> None:
    assert with_revision(before, "7") == after


@given(
    replicas=st.integers(0, 12),
    surge=st.one_of(st.integers(0, 4), st.sampled_from(("10%", "25%", "100%"))),
    unavailable=st.one_of(st.integers(0, 4), st.sampled_from(("10%", "25%", "100%"))),
    old=st.lists(st.integers(0, 6), max_size=3),
    choices=st.lists(st.integers(0, 7), min_size=60, max_size=60),
)
def test_a_rollout_keeps_its_limits_at_every_step_and_ends(
    replicas: int, surge: int | str, unavailable: int | str, old: list[int], choices: list[int]
) -> None:
    strategy: JsonObject = {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
    }
    deployment = _deployment(replicas, strategy=strategy)
    limits = limits_of(deployment)
    share = [min(size, replicas) for size in old]
    while sum(share) > replicas:
        share.pop()
    sets = Sets(None, tuple(_set(f"old-{i}", size, age=9 - i) for i, size in enumerate(share)))
    floor = min(sum(share), replicas - limits.unavailable)
    for choice in [*choices, *[7] * 60]:
        actions = plan(deployment, sets, old_pods_remain=False)
        for action in actions:
            sets = _apply(sets, action)
        assert sum(s.spec.replicas for s in sets.all) <= replicas + limits.surge
        assert sum(s.status.available_replicas for s in sets.all) >= min(floor, replicas - limits.unavailable)
        sets = Sets(sets.new and _come_up(sets.new, choice), tuple(_come_up(s, choice) for s in sets.old))
    assert is_complete(deployment, sets)
    assert plan(deployment, sets, old_pods_remain=False) == ()


def _apply(sets: Sets, action: Action) -> Sets:
    match action:
        case CreateSet(replicas):
            return Sets(_set("new", replicas, available=0, image="new"), sets.old)
        case ScaleSet(target, replicas):
            left = min(target.status.available_replicas, replicas)
            resized = _resized(target, replicas, left)
            if sets.new is target:
                return Sets(resized, sets.old)
            return Sets(sets.new, tuple(resized if s is target else s for s in sets.old))
        case DeleteSet(target):
            return Sets(sets.new, tuple(s for s in sets.old if s is not target))


def _come_up(replica_set: ReplicaSet, pods: int) -> ReplicaSet:
    """Up to `pods` more of its pods become available."""
    size = replica_set.spec.replicas
    return _resized(replica_set, size, min(replica_set.status.available_replicas + pods, size))


def _resized(replica_set: ReplicaSet, replicas: int, available: int) -> ReplicaSet:
    return ReplicaSet(
        metadata=replica_set.metadata,
        spec=msgspec.structs.replace(replica_set.spec, replicas=replicas),
        status=WorkloadStatus(replicas=replicas, available_replicas=available, ready_replicas=available),
    )
