"""The filters and requests where no recording reaches: tables with a sentence each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.kubernetes.matching import requirement_holds, term_matches, tolerates
from tonnage.decide.kubernetes.requests import pod_requests, scored_requests
from tonnage.decide.kubernetes.scheduler.filters import claims, volume_use, volumes
from tonnage.decide.kubernetes.scheduler.filters.order import FILTERS
from tonnage.decide.kubernetes.scheduler.fleet import filters
from tonnage.decide.kubernetes.scheduler.refusal import Filter
from tonnage.decide.kubernetes.scheduler.scheduling import SchedulingDecision, schedule
from tonnage.decide.kubernetes.versions import profile_for
from tonnage.decide.kubernetes.view import NodeView
from tonnage.documents.scheduler import plugins
from tonnage.model.kubernetes.cluster import (
    Affinity,
    Container,
    Node,
    Pod,
    PodStatus,
    PodTerm,
    PreferredTerm,
    Snapshot,
    SpreadConstraint,
)
from tonnage.model.kubernetes.resource_claims import DeviceClass
from tonnage.model.kubernetes.selectors import LabelSelector, NodeSelectorTerm, Requirement, Taint, Toleration
from tonnage.model.reasons.pod.scheduling import (
    NodeUnschedulable,
    PodAffinityMismatch,
    PodAntiAffinityOfOthers,
    ResourceNotAdvertised,
    TaintNotTolerated,
    TopologySkew,
)

GPU = "nvidia.com/gpu"
HOST = "kubernetes.io/hostname"


def node(name: str, gpus: int = 0, **fields: object) -> Node:
    amounts = {"cpu": 8000, "memory": 2**36, "pods": 110, GPU: gpus}
    return replace(Node(name, {HOST: name}, allocatable=amounts, capacity=amounts), **fields)  # type: ignore[arg-type]


def pod(name: str, gpus: int = 0, **fields: object) -> Pod:
    container = Container("c", "i", {GPU: gpus} if gpus else {})
    return replace(Pod(name, containers=(container,)), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("filter_", FILTERS, ids=lambda filter_: filter_.NAME)
def test_a_filter_is_known_to_profiles_and_to_the_columns(filter_: Filter) -> None:
    assert filter_.NAME in plugins.FILTERS
    # Pods with claims or volumes are never judged on columns.
    assert filter_ in vars(filters).values() or filter_ in (claims, volume_use, volumes)


def codes(decision: SchedulingDecision, name: str) -> list[str]:
    return [reason.code for refusal in decision.refusals[name] for reason in refusal.reasons]


@pytest.mark.parametrize(
    ("requirement", "labels", "holds"),
    [
        pytest.param(Requirement("k", "In", ("a", "b")), {"k": "b"}, True, id="In takes any of its values"),
        pytest.param(Requirement("k", "NotIn", ("a",)), {}, True, id="NotIn holds where the key is absent"),
        pytest.param(Requirement("k", "DoesNotExist"), {"k": ""}, False, id="an empty value exists"),
        pytest.param(Requirement("m", "Gt", ("80000",)), {"m": "81920"}, True, id="SCH-6 memory is greater"),
        pytest.param(
            Requirement("m", "Gt", ("80000",)), {}, False, id="SCH-6 an absent label is not greater"
        ),
        pytest.param(Requirement("m", "Gt", ("80000",)), {"m": "80Gi"}, False, id="no number is not greater"),
        pytest.param(Requirement("m", "Lt", ("1", "2")), {"m": "0"}, False, id="Lt takes one value"),
        pytest.param(
            Requirement("m", "Gt", ("0",)), {"m": "9" * 19}, False, id="beyond 64 bits is no number"
        ),
        pytest.param(
            Requirement("k", "Near", ("a",)), {"k": "a"}, False, id="an unknown operator never holds"
        ),
    ],
)
def test_requirements(requirement: Requirement, labels: dict[str, str], holds: bool) -> None:
    assert requirement_holds(requirement, labels) is holds


def test_an_empty_term_matches_nothing() -> None:
    assert not term_matches(NodeSelectorTerm(), node("a"))
    empty = pod("p", affinity=Affinity(node=(NodeSelectorTerm(),)))
    assert schedule(empty, Snapshot((node("a"),))).chosen is None


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        pytest.param(Toleration(operator="Exists"), True, id="no key with Exists tolerates everything"),
        pytest.param(Toleration("k", "Exists", effect="NoExecute"), False, id="another effect does not"),
        pytest.param(Toleration("k", "", "v"), True, id="no operator means Equal"),
        pytest.param(Toleration("k", "Equal", "w"), False, id="another value does not"),
        pytest.param(Toleration("k", "Gt", "0"), False, id="Gt is behind a gate that is off"),
    ],
)
def test_tolerations(toleration: Toleration, tolerated: bool) -> None:
    assert tolerates(toleration, Taint("k", "v", "NoSchedule")) is tolerated


def test_init_containers_count_at_their_peak_and_sidecars_throughout() -> None:
    def container(gpus: int, *, sidecar: bool = False) -> Container:
        return Container(requests={GPU: gpus}, sidecar=sidecar)

    both = Pod(
        "p",
        containers=(container(1), container(2)),
        init_containers=(container(1, sidecar=True), container(4)),
        overhead={"cpu": 250},
    )
    assert pod_requests(both) == {GPU: 5, "cpu": 250}


@pytest.mark.parametrize(
    ("pod_level", "containers", "counted"),
    [
        pytest.param({}, [{"cpu": 500}, {}], (600, 2 * 200 << 20), id="who names none counts as small"),
        pytest.param({}, [{"cpu": 0}], (0, 200 << 20), id="zero is named"),
        pytest.param({"cpu": 300}, [{}, {}], (300, 2 * 200 << 20), id="the pod's own amount covers all"),
        pytest.param(
            {"cpu": 2000}, [{"memory": 5}, {}], (2000, 5), id="no small ones beside pod-level requests"
        ),
        pytest.param({GPU: 1}, [{"cpu": 5}, {}], (105, 2 * 200 << 20), id="devices are never pod-level"),
    ],
)
def test_what_a_running_pod_counts_in_scores(
    pod_level: dict[str, int], containers: list[dict[str, int]], counted: tuple[int, int]
) -> None:
    made = Pod("p", containers=tuple(Container(requests=c) for c in containers), pod_requests=pod_level)
    assert scored_requests(made, pod_level=True) == counted


@given(
    st.lists(st.integers(0, 8), max_size=4),
    st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=4),
)
def test_a_pod_never_asks_less_than_any_moment_of_it(app: list[int], init: list[tuple[int, bool]]) -> None:
    made = Pod(
        "p",
        containers=tuple(Container(requests={GPU: n}) for n in app),
        init_containers=tuple(Container(requests={GPU: n}, sidecar=s) for n, s in init),
    )
    moments = [sum(app) + sum(n for n, sidecar in init if sidecar)]
    beside = 0
    for n, sidecar in init:
        moments.append(beside + n)
        beside += n if sidecar else 0
    assert pod_requests(made).get(GPU, 0) == max(moments)


@given(st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=8))
def test_a_node_without_a_pod_is_as_if_it_had_never_come(amounts: list[tuple[int, bool]]) -> None:
    pods = [pod(f"p{i}", n) for i, (n, _) in enumerate(amounts)]
    gone = [p for p, (_, leaves) in zip(pods, amounts, strict=True) if leaves]
    kept = [p for p in pods if p not in gone]
    left = NodeView(node("a")).plus(pods).without(gone)
    fresh = NodeView(node("a")).plus(kept)
    assert {k: v for k, v in left.requested.items() if v} == {k: v for k, v in fresh.requested.items() if v}
    assert (left.scored_cpu, left.scored_memory) == (fresh.scored_cpu, fresh.scored_memory)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.lists(st.integers(1, 4), max_size=12))
def test_placing_pod_after_pod_never_gives_out_more_than_there_is(sizes: list[int], asks: list[int]) -> None:
    nodes = tuple(node(f"n{i}", gpus) for i, gpus in enumerate(sizes))
    placed: list[Pod] = []
    for i, amount in enumerate(asks):
        waiting = pod(f"p{i}", amount)
        decision = schedule(waiting, Snapshot(nodes, tuple(placed)))
        if decision.chosen is None:
            free = [n.allocatable[GPU] - given_out(n, placed) for n in nodes]
            assert max(free) < amount
        else:
            placed.append(replace(waiting, node_name=decision.chosen))
    for n in nodes:
        assert given_out(n, placed) <= n.allocatable[GPU]


def given_out(on: Node, placed: list[Pod]) -> int:
    return sum(p.containers[0].requests[GPU] for p in placed if p.node_name == on.name)


def test_finished_pods_hold_nothing_and_terminating_ones_still_do() -> None:
    def left(status: PodStatus) -> bool:
        holder = pod("h", 1, node_name="a", status=status)
        return schedule(pod("p", 1), Snapshot((node("a", 1),), (holder,))).chosen == "a"

    assert left(PodStatus("Succeeded"))
    assert left(PodStatus("Failed"))
    assert not left(PodStatus("Running", terminating=True))


def test_required_pod_affinity_lets_the_first_of_its_kind_in() -> None:
    term = PodTerm(HOST, LabelSelector((Requirement("app", "In", ("db",)),)))
    follower = pod("p", affinity=Affinity(pods=(term,)))
    nodes = (node("a"), node("b"))
    assert codes(schedule(follower, Snapshot(nodes)), "a") == [PodAffinityMismatch.code]
    first = replace(follower, labels={"app": "db"})
    assert schedule(first, Snapshot(nodes)).chosen is not None
    database = pod("db", labels={"app": "db"}, node_name="b")
    assert schedule(follower, Snapshot(nodes, (database,))).feasible == ("b",)


def test_anti_affinity_of_a_running_pod_keeps_others_away() -> None:
    term = PodTerm(HOST, LabelSelector((Requirement("app", "In", ("web",)),)))
    loner = pod("loner", node_name="a", affinity=Affinity(anti=(term,)))
    web = pod("web", labels={"app": "web"})
    decision = schedule(web, Snapshot((node("a"),), (loner,)))
    assert codes(decision, "a") == [PodAntiAffinityOfOthers.code]
    assert "1 node(s) didn't satisfy existing pods anti-affinity rules" in decision.message
    assert schedule(replace(web, namespace="other"), Snapshot((node("a"),), (loner,))).chosen == "a"


def test_a_namespace_selector_reaches_into_other_namespaces() -> None:
    everyone = PodTerm(
        HOST, LabelSelector(()), namespace_selector=LabelSelector((Requirement("team", "Exists"),))
    )
    new_pod = pod("p", affinity=Affinity(anti=(everyone,)))
    other = pod("o", namespace="other", node_name="a")
    nodes = (node("a"),)
    assert schedule(new_pod, Snapshot(nodes, (other,), namespaces={"other": {}})).chosen == "a"
    assert schedule(new_pod, Snapshot(nodes, (other,), namespaces={"other": {"team": "x"}})).chosen is None
    unknown = schedule(new_pod, Snapshot(nodes, (other,)))
    assert (unknown.chosen, bool(unknown.unmodelled)) == (None, True)


def test_min_domains_counts_missing_domains_as_empty() -> None:
    def spread(min_domains: int) -> SchedulingDecision:
        constraint = SpreadConstraint(
            HOST, 1, True, LabelSelector((Requirement("app", "Exists"),)), min_domains
        )
        new_pod = pod("one", labels={"app": "x"}, node_name="a")
        asking = pod("p", labels={"app": "x"}, spread=(constraint,))
        return schedule(asking, Snapshot((node("a"),), (new_pod,)))

    assert spread(1).chosen == "a"
    assert codes(spread(2), "a") == [TopologySkew.code]


def test_pins_to_different_nodes_at_once_are_a_conflict() -> None:
    pins = tuple(Requirement("metadata.name", "In", (name,)) for name in ("a", "b"))
    torn = pod("p", affinity=Affinity(node=(NodeSelectorTerm(fields=pins),)))
    assert schedule(torn, Snapshot((node("a"),))).message == (
        "0/1 nodes are available: pod affinity terms conflict. not found"
    )
    assert schedule(torn, Snapshot((node("a"),)), version="1.33").message == (
        "0/1 nodes are available: pod affinity terms conflict. "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


def test_a_node_that_offers_a_resource_is_asked_for_it_and_others_for_devices_of_its_class() -> None:
    offered = Snapshot((node("a", 1), node("b")), device_classes=(DeviceClass("gpu", extended_resource=GPU),))
    assert schedule(pod("p", 1), offered, version="1.36").chosen == "a"
    assert schedule(pod("p", 2), offered, version="1.36").message == (
        f"0/2 nodes are available: 1 Insufficient {GPU}, 1 cannot allocate all claims. "
        "still not schedulable, preemption: 0/2 nodes are available: "
        "2 Preemption is not helpful for scheduling."
    )


def test_from_1_37_a_refusal_does_not_speak_of_claims() -> None:
    refused = schedule(pod("p", 9), Snapshot((node("a", 1),)), version="1.37")
    assert refused.message == (
        f"0/1 nodes are available: 1 Insufficient {GPU}. "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


def test_a_pod_waits_for_the_victims_of_its_own_preemption() -> None:
    leaving = pod("v", 1, node_name="a", status=PodStatus("Running", terminating=True, preempted=True))
    waiting = pod("p", 1, priority=10, status=PodStatus(nominated_node="a"))
    decision = schedule(waiting, Snapshot((node("a", 1),), (leaving, waiting)))
    assert decision.message == (
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, "
        "preemption: not eligible due to a terminating pod on the nominated node."
    )
    assert decision.keeps_nomination


def test_a_nominated_pod_holds_its_place_against_equals_not_against_betters() -> None:
    promised = pod("n", 1, priority=10, status=PodStatus(nominated_node="a"))
    snapshot = Snapshot((node("a", 1),), (promised,))
    assert schedule(pod("p", 1, priority=10), snapshot).chosen is None
    assert schedule(pod("p", 1, priority=11), snapshot).chosen == "a"
    assert schedule(promised, snapshot).chosen == "a"


def test_releases() -> None:
    known = ("1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37")
    assert tuple(profile_for(v).release for v in known) == known
    assert [profile_for(v).verified for v in ("1.35", "v1.35.4+k3s1", "", "1.36", "1.34.4", "1.37")] == [
        True
    ] * 6
    assert not any(profile_for(v).verified for v in ("1.31", "1.32", "1.33", "1.34.1", "1.30", "1.38"))
    assert profile_for("1.29").hides_taints is False
    assert profile_for("1.40").hides_taints is True
    with pytest.raises(ValueError, match="no Kubernetes version"):
        profile_for("latest")


def test_a_thorough_decision_keeps_the_first_refusal_first() -> None:
    tainted = node("a", taints=(Taint("k", "", "NoSchedule"),), unschedulable=True)
    quick = schedule(pod("p", 1), Snapshot((tainted,)))
    whole = schedule(pod("p", 1), Snapshot((tainted,)), thorough=True)
    assert codes(quick, "a") == [NodeUnschedulable.code]
    assert codes(whole, "a") == [NodeUnschedulable.code, TaintNotTolerated.code, ResourceNotAdvertised.code]
    assert quick.message == whole.message


@pytest.mark.parametrize(
    ("honour", "chosen"),
    [
        pytest.param(
            False, None, id="a tainted node is the emptiest domain, though the pod may not go there"
        ),
        pytest.param(True, "a", id="with Honor only nodes that the pod tolerates are domains"),
    ],
)
def test_spreading_looks_at_taints_only_when_told(honour: bool, chosen: str | None) -> None:
    app = LabelSelector((Requirement("app", "In", ("x",)),))
    constraint = SpreadConstraint(HOST, 1, hard=True, selector=app, honour_taints=honour)
    waiting = pod("p", labels={"app": "x"}, spread=(constraint,))
    running = pod("q", labels={"app": "x"}, node_name="a")
    tainted = node("b", taints=(Taint("k", "", "NoSchedule"),))
    assert schedule(waiting, Snapshot((node("a"), tainted), (running,))).chosen == chosen


_NOT_A_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_NEGATIVE = f'[0].matchExpressions[0].values[0][n]: Invalid value: "-1": {_NOT_A_VALUE}'
_WORD = "[0].matchExpressions[0].values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be"


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        pytest.param(Requirement("n", "Gt", ("-1",)), _NEGATIVE, id="a number that no label can be"),
        pytest.param(Requirement("n", "NotIn", ("-1",)), _NEGATIVE, id="what no label can be, left out"),
        pytest.param(Requirement("n", "Lt", ("x",)), f"{_WORD} an integer", id="no number"),
        pytest.param(Requirement("n", "Gt", ("1",)), "", id="a number"),
    ],
)
def test_a_value_that_no_label_can_have(requirement: Requirement, message: str) -> None:
    """Required it matches nothing; preferred it fails the pod as soon as there are nodes to compare."""
    term = NodeSelectorTerm((requirement,))
    nodes = tuple(replace(node(name), labels={"n": "5"}) for name in ("a", "b"))
    required = schedule(pod("p", affinity=Affinity(node=(term,))), Snapshot(nodes))
    assert bool(required.feasible) is not bool(message)
    preferred = pod("p", affinity=Affinity(node_preferred=(PreferredTerm(1, term),)))
    decision = schedule(preferred, Snapshot(nodes))
    assert decision.message == (f'running PreScore plugin "NodeAffinity": {message}' if message else "")
    assert schedule(preferred, Snapshot(nodes[:1])).chosen == "a"


def test_a_pod_that_waits_shuns_nobody_unless_one_that_runs_does() -> None:
    affinity = Affinity(anti=(PodTerm(HOST, LabelSelector(), (), None),))
    waiting = pod("next", uid="n", affinity=affinity, priority=9, status=PodStatus(nominated_node="a"))
    running = pod("here", uid="h", affinity=affinity, node_name="b")
    nodes = (node("a"), node("b"), node("c"))
    assert schedule(pod("p"), Snapshot(nodes, pods=(waiting,))).feasible == ("a", "b", "c")
    assert schedule(pod("p"), Snapshot(nodes, pods=(waiting, running))).feasible == ("c",)
