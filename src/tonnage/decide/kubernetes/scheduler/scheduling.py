"""schedulePod, one scheduling cycle: where a pod goes, or every reason why it does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from tonnage.decide.kubernetes.claims.extended_resources import backed_by_classes
from tonnage.decide.kubernetes.claims.pod_claims import claims_of, unreadable
from tonnage.decide.kubernetes.scheduler import messages
from tonnage.decide.kubernetes.scheduler.filtering import Filtered, filter_nodes, first_refusal
from tonnage.decide.kubernetes.scheduler.filters import claims as claims_filter
from tonnage.decide.kubernetes.scheduler.filters import pod_affinity, topology_spread
from tonnage.decide.kubernetes.scheduler.preemption import PreemptionOutcome, preempt
from tonnage.decide.kubernetes.scheduler.refusal import PluginRefusal
from tonnage.decide.kubernetes.scheduler.score_table import TOTAL, Scores
from tonnage.decide.kubernetes.scheduler.scores import node_affinity
from tonnage.decide.kubernetes.scheduler.scores.order import SCORES
from tonnage.decide.kubernetes.view import ClusterView, as_kept, view_of
from tonnage.decide.kubernetes.volumes import undecided_volumes, volumes_stop
from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.model.kubernetes.resource_claims import ResourceClaim

_AFTER_VOLUMES: Final = frozenset((topology_spread.NAME, pod_affinity.NAME, claims_filter.NAME))
"""Filters whose words a node gives only if its volumes are fine."""


@dataclass(frozen=True, slots=True)
class SchedulingDecision:
    """What the scheduler does with a pod in one cycle.

    `chosen` is the best node, ties broken by name. `scores` has a row per feasible node when there are two or
    more: each plugin's weighted score and their `total`. `message` is upstream's refusal, empty when the pod
    is placed, or when `unmodelled` names something that no filter here decides. `refusals` lists, per refused
    node, the refusal that counts first; the others only in a thorough decision. `held`: the pod is not tried,
    because of a claim that is not there yet.
    `equals`: the nodes of which any may be the nominated one. `failed`: `message` is the error of a plugin.
    `frees`: the claim whose devices are taken from it. `conflict` and `halted_by` are those of `Filtered`.
    `keeps_nomination`: no preemption was tried, so the node that was nominated before stays so.
    """

    chosen: str | None = None
    feasible: tuple[str, ...] = ()
    scores: Scores = field(default_factory=Scores)
    message: str = ""
    gates: tuple[str, ...] = ()
    held: str = ""
    failed: bool = False
    nominated: str | None = None
    victims: tuple[Pod, ...] = ()
    equals: tuple[str, ...] = ()
    refusals: Mapping[str, tuple[PluginRefusal, ...]] = field(default_factory=dict)
    conflict: str = ""
    halted_by: str = ""
    unmodelled: tuple[str, ...] = ()
    keeps_nomination: bool = False
    frees: ResourceClaim | None = None


def schedule(
    pod: Pod, snapshot: Snapshot, *, version: str = "", thorough: bool = False
) -> SchedulingDecision:
    """Decide on a pod that waits. `thorough` collects the refusals of all filters on every node.

    Raises ValueError when `version` (or, when empty, the snapshot's own) is no Kubernetes version.
    """
    return schedule_on(pod, view_of(snapshot, version=version), thorough=thorough)


class SchedulingEngine(Protocol):
    """Filters and scores over a view by other means; what it answers is the same."""

    def filter(self, pod: Pod, /) -> Filtered:
        """As `filter_nodes` has it. Reasons may be left out."""
        ...

    def rate(self, pod: Pod, feasible: tuple[str, ...], /) -> Scores:
        """As `rated` has it."""
        ...

    def best(self, pod: Pod, /) -> str | None:
        """The feasible node with the best total, the first by name among equals."""
        ...

    def preempt(self, pod: Pod, filtered: Filtered, /) -> PreemptionOutcome:
        """As `preempt` has it, on what `filter` found."""
        ...


def schedule_on(
    pod: Pod,
    view: ClusterView,
    *,
    thorough: bool = False,
    engine: SchedulingEngine | None = None,
    scored: bool = True,
    binds: bool = False,
) -> SchedulingDecision:
    """schedulePod: `schedule` on a view that stands, so that many questions share it.

    Not `scored`: scores may lack. Who `binds` chooses the volumes himself, of those that he knows all:
    nothing is open about them.
    """
    pod = as_kept(pod, view.profile)
    # In the order of upstream's cycle: gates, claims to be made, no nodes, the nominated node, all nodes.
    if pod.gates:
        return SchedulingDecision(gates=pod.gates, message=messages.GATED)
    if pod.claims and view.profile.allocates and (missing := claims_of(pod, view.supply.claims).missing):
        return SchedulingDecision(held=missing)
    if not view.nodes:
        return SchedulingDecision(message=messages.NO_NODES)
    unmodelled = (*pod.unmodelled, *_unknowns(pod, view))
    volumes = () if binds else _unknown_volumes(pod, view)
    if not thorough and not unmodelled and not volumes and _nominated_still_fits(pod, view):
        return SchedulingDecision(pod.status.nominated_node, (pod.status.nominated_node,))
    filtered = engine.filter(pod) if engine else filter_nodes(pod, view, thorough=thorough)
    if volumes and not _surely_refused(filtered):
        unmodelled = (*unmodelled, *volumes)
    if unmodelled or filtered.unknown:
        unknown = (*unmodelled, *filtered.unknown)
        return SchedulingDecision(feasible=filtered.feasible, refusals=filtered.refusals, unmodelled=unknown)
    if filtered.error:
        return SchedulingDecision(message=filtered.error, failed=True, refusals=filtered.refusals)
    if filtered.feasible:
        return _placed(pod, view, filtered, engine, scored=scored)
    refused = _refused(pod, view, filtered, engine)
    if volumes and refused.nominated is not None:
        return SchedulingDecision(refusals=filtered.refusals, unmodelled=volumes)
    return refused


def _surely_refused(filtered: Filtered) -> bool:
    """Whether every node is refused no later than for a volume: nothing hangs on what is open there."""
    first = (refusals[0].plugin for refusals in filtered.refusals.values())
    return not filtered.feasible and not any(plugin in _AFTER_VOLUMES for plugin in first)


def _unknowns(pod: Pod, view: ClusterView) -> tuple[str, ...]:
    """What the snapshot leaves out although the pod refers to it, and what is not decided of it."""
    parts = (_unknown_namespaces, _unknown_claims)
    return (*view.settings(pod).unknown, *(text for part in parts for text in part(pod, view)))


def _unknown_namespaces(pod: Pod, view: ClusterView) -> tuple[str, ...]:
    if view.snapshot.namespaces:
        return ()
    nodes = view.nodes.values() if view.has_anti_affinity else ()
    others = (term for node in nodes for other in node.anti_affinity_pods for term in other.affinity.anti)
    for term in (*pod.affinity.pods, *pod.affinity.anti, *others):
        if term.namespace_selector is not None and term.namespace_selector.requirements:
            return ("an affinity's namespaceSelector, in a cluster whose namespaces are not known",)
    return ()


def _unknown_volumes(pod: Pod, view: ClusterView) -> tuple[str, ...]:
    """Volumes, unless something about them is wrong on every node."""
    if volumes_stop(pod, view.snapshot):
        return ()
    return undecided_volumes(pod, view.snapshot, rated=view.profile.scores_storage)


def _unknown_claims(pod: Pod, view: ClusterView) -> tuple[str, ...]:
    """What keeps the pod's claims from being judged."""
    if not pod.claims:
        return ()
    release = view.profile.release
    if not view.profile.allocates:
        names = ", ".join(claim.name for claim in pod.claims)
        return (f"resource claims ({names}) on Kubernetes {release}, where their gate is off by default",)
    return tuple(unreadable(claims_of(pod, view.supply.claims), view.supply))


def _nominated_still_fits(pod: Pod, view: ClusterView) -> bool:
    """A node that was cleared for the pod is tried alone first."""
    node = view.nodes.get(pod.status.nominated_node)
    return node is not None and first_refusal(pod, node, view) is None


def _placed(
    pod: Pod, view: ClusterView, filtered: Filtered, engine: SchedulingEngine | None, *, scored: bool
) -> SchedulingDecision:
    feasible = filtered.feasible
    nominated = pod.status.nominated_node
    if nominated in feasible:
        return SchedulingDecision(nominated, feasible, refusals=filtered.refusals)
    if len(feasible) == 1:
        return SchedulingDecision(feasible[0], feasible, refusals=filtered.refusals)
    weights = view.settings(pod).weights
    if (weights is None or node_affinity.NAME in weights) and (why := node_affinity.unreadable(pod)):
        text = f'running PreScore plugin "{node_affinity.NAME}": {why}'
        return SchedulingDecision(
            message=text, failed=True, halted_by=node_affinity.NAME, refusals=filtered.refusals
        )
    if engine and not scored:
        return SchedulingDecision(engine.best(pod), feasible, refusals=filtered.refusals)
    scores = engine.rate(pod, feasible) if engine else rated(pod, view, feasible)
    totals = scores.totals
    best = max(totals.values())
    chosen = min(name for name, total in totals.items() if total == best)
    return SchedulingDecision(chosen, feasible, scores, refusals=filtered.refusals)


def rated(pod: Pod, view: ClusterView, feasible: tuple[str, ...]) -> Scores:
    """Weighted scores by node and plugin, with their `total`."""
    nodes = {name: view.nodes[name] for name in feasible}
    columns: dict[str, list[int]] = {}
    weights = view.settings(pod).weights
    for score in SCORES:
        weight = score.WEIGHT if weights is None else weights.get(score.NAME, 0)
        column = score.rate(pod, nodes, view) if weight else None
        if column is not None:
            columns[score.NAME] = [column[name] * weight for name in feasible]
    rows = zip(*columns.values(), strict=True) if columns else ((0,) for _ in feasible)
    columns[TOTAL] = [sum(row) for row in rows]
    return Scores(feasible, columns)


def _refused(
    pod: Pod, view: ClusterView, filtered: Filtered, engine: SchedulingEngine | None
) -> SchedulingDecision:
    if not view.settings(pod).preempts:
        preemption = PreemptionOutcome()
    else:
        preemption = engine.preempt(pod, filtered) if engine else preempt(pod, view, filtered)
    if preemption.unknown:
        return SchedulingDecision(feasible=(), refusals=filtered.refusals, unmodelled=preemption.unknown)
    frees = _freed(pod, view, filtered)
    return SchedulingDecision(
        message=_refusal_message(pod, view, filtered, preemption, frees),
        nominated=preemption.node,
        victims=preemption.victims,
        equals=preemption.equals,
        refusals=filtered.refusals,
        conflict=filtered.conflict,
        halted_by=filtered.halted_by,
        keeps_nomination=not preemption.tried,
        frees=frees,
    )


def _refusal_message(
    pod: Pod,
    view: ClusterView,
    filtered: Filtered,
    preemption: PreemptionOutcome,
    frees: ResourceClaim | None,
) -> str:
    """Upstream's sentence for a pod that no node takes; most releases add nothing for a preemption."""
    suffix = ""
    if view.profile.allocates and filtered.halted_by not in ("", claims_filter.NAME):
        suffix = messages.STATE_MISSING
    elif preemption.failed:
        suffix = f"preemption: {preemption.message}"
    elif preemption.node is None:
        words = f"preemption: {preemption.message}" if preemption.message else ""
        suffix = ", ".join(filter(None, [_words_on_claims(pod, view, filtered, frees), words]))
    elif view.profile.names_victims:
        count = len(preemption.victims)
        suffix = f"preemption: {messages.PLACE_FOUND.format(node=preemption.node, count=count)}"
    counts: Counter[str] = Counter()
    for refusal, nodes in filtered.first():
        for text in refusal.texts:
            counts[text] += nodes
    return messages.fit_error(len(view.nodes), counts, instead=filtered.conflict, suffix=suffix)


def _claims(pod: Pod, view: ClusterView, filtered: Filtered) -> tuple[ResourceClaim, ...]:
    """The pod's claims, if it came as far as that they were judged."""
    judged = pod.claims and view.profile.allocates and not filtered.halted_by
    return claims_of(pod, view.supply.claims).claims if judged else ()


def _freed(pod: Pod, view: ClusterView, filtered: Filtered) -> ResourceClaim | None:
    """The claim whose devices the DynamicResources plugin takes from it."""
    claims = _claims(pod, view, filtered) if view.settings(pod).frees_claims else ()
    return (
        claims_filter.freed_by(pod, (refusal for refusal, _ in filtered.first()), claims) if claims else None
    )


def _words_on_claims(pod: Pod, view: ClusterView, filtered: Filtered, frees: ResourceClaim | None) -> str:
    """What the DynamicResources plugin adds to a refusal."""
    if frees:
        return messages.CLAIM_FREED
    if not view.settings(pod).frees_claims or not view.profile.speaks_of_claims:
        return ""
    claims = _claims(pod, view, filtered) or backed_by_classes(pod, view.supply)
    return messages.CLAIMS_REMAIN if claims else messages.NO_CLAIMS
