"""A fleet: judge a pod on all nodes at once, rate them, place it, and go on with the next.

Held against the plain engine (`decide.kubernetes.scheduler.scheduling`), node by node, by the tests.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tonnage.decide.kubernetes.matching import selector_matches
from tonnage.decide.kubernetes.requests import CPU, MEMORY, scored_requests
from tonnage.decide.kubernetes.scheduler.filters import node_affinity
from tonnage.decide.kubernetes.scheduler.fleet import scores
from tonnage.decide.kubernetes.scheduler.fleet.claim_columns import ClaimColumns
from tonnage.decide.kubernetes.scheduler.fleet.columns import Columns, Mask
from tonnage.decide.kubernetes.scheduler.fleet.filters import (
    FEASIBLE,
    Refused,
    Rows,
    counted,
    nobody_refuses,
    refuse_amounts,
    refuse_by_node,
    refuse_ports,
)
from tonnage.decide.kubernetes.scheduler.fleet.holdings import Holdings, Need, holdings_of, need_of
from tonnage.decide.kubernetes.scheduler.fleet.scores import Ratings
from tonnage.decide.kubernetes.scheduler.fleet.topology_filters import (
    Neighbours,
    refuse_affinity,
    refuse_spread,
)
from tonnage.decide.kubernetes.scheduler.scores import (
    balanced,
    claims,
    image_locality,
    pod_affinity,
    resources_fit,
    storage,
    taints,
    topology_spread,
)
from tonnage.decide.kubernetes.scheduler.scores import node_affinity as preferred_nodes
from tonnage.decide.kubernetes.view import ClusterView
from tonnage.model.kubernetes.cluster import Container, Pod, SpreadConstraint, WorkloadSelector
from tonnage.model.kubernetes.selectors import LabelSelector, Requirement

NOWHERE = -1
NEVER = -1


@dataclass(slots=True)
class _Standing:
    """What is known of pods of one shape; rows that have changed since are taken in when it is asked for."""

    pod: Pod
    need: Need
    requests: list[tuple[str, int]]
    cpu: int
    memory: int
    by_node: Refused
    """Refusals that no pod's coming or going changes; those for want of room stand in `refused`."""
    refused: Refused
    alone: Ratings
    """Weighted ratings that do not depend on which other nodes are feasible."""
    masked: Ratings
    """The same, NOWHERE where the pod is refused."""
    soft_taints: Ratings
    preferred: Ratings
    spread: tuple[SpreadConstraint, ...]
    plain: bool
    """Its order of nodes is that of `alone`."""
    images: Ratings | None = None
    judged_changes: int = 0
    """How many of the holdings' changed rows `refused` has taken in."""
    rated_changes: int = NEVER
    """The same of the ratings, which only a pod that is placed needs."""


@dataclass(slots=True)
class Fleet:
    """Nodes and what they hold. Forks share what never changes."""

    view: ClusterView
    columns: Columns
    holdings: Holdings
    neighbours: Neighbours = field(init=False)
    claim_columns: ClaimColumns = field(init=False)
    _everywhere: Rows = field(init=False)
    _standings: dict[Hashable, _Standing] = field(init=False, default_factory=dict)
    _services: dict[str, list[WorkloadSelector]] = field(init=False, default_factory=dict)
    _owners: dict[tuple[str, str, str], LabelSelector] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.claim_columns = ClaimColumns(self.view, self.columns)
        overlooks = self.view.profile.overlooks_namespaces
        self.neighbours = Neighbours(self.columns, self.holdings, self.view.namespace_labels, overlooks)
        self._everywhere = np.arange(len(self.columns))
        for workload in self.view.snapshot.selectors:
            if workload.kind == "Service":
                self._services.setdefault(workload.namespace, []).append(workload)
            else:
                self._owners[workload.namespace, workload.kind, workload.name] = workload.selector

    def fork(self) -> Fleet:
        """The same, to be changed on its own."""
        forked = replace(self, holdings=self.holdings.fork())
        forked.claim_columns = self.claim_columns
        return forked

    def place(self, pod: Pod) -> str | None:
        """Take the node that `choose` gives."""
        row = self._choice(pod)
        if row == NOWHERE:
            return None
        self.holdings.add(row, pod, self._standing(pod).need)
        return self.columns.names[row]

    def choose(self, pod: Pod) -> str | None:
        """The best node for the pod, the first by name among equals; None when every node refuses.

        None, too, when its preferred affinity cannot be read and there are nodes to compare.
        """
        row = self._choice(pod)
        return None if row == NOWHERE else self.columns.names[row]

    def put(self, pod: Pod, name: str) -> None:
        """A pod comes to a node that somebody else chose."""
        self.holdings.add(self.columns.row_of[name], pod, need_of(pod))

    def best(self, pod: Pod) -> str | None:
        """The best node for the pod, the first by name among equals; None when every node refuses."""
        rows = np.flatnonzero(feasible := self.refused(pod).codes == FEASIBLE)
        if not len(rows):
            return None
        standing = self._standing(pod)
        total = self._alone(standing, rows)
        if pod.claims or not standing.plain or self.holdings.terms:
            total += self._among(pod, standing, feasible)[rows]
        return self.columns.names[int(rows[total.argmax()])]

    def forget(self, most: int) -> None:
        """Of shapes of pods, keep the latest so many: each weighs several columns."""
        while len(self._standings) > most:
            del self._standings[next(iter(self._standings))]
        self.holdings.forget(most)

    def refused(self, pod: Pod) -> Refused:
        """Which nodes refuse the pod, each with the refusal that counts first."""
        refused = self._judged(pod, self._standing(pod))
        for name in self.view.nominated:
            guests = self.view.guests(name, pod)
            row = self.columns.row_of.get(name)
            if guests and row is not None:
                crowded = self.fork()
                for guest in guests:
                    crowded.holdings.add(row, guest, need_of(guest))
                thought = tuple((row, guest) for guest in guests)
                shunning = bool(pod.affinity.pods or pod.affinity.anti) or self.neighbours.shuns(pod)
                crowded.neighbours = replace(crowded.neighbours, guests=thought, shunning=shunning)
                there = crowded._judged(pod, crowded._standing(pod))
                if there.codes[row] != FEASIBLE:
                    refused.codes[row] = refused.code(there.kinds[there.codes[row]])
        return refused

    def ratings(self, pod: Pod, feasible: Mask) -> dict[str, Ratings]:
        """Weighted scores of the feasible rows (others mean nothing), by plugin, in upstream's order."""
        standing = self._standing(pod)
        everywhere, holdings = self._everywhere, self.holdings
        ratings = {
            taints.NAME: taints.WEIGHT * scores.in_percent(standing.soft_taints, feasible, reverse=True)
        }
        if pod.affinity.node_preferred:
            part = scores.in_percent(standing.preferred, feasible)
            ratings[preferred_nodes.NAME] = preferred_nodes.WEIGHT * part
        fit = scores.least_allocated(holdings, standing.cpu, standing.memory, everywhere)
        ratings[resources_fit.NAME] = resources_fit.WEIGHT * fit
        if self.view.profile.scores_storage:
            ratings[storage.NAME] = np.zeros(len(self.columns), np.int64)
        if standing.spread:
            part = self._spread(standing, feasible)
            ratings[topology_spread.NAME] = topology_spread.WEIGHT * part
        drawn = scores.pod_affinity(pod, feasible, self.neighbours)
        if drawn is not None:
            ratings[pod_affinity.NAME] = pod_affinity.WEIGHT * drawn
        if self.view.profile.scores_claims:
            ratings[claims.NAME] = self._claims(pod, feasible)
        if _asks_compute(standing.need):
            ratings[balanced.NAME] = balanced.WEIGHT * self._balanced(standing, everywhere)
        ratings[image_locality.NAME] = image_locality.WEIGHT * self._images(standing)
        return ratings

    def _judged(self, pod: Pod, standing: _Standing) -> Refused:
        refused = standing.refused.copy()
        refuse_spread(refused, pod, self.neighbours)
        refuse_affinity(refused, pod, self.neighbours)
        self.claim_columns.refuse(refused, pod)
        return refused

    def _choice(self, pod: Pod) -> int:
        """The best row for the pod, or NOWHERE."""
        if preferred_nodes.unreadable(pod) and np.sum(self.refused(pod).codes == FEASIBLE) > 1:
            return NOWHERE
        standing = self._standing(pod)
        self._rate(standing)
        masked = standing.masked
        if pod.claims or not standing.plain or self.holdings.terms:
            feasible = self._judged(pod, standing).codes == FEASIBLE
            if not feasible.any():
                return NOWHERE
            masked = np.where(feasible, standing.alone + self._among(pod, standing, feasible), NOWHERE)
        if not len(masked):
            return NOWHERE
        row = int(masked.argmax())
        return row if masked[row] != NOWHERE else NOWHERE

    def _among(self, pod: Pod, standing: _Standing, feasible: Mask) -> Ratings:
        """Weighted ratings that depend on which nodes are feasible."""
        total = taints.WEIGHT * scores.in_percent(standing.soft_taints, feasible, reverse=True)
        if pod.affinity.node_preferred:
            total += preferred_nodes.WEIGHT * scores.in_percent(standing.preferred, feasible)
        if standing.spread:
            total += topology_spread.WEIGHT * self._spread(standing, feasible)
        if pod.affinity.pods_preferred or self.holdings.terms:
            drawn = scores.pod_affinity(pod, feasible, self.neighbours)
            if drawn is not None:
                total += pod_affinity.WEIGHT * drawn
        if pod.claims:
            total += self._claims(pod, feasible)
        return total

    def _claims(self, pod: Pod, feasible: Mask) -> Ratings:
        """Weighted ratings of the alternatives that claims are given, where the release rates them."""
        worths = self.claim_columns.worths(pod) if self.view.profile.scores_claims else None
        if worths is None:
            return np.zeros(len(self.columns), np.int64)
        return claims.WEIGHT * scores.in_percent(worths, feasible)

    def _spread(self, standing: _Standing, feasible: Mask) -> Ratings:
        own = bool(standing.pod.spread)
        return scores.topology_spread(standing.pod, standing.spread, feasible, self.neighbours, own=own)

    def _balanced(self, standing: _Standing, rows: Rows) -> Ratings:
        requests = standing.need.requests
        rate = scores.balanced_change if self.view.profile.rates_change_of_balance else scores.balanced
        return rate(self.holdings, requests.get(CPU, 0), requests.get(MEMORY, 0), rows)

    def _standing(self, pod: Pod) -> _Standing:
        """What is known of pods of this shape, up to date."""
        spread = self._soft_constraints(pod)
        key = _shape(pod, spread, alone=not self.holdings.terms)
        standing = self._standings.get(key)
        if standing is None:
            standing = self._standings[key] = self._first_look(pod, spread)
        changed = self.holdings.changed
        if standing.judged_changes < len(changed):
            self._judge(standing, _rows(changed[standing.judged_changes :]))
            standing.judged_changes = len(changed)
        return standing

    def _first_look(self, pod: Pod, spread: tuple[SpreadConstraint, ...]) -> _Standing:
        columns, need = self.columns, need_of(pod)
        cpu, memory = scored_requests(pod, pod_level=False)
        by_node = nobody_refuses(columns)
        refuse_by_node(by_node, pod, columns, self.view.profile)
        soft, liked = scores.soft_taints(columns, pod), scores.preferred_nodes(columns, pod)
        open_rows = by_node.codes == FEASIBLE
        lonely = not (pod.spread or pod.affinity.pods or pod.affinity.anti or pod.affinity.pods_preferred)
        nothing = np.zeros(len(columns), np.int64)
        standing = _Standing(
            pod, need, counted(need), cpu, memory, by_node, by_node.copy(),
            alone=nothing, masked=nothing.copy(),
            soft_taints=soft, preferred=liked, spread=spread,
            plain=lonely and not spread and not soft[open_rows].any() and not liked[open_rows].any(),
            judged_changes=len(self.holdings.changed),
        )  # fmt: skip
        self._judge(standing, self._everywhere)
        return standing

    def _judge(self, standing: _Standing, rows: Rows) -> None:
        """Judge rows anew, as far as that depends on what they hold."""
        holdings, refused = self.holdings, standing.refused
        refused.codes[rows] = standing.by_node.codes[rows]
        if standing.pod.host_ports:
            refuse_ports(refused, standing.pod.host_ports, holdings)
        refuse_amounts(refused, standing.requests, holdings, rows)

    def _rate(self, standing: _Standing) -> None:
        """Rate the rows that changed anew, as far as that depends on what they hold."""
        changed = self.holdings.changed
        if standing.rated_changes == NEVER:
            rows = self._everywhere
        elif standing.rated_changes < len(changed):
            rows = _rows(changed[standing.rated_changes :])
        else:
            return
        standing.rated_changes = len(changed)
        total = self._alone(standing, rows)
        standing.alone[rows] = total
        standing.masked[rows] = np.where(standing.refused.codes[rows] == FEASIBLE, total, NOWHERE)

    def _alone(self, standing: _Standing, rows: Rows) -> Ratings:
        """Of these rows the weighted ratings that do not depend on which other nodes are feasible."""
        fit = scores.least_allocated(self.holdings, standing.cpu, standing.memory, rows)
        total = resources_fit.WEIGHT * fit + image_locality.WEIGHT * self._images(standing)[rows]
        if _asks_compute(standing.need):
            total += balanced.WEIGHT * self._balanced(standing, rows)
        return total

    def _images(self, standing: _Standing) -> Ratings:
        if standing.images is None:
            standing.images = scores.image_locality(self.columns, standing.pod)
        return standing.images

    def _soft_constraints(self, pod: Pod) -> tuple[SpreadConstraint, ...]:
        """The pod's own, or the cluster's default ones for a pod that a Service selects or a set owns."""
        if pod.spread:
            return tuple(constraint for constraint in pod.spread if not constraint.hard)
        requirements: list[Requirement] = []
        for service in self._services.get(pod.namespace, ()):
            if selector_matches(service.selector, pod.labels):
                requirements += service.selector.requirements
        if pod.owner is not None:
            owned = self._owners.get((pod.namespace, pod.owner.kind, pod.owner.name))
            requirements += owned.requirements if owned is not None else ()
        return scores.default_constraints(LabelSelector(tuple(requirements))) if requirements else ()


def fleet_of(view: ClusterView) -> Fleet:
    """The fleet of a view."""
    columns = Columns(tuple(node.node for node in view.nodes.values()))
    return Fleet(view, columns, holdings_of(columns, view.nodes))


def conflicts(pod: Pod) -> bool:
    """Whether the pod's own terms pin it to different nodes at once, so that no node is looked at."""
    pins = node_affinity.pinned_names(pod)
    return pins is not None and not pins


def _rows(changed: list[int]) -> Rows:
    return np.array(sorted(set(changed)), np.intp)


def _asks_compute(need: Need) -> bool:
    return bool(need.requests.get(CPU) or need.requests.get(MEMORY))


def _shape(pod: Pod, spread: tuple[SpreadConstraint, ...], *, alone: bool) -> Hashable:
    """What tells pods apart that are treated differently; their labels only where somebody looks at them."""
    affinity = pod.affinity
    labels_matter = not alone or spread or affinity.pods or affinity.anti or affinity.pods_preferred
    return (
        tuple(_amounts(c) for c in pod.containers),
        tuple(_amounts(c) for c in pod.init_containers),
        _sorted(pod.overhead),
        _sorted(pod.pod_requests),
        _sorted(pod.node_selector),
        affinity,
        pod.tolerations,
        pod.spread,
        spread,
        pod.host_ports,
        pod.node_name,
        (pod.namespace, _sorted(pod.labels)) if labels_matter else None,
    )


def _amounts(container: Container) -> Hashable:
    return container.image, container.sidecar, _sorted(container.requests)


def _sorted(mapping: Mapping[str, object]) -> Hashable:
    return tuple(sorted(mapping.items()))
