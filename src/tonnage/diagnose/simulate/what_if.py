"""A what-if: the cluster as it is, then each alternative, its pods placed and its figures taken."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from tonnage.decide.kubernetes.view import ClusterView, view_of
from tonnage.diagnose.cluster_view import LARGE, Ground, marks_of
from tonnage.diagnose.missing_kinds import OF_CLAIMS, unread_text
from tonnage.diagnose.notable_nodes import notable_nodes_of
from tonnage.diagnose.simulate.changed_cluster import (
    DisplacementCause,
    Fork,
    Memory,
    Origin,
    WaitingPod,
    fork_of,
    fresh,
)
from tonnage.diagnose.simulate.class_figures import figures_by_class
from tonnage.diagnose.simulate.measures import figures_of
from tonnage.diagnose.simulate.node_changes import change_nodes, chosen_nodes
from tonnage.diagnose.simulate.outcomes import Fate, SimulatedCluster, WhatIf
from tonnage.diagnose.simulate.placements import Placed, Scene, scene_of
from tonnage.diagnose.simulate.pod_shapes import Reference, references_of
from tonnage.diagnose.simulate.waiting_reasons import reasons_of, refusals_of
from tonnage.diagnose.simulate.workload_changes import change_workloads
from tonnage.model.changes import (
    AddNodes,
    AddWorkload,
    Alternative,
    Change,
    CordonNode,
    Drain,
    Replay,
    ScaleWorkload,
)
from tonnage.model.errors import ConfigError
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.name_lists import listed

Tell = Callable[[str, int, int], None]
"""Is told the alternative, how many pods were tried, and how many there are."""

_STEP: Final = 500
_BEFORE: Final = "before"


def what_if(
    snapshot: Snapshot, alternatives: Sequence[Alternative], *, version: str = "", tell: Tell | None = None
) -> WhatIf:
    """The answer. Pods that wait now are tried before and after, so that both are told as they settle.

    Raises:
        ConfigError: changes that cannot be made, all of them.
        ValueError: `version` (or, when empty, the snapshot's own) is no Kubernetes version.
    """
    base, memory = view_of(snapshot, version=version), Memory()
    forks = [forked(base, memory, candidate_or_alternative) for candidate_or_alternative in alternatives]
    problems = [problem for fork in forks for problem in fork.problems]
    if problems:
        raise ConfigError(*dict.fromkeys(problems))
    added = [
        candidate_or_alternative.pod
        for fork in forks
        for candidate_or_alternative in fork.queue
        if candidate_or_alternative.origin is Origin.ADDED
    ]
    references = references_of((*(p for p in snapshot.pods if not p.finished), *added))
    before = _outcome(Alternative(_BEFORE), fork_of(base, memory), references, tell)
    outcomes = [_outcome(a, fork, references, tell) for a, fork in zip(alternatives, forks, strict=True)]
    return WhatIf(before, tuple(outcomes))


def forked(base: ClusterView, memory: Memory, alternative: Alternative) -> Fork:
    """The cluster under the changes of an alternative, in their order; no pod is placed yet."""
    fork = fork_of(base, memory)
    for change in alternative.changes:
        if isinstance(change, AddWorkload | ScaleWorkload | Replay):
            change_workloads(fork, change)
        else:
            change_nodes(fork, change)
    return fork


def _outcome(
    alternative: Alternative, fork: Fork, references: Mapping[str, tuple[Reference, ...]], tell: Tell | None
) -> SimulatedCluster:
    scene = scene_of(fork)
    fates = list(_fates(scene, fork, lambda done, of: tell(alternative.name, done, of) if tell else None))
    waits = [f.candidate for f in fates if f.node is None and not f.unknown]
    waiting, codes = reasons_of(waits, _ground(scene), _closed(fork, alternative)) if waits else ((), {})
    lost = [Fate(candidate, lost=True) for candidate in fork.lost]
    lost += [Fate(candidate, code=reason.code) for candidate, reason in fork.refused]
    unknown: dict[str, list[str]] = {}
    for fate in fates:
        for cause in fate.unknown:
            unknown.setdefault(cause, []).append(fate.name)
    return SimulatedCluster(
        alternative.name,
        tuple(map(str, alternative.changes)),
        len(scene.nodes),
        scene.pods,
        (*(_coded(fate, codes) for fate in fates), *lost),
        (*refusals_of(fork.refused), *waiting),
        (*figures_of(scene.fleet, references, scene.view.snapshot.gpu), *figures_by_class(scene.view)),
        tuple(_notes(fork, scene)),
        {cause: tuple(names) for cause, names in unknown.items()},
        "Pod" not in fork.base.snapshot.missing,
        any(_may_displace(change) for change in alternative.changes),
    )


def _may_displace(change: Change) -> bool:
    """Whether pods that run may lose their place by a change, or other pods may."""
    return not isinstance(change, AddNodes | AddWorkload | CordonNode)


def _closed(fork: Fork, alternative: Alternative) -> frozenset[str]:
    """Nodes that the alternative cordons or drains."""
    closing = (
        c for c in alternative.changes if isinstance(c, Drain) or (isinstance(c, CordonNode) and not c.undo)
    )
    return frozenset(name for change in closing for name in chosen_nodes(fork, change.nodes))


def _ground(scene: Scene) -> Ground:
    view = scene.settled()
    engine = scene.engine(marks_of(view)) if len(view.nodes) >= LARGE else None
    return Ground(view, notable_nodes_of(view), engine)


def _coded(fate: Fate, codes: Mapping[str, str]) -> Fate:
    if fate.node is not None or fate.unknown:
        return fate
    return Fate(fate.candidate, code=codes.get(fate.name, ""))


def _fates(scene: Scene, fork: Fork, tell: Callable[[int, int], None]) -> Iterable[Fate]:
    """What becomes of each pod of the queue; of those, too, that are preempted on the way."""
    queue = [(fork.turn(candidate), n, candidate) for n, candidate in enumerate(fork.queue)]
    heapq.heapify(queue)
    fates: dict[tuple[str, str], Fate] = {}
    unread = _unread(fork.base.snapshot)
    count = len(queue)
    while queue:
        _, _, candidate = heapq.heappop(queue)
        if len(fates) % _STEP == 0:
            tell(len(fates), count)
        placed = scene.place(candidate.pod) if not unread else Placed(unknown=unread)
        fates[candidate.pod.key] = Fate(candidate, placed.node, unknown=placed.unknown)
        for victim in placed.victims:
            again = WaitingPod(fresh(victim), Origin.DISPLACED, victim.node_name, DisplacementCause.PREEMPTED)
            fates.pop(victim.key, None)
            if victim.owner is None:
                fork.lost.append(again)
            else:
                count += 1
                heapq.heappush(queue, (fork.turn(again), count, again))
    tell(count, count)
    return fates.values()


def _unread(snapshot: Snapshot) -> tuple[str, ...]:
    """What keeps every pod's place from being known."""
    effects = {"Node": "where pods could run", "Pod": "what the nodes have free"}
    return tuple(
        f"{unread_text(kind, snapshot)}: Tonnage cannot tell {effect}"
        for kind, effect in effects.items()
        if kind in snapshot.missing
    )


def _notes(fork: Fork, scene: Scene) -> Iterable[str]:
    """What the answer leaves open."""
    snapshot = fork.base.snapshot
    unread = [node.name for node in scene.nodes.values() if node.node.problems]
    if unread:
        yield f"unreadable amounts count as 0: on nodes {listed(unread, 5)}"
    missing = sorted(snapshot.missing - {"NodeGPUStatus", *(() if snapshot.claims else OF_CLAIMS)})
    if missing:
        yield f"not read, and so ignored: {', '.join(missing)}"
    if "Pod" in missing:
        yield "Tonnage does not know what is allocated and free, nor which pods a change displaces"
    elsewhere = sum(
        1
        for pod in snapshot.pods
        if pod.node_name and not pod.finished and pod.node_name not in fork.base.nodes
    )
    if elsewhere:
        pods = f"{elsewhere} pod is" if elsewhere == 1 else f"{elsewhere} pods are"
        yield f"{pods} on a node that does not exist, and left out"
    unpublished = [name for name in fork.nodes if fork.is_new(name) and name not in fork.copied]
    if unpublished and any(candidate.pod.claims for candidate in fork.queue):
        nodes = listed(sorted(unpublished), 5)
        yield (
            f"added nodes offer nothing for claims: {nodes} (simulate does not derive what a DRA "
            "driver would publish there; add nodes like one that has slices)"
        )
    yield from _budgets(fork)


def _budgets(fork: Fork) -> Iterable[str]:
    """Disruption budgets that make an eviction wait."""
    from tonnage.decide.kubernetes.matching import selector_matches

    evicted = [candidate.pod for candidate in (*fork.queue, *fork.lost) if candidate.cause is not None]
    for budget in fork.base.snapshot.budgets if evicted else ():
        selector = budget.selector
        if selector is None:
            continue
        hit = [p for p in evicted if p.namespace == budget.namespace and selector_matches(selector, p.labels)]
        if len(hit) > budget.allowed:
            yield (
                f"the budget {budget.namespace}/{budget.name} lets {budget.allowed} of {len(hit)} pods go at "
                "once: the others follow as their successors come up"
            )
