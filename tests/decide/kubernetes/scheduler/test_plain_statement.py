"""Rules that no recording exercises, held against a second, plain statement of them on the bare objects."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.decide.kubernetes.scheduler.scheduling import schedule
from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.reading.documents import snapshot_from_documents

Body = dict[str, Any]
GPU = "nvidia.com/gpu"
ZONE = "zone"
SPACES = {"ml": {"team": "a"}, "web": {"team": "b"}}

expressions = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["app", "tier"]),
        "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
        "values": st.lists(st.sampled_from(["x", "y"]), min_size=1, max_size=2, unique=True),
    }
).map(lambda one: one if one["operator"] in ("In", "NotIn") else {**one, "values": []})
selectors = st.one_of(
    st.just({"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]}),
    st.none(),
    st.fixed_dictionaries({"matchExpressions": st.lists(expressions, max_size=2)}),
)
labels = st.one_of(
    st.just({"app": "x"}),
    st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["x", "y"]), max_size=2),
)
terms = st.fixed_dictionaries(
    {"topologyKey": st.sampled_from([ZONE, "host"]), "labelSelector": selectors},
    optional={
        "namespaces": st.lists(st.sampled_from(["ml", "web"]), max_size=2, unique=True),
        "namespaceSelector": st.sampled_from([{}, {"matchLabels": {"team": "a"}}]),
    },
)
spreads = st.fixed_dictionaries(
    {
        "topologyKey": st.sampled_from([ZONE, "host"]),
        "maxSkew": st.integers(1, 2),
        "whenUnsatisfiable": st.just("DoNotSchedule"),
        "labelSelector": selectors,
    },
    optional={
        "minDomains": st.integers(1, 3),
        "nodeAffinityPolicy": st.sampled_from(["Honor", "Ignore"]),
        "nodeTaintsPolicy": st.sampled_from(["Honor", "Ignore"]),
        "matchLabelKeys": st.just(["tier"]),
    },
)
nodes = st.lists(st.tuples(st.sampled_from(["z1", "z2", ""]), st.booleans()), min_size=1, max_size=4)


def kind_of_spread(constraint: Body) -> tuple[str, str]:
    """Of one kind the API server takes one."""
    return constraint["topologyKey"], constraint["whenUnsatisfiable"]


@st.composite
def pods(draw: st.DrawFn, name: str, size: int, *, spread: bool) -> Body:
    """A pod, bound to one of `size` nodes, or waiting where there is none; with affinity, or spread."""
    most = 0 if spread else 1
    affinity = {
        kind: {"requiredDuringSchedulingIgnoredDuringExecution": draw(st.lists(terms, max_size=most))}
        for kind in ("podAffinity", "podAntiAffinity")
    }
    metadata = {"name": name, "namespace": draw(st.sampled_from(["ml", "ml", "web"])), "labels": draw(labels)}
    if size and draw(st.integers(0, 4)) == 0:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    spec: Body = {"affinity": affinity, "containers": [{"name": "c", "image": "i"}]}
    if size:
        spec["nodeName"] = f"n{draw(st.integers(0, size - 1))}"
    else:
        spec["topologySpreadConstraints"] = (
            draw(st.lists(spreads, min_size=1, max_size=2, unique_by=kind_of_spread)) if spread else []
        )
        spec["nodeSelector"] = draw(st.sampled_from([{}, {ZONE: "z1"}]))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Running"},
    }


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Body], list[Body], Body]:
    """Nodes, running pods, one that waits."""
    made = [_node(i, zone, tainted) for i, (zone, tainted) in enumerate(draw(nodes))]
    spread = draw(st.booleans())
    running = [draw(pods(f"p{i}", len(made), spread=spread)) for i in range(draw(st.integers(0, 5)))]
    return made, running, draw(pods("new", 0, spread=spread))


def _node(index: int, zone: str, tainted: bool) -> Body:
    found = {"host": f"n{index}", **({ZONE: zone} if zone else {})}
    taints = [{"key": "k", "effect": "NoSchedule"}] if tainted else []
    amounts = {"cpu": "8", "memory": "8Gi", "pods": "9"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{index}", "labels": found},
        "spec": {"taints": taints},
        "status": {"allocatable": amounts},
    }


@settings(max_examples=200)
@given(clusters())
def test_affinity_and_spreading_over_namespaces_and_domains(
    cluster: tuple[list[Body], list[Body], Body],
) -> None:
    found, running, new = cluster
    spaces: list[Any] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": own}}
        for name, own in SPACES.items()
    ]
    snapshot: Snapshot = snapshot_from_documents(
        [{"kind": "List", "items": [*found, *running, *spaces, new]}]
    )
    waiting: Pod = next(pod for pod in snapshot.pods if pod.name == "new")
    decision = schedule(waiting, snapshot)
    expected = [node["metadata"]["name"] for node in found if takes(node, found, running, new)]
    assert sorted(decision.feasible) == sorted(expected)
    assert (decision.chosen is None) == (not expected)


# ---- the plain statement ----


def takes(node: Body, found: list[Body], running: list[Body], new: Body) -> bool:
    own = node["metadata"]["labels"]
    if node["spec"]["taints"] or not selected(new, node):
        return False
    if not all(spread_holds(c, node, found, running, new) for c in spreads_of(new)):
        return False
    return affinity_holds(own, found, running, new) and anti_holds(own, found, running, new)


def selected(pod: Body, node: Body) -> bool:
    return all(node["metadata"]["labels"].get(k) == v for k, v in pod["spec"]["nodeSelector"].items())


def spreads_of(pod: Body) -> list[Body]:
    return list(pod["spec"]["topologySpreadConstraints"])


def matches(selector: Body | None, own: Body) -> bool:
    if selector is None:
        return False
    told = [(e["key"], e["operator"], e["values"]) for e in selector.get("matchExpressions", ())]
    told += [(k, "In", [v]) for k, v in selector.get("matchLabels", {}).items()]
    return all(requirement_met(own, *requirement) for requirement in told)


def requirement_met(own: Body, key: str, operator: str, values: list[str]) -> bool:
    inside = own.get(key) in values
    return {"In": inside, "NotIn": not inside, "Exists": key in own, "DoesNotExist": key not in own}[operator]


def term_selects(term: Body, owner: Body, other: Body) -> bool:
    space = other["metadata"]["namespace"]
    listed, chosen = term.get("namespaces") or [], term.get("namespaceSelector")
    if not listed and chosen is None:
        listed = [owner["metadata"]["namespace"]]
    reached = space in listed or matches(chosen, SPACES[space])
    return reached and matches(term["labelSelector"], other["metadata"]["labels"])


def required(pod: Body, kind: str) -> list[Body]:
    return list(pod["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"])


def place_of(pod: Body, found: list[Body]) -> Body:
    labels_: Body = next(n for n in found if n["metadata"]["name"] == pod["spec"]["nodeName"])["metadata"][
        "labels"
    ]
    return labels_


def shares(term: Body, one: Body, other: Body) -> bool:
    key = term["topologyKey"]
    return key in one and one[key] == other.get(key)


def affinity_holds(own: Body, found: list[Body], running: list[Body], new: Body) -> bool:
    wanted = required(new, "podAffinity")
    kin = [p for p in running if all(term_selects(t, new, p) for t in wanted)]
    if any(t["topologyKey"] not in own for t in wanted):
        return False
    if all(any(shares(t, own, place_of(p, found)) for p in kin) for t in wanted):
        return True
    anywhere = any(t["topologyKey"] in place_of(p, found) for p in kin for t in wanted)
    return not anywhere and all(term_selects(t, new, new) for t in wanted)


def anti_holds(own: Body, found: list[Body], running: list[Body], new: Body) -> bool:
    for pod in running:
        there = place_of(pod, found)
        avoids = (t for t in required(new, "podAntiAffinity") if term_selects(t, new, pod))
        shuns = (t for t in required(pod, "podAntiAffinity") if term_selects(t, pod, new))
        if any(shares(t, own, there) for t in (*avoids, *shuns)):
            return False
    return True


def spread_holds(constraint: Body, node: Body, found: list[Body], running: list[Body], new: Body) -> bool:
    key, own = constraint["topologyKey"], new["metadata"]["labels"]
    selector = constraint["labelSelector"]
    for extra in constraint.get("matchLabelKeys", ()):
        if selector is not None and extra in own:
            kept = selector.get("matchExpressions", [])
            selector = {"matchExpressions": [*kept, {"key": extra, "operator": "In", "values": [own[extra]]}]}
    if key not in node["metadata"]["labels"]:
        return False
    counted = [n for n in found if domain_counts(constraint, n, new)]
    domains = {n["metadata"]["labels"][key]: 0 for n in counted}
    names = {n["metadata"]["name"]: n["metadata"]["labels"][key] for n in counted}
    for pod in running:
        alive = "deletionTimestamp" not in pod["metadata"] and selector not in (
            None,
            {"matchExpressions": []},
        )
        same = pod["metadata"]["namespace"] == new["metadata"]["namespace"]
        if (
            alive
            and same
            and pod["spec"]["nodeName"] in names
            and matches(selector, pod["metadata"]["labels"])
        ):
            domains[names[pod["spec"]["nodeName"]]] += 1
    least = min(domains.values(), default=0) if len(domains) >= constraint.get("minDomains", 1) else 0
    there = domains.get(node["metadata"]["labels"][key], 0)
    return bool(there + matches(selector, own) - least <= constraint["maxSkew"])


def domain_counts(constraint: Body, node: Body, new: Body) -> bool:
    if any(c["topologyKey"] not in node["metadata"]["labels"] for c in spreads_of(new)):
        return False
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not selected(new, node):
        return False
    return constraint.get("nodeTaintsPolicy", "Ignore") == "Ignore" or not node["spec"]["taints"]
