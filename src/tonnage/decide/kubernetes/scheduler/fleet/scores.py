"""The scores over all rows at once; what depends on the other feasible nodes stands apart."""

from __future__ import annotations

import math
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.decide.kubernetes.requests import CPU, MEMORY
from tonnage.decide.kubernetes.scheduler.fleet.columns import Columns, Mask
from tonnage.decide.kubernetes.scheduler.fleet.filters import Rows
from tonnage.decide.kubernetes.scheduler.fleet.holdings import FORBIDS, Holdings
from tonnage.decide.kubernetes.scheduler.fleet.selectors import blocked, meets
from tonnage.decide.kubernetes.scheduler.fleet.topology_filters import Neighbours, by_domain, counting_nodes
from tonnage.decide.kubernetes.scheduler.scores.image_locality import full_name
from tonnage.decide.kubernetes.scheduler.scoring import HIGHEST
from tonnage.model.kubernetes.cluster import Pod, SpreadConstraint
from tonnage.model.kubernetes.selectors import LabelSelector
from tonnage.model.kubernetes.well_known import ZONE

Ratings: TypeAlias = NDArray[np.int64]

_SOFT: Final = "PreferNoSchedule"
_HOSTNAME: Final = "kubernetes.io/hostname"
_MIB: Final = 1024 * 1024
_LEAST_IMAGE: Final = 23 * _MIB
_MOST_RAW: Final = 2**62
_MOST_IMAGE: Final = 1000 * _MIB


def least_allocated(holdings: Holdings, cpu: int, memory: int, rows: Rows) -> Ratings:
    """The mean of what would be left of CPU and of memory, in percent."""
    total = np.zeros(len(rows), np.int64)
    count = np.zeros(len(rows), np.int64)
    for name, used, amount in ((CPU, holdings.scored_cpu, cpu), (MEMORY, holdings.scored_memory, memory)):
        there = holdings.columns.allocatable(name)[rows]
        left = there - (used[rows] + amount)
        has = there > 0
        share = left * HIGHEST // np.maximum(there, 1)
        total += np.where(has & (left >= 0), share, 0)
        count += has
    return total // np.maximum(count, 1)


def balanced(holdings: Holdings, cpu: int, memory: int, rows: Rows) -> Ratings:
    """How alike the used shares of CPU and memory would be, in percent."""
    shares: list[NDArray[np.float64]] = []
    both = np.ones(len(rows), bool)
    for name, amount in ((CPU, cpu), (MEMORY, memory)):
        there = holdings.columns.allocatable(name)[rows]
        both &= there > 0
        shares.append(np.minimum(1.0, (holdings.used(name)[rows] + amount) / np.maximum(there, 1)))
    deviation = np.where(both, np.abs((shares[0] - shares[1]) / 2), 0.0)
    return ((1 - deviation) * HIGHEST).astype(np.int64)


def balanced_change(holdings: Holdings, cpu: int, memory: int, rows: Rows) -> Ratings:
    """How much more alike the pod makes the used shares: 75 changes nothing, 50 to 100."""
    half = HIGHEST // 2
    after, before = balanced(holdings, cpu, memory, rows), balanced(holdings, 0, 0, rows)
    return half + (half + after - before) // 2


def image_locality(columns: Columns, pod: Pod) -> Ratings:
    """Nodes that have the pod's images, weighed by size and by how many nodes have them."""
    images = [full_name(c.image) for c in (*pod.init_containers, *pod.containers)]
    sums = np.zeros(len(columns), np.int64)
    for image in images:
        size, holders = columns.image(image)
        sums += np.where(holders, int(size * (int(holders.sum()) / max(1, len(columns)))), 0)
    most = _MOST_IMAGE * max(1, len(images))
    return HIGHEST * (np.clip(sums, _LEAST_IMAGE, most) - _LEAST_IMAGE) // (most - _LEAST_IMAGE)


def soft_taints(columns: Columns, pod: Pod) -> Ratings:
    """By row: how many PreferNoSchedule taints the pod does not tolerate (not yet in percent)."""
    soft_tolerations = [t for t in pod.tolerations if t.effect in ("", _SOFT)]
    counts: Ratings = np.array(blocked(columns, soft_tolerations, (_SOFT,)), np.int64)[columns.taint_codes]
    return counts


def preferred_nodes(columns: Columns, pod: Pod) -> Ratings:
    """By row: the weights of the preferred terms that a node meets (not yet in percent)."""
    weights = np.zeros(len(columns), np.int64)
    for preferred in pod.affinity.node_preferred:
        weights += np.where(meets(columns, preferred.term), preferred.weight, 0)
    return weights


def in_percent(raw: Ratings, feasible: Mask, *, reverse: bool = False) -> Ratings:
    """Raw numbers in proportion to the largest of the feasible; `reverse` makes the smallest the best."""
    largest = int(raw.max(initial=0, where=feasible))
    if largest == 0:
        return np.full(len(raw), HIGHEST if reverse else 0, np.int64)
    part = HIGHEST * raw // largest
    return HIGHEST - part if reverse else part


def pod_affinity(pod: Pod, feasible: Mask, neighbours: Neighbours) -> Ratings | None:
    """Preferred terms of the pod and of the pods that run; None when none of them meets any pod."""
    columns = neighbours.columns
    weighted = [
        (own.weight, own.term.topology_key, neighbours.counts_of(pod.namespace, (own.term,)))
        for own in pod.affinity.pods_preferred
    ]
    for owned, counts in neighbours.terms_for(pod):
        if owned.kind != FORBIDS:
            weighted.append((owned.kind, owned.term.topology_key, counts))
    raw = np.zeros(len(columns), np.int64)
    anywhere = False
    for weight, key, counts in weighted:
        column = columns.label(key)
        sums = by_domain(column, counts)
        sums[-1] = 0
        anywhere = anywhere or bool(sums.any())
        raw += weight * sums[column.codes]
    if not anywhere:
        return None
    least, most = int(raw[feasible].min()), int(raw[feasible].max())
    if most == least:
        return np.zeros(len(columns), np.int64)
    return (HIGHEST * ((raw - least) / (most - least))).astype(np.int64)


def default_constraints(selector: LabelSelector) -> tuple[SpreadConstraint, ...]:
    """What spreads the pods of a workload that says nothing of it itself."""
    skews = ((_HOSTNAME, 3), (ZONE, 5))
    return tuple(SpreadConstraint(key, skew, hard=False, selector=selector) for key, skew in skews)


def topology_spread(
    pod: Pod, soft: tuple[SpreadConstraint, ...], feasible: Mask, neighbours: Neighbours, *, own: bool
) -> Ratings:
    """The emptier a node's domains, the better. `own` constraints need labels."""
    columns = neighbours.columns
    labelled = np.ones(len(columns), bool)
    if own:
        for constraint in soft:
            labelled &= columns.label(constraint.topology_key).codes >= 0
    rated = feasible & labelled
    if not rated.any():
        return np.zeros(len(columns), np.int64)
    raw = np.zeros(len(columns), np.float64)
    for constraint in soft:
        raw += _spread_part(constraint, pod, rated, labelled, neighbours)
    whole = np.floor(raw + 0.5).astype(np.int64)
    least, most = int(np.where(rated, whole, _MOST_RAW).min()), int(np.where(rated, whole, 0).max())
    if most == 0:
        return np.where(rated, HIGHEST, 0)
    if most - least > len(columns):
        return np.where(rated, HIGHEST * (most + least - whole) // most, 0)
    steps = HIGHEST * (most + least - np.arange(least, most + 1)) // most  # divided once for each value
    return np.where(rated, steps[np.where(rated, whole - least, 0)], 0)


def _spread_part(
    constraint: SpreadConstraint, pod: Pod, rated: Mask, labelled: Mask, neighbours: Neighbours
) -> NDArray[np.float64]:
    columns = neighbours.columns
    column = columns.label(constraint.topology_key)
    counts = neighbours.spread_counts(pod.namespace, constraint.selector)
    if constraint.topology_key == _HOSTNAME:
        worth = counts * math.log(np.count_nonzero(rated) + 2) + constraint.max_skew - 1
        return np.where(column.codes >= 0, worth, 0.0)
    codes = column.codes
    if "" in column.code_of:  # an empty value and none at all are one domain
        codes = np.where(codes == column.code_of[""], -1, codes)
    places, size = codes + 1, len(column.values) + 1
    domains = np.count_nonzero(np.bincount(places, rated, size))
    eligible = labelled & counting_nodes(constraint, pod, columns)
    sums = np.bincount(places, np.where(eligible, counts, 0), size)
    worths = sums * math.log(domains + 2) + constraint.max_skew - 1
    if "" in column.code_of:
        return np.where(column.codes >= 0, worths[places], 0.0)
    worths[0] = 0.0
    return np.asarray(worths[places], np.float64)
