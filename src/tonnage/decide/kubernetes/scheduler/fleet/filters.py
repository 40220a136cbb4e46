"""The filters over all rows at once: which nodes refuse a pod, by which plugin, in which words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonnage.decide.kubernetes.matching import tolerates, untolerated
from tonnage.decide.kubernetes.requests import CPU, EPHEMERAL, MEMORY, PODS
from tonnage.decide.kubernetes.scheduler.filters import (
    node_affinity,
    node_name,
    node_unschedulable,
    pod_affinity,
    ports,
    resources,
    taints,
    topology_spread,
)
from tonnage.decide.kubernetes.scheduler.fleet.columns import Columns, Mask, interned
from tonnage.decide.kubernetes.scheduler.fleet.holdings import Holdings, Need
from tonnage.decide.kubernetes.scheduler.fleet.selectors import blocked, selected
from tonnage.decide.kubernetes.versions import SchedulerRelease
from tonnage.model.kubernetes.cluster import HostPort, Pod
from tonnage.model.kubernetes.selectors import Taint

Rows: TypeAlias = NDArray[np.intp]
FEASIBLE: Final = -1
_COMPUTE: Final = (CPU, MEMORY, EPHEMERAL)
_CORDON: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


@dataclass(frozen=True, slots=True)
class RefusalKind:
    """A way of being refused: plugin, upstream's words, and whether no preemption can help."""

    plugin: str
    texts: tuple[str, ...]
    unresolvable: bool


@dataclass(slots=True)
class Refused:
    """By row: an index into `kinds`, of the refusal that counts first, or FEASIBLE."""

    codes: NDArray[np.int16]
    kinds: list[RefusalKind] = field(default_factory=list)

    def code(self, kind: RefusalKind) -> int:
        """The index of a kind."""
        if kind not in self.kinds:
            self.kinds.append(kind)
        return self.kinds.index(kind)

    def refuse(self, mask: Mask, kind: RefusalKind) -> None:
        """Refuse rows; those that were refused before stay as they are."""
        rows = mask & (self.codes == FEASIBLE)
        if rows.any():
            self.codes[rows] = self.code(kind)

    def copy(self) -> Refused:
        """The same, to go on from."""
        return Refused(self.codes.copy(), list(self.kinds))


def nobody_refuses(columns: Columns) -> Refused:
    """Where every judgement begins."""
    return Refused(np.full(len(columns), FEASIBLE, np.int16))


def refuse_by_node(refused: Refused, pod: Pod, columns: Columns, profile: SchedulerRelease) -> None:
    """What nodes are, whatever runs on them: pins, cordons, names, taints, labels."""
    pins = node_affinity.pinned_names(pod)
    if pins is not None:
        outside = np.ones(len(columns), bool)
        outside[[columns.row_of[name] for name in pins if name in columns.row_of]] = False
        refused.refuse(outside, RefusalKind(node_affinity.NAME, (node_affinity.NARROWED,), unresolvable=True))
    if not any(tolerates(toleration, _CORDON) for toleration in pod.tolerations):
        cordon = RefusalKind(node_unschedulable.NAME, (node_unschedulable.TEXT,), unresolvable=True)
        refused.refuse(columns.cordoned, cordon)
    if pod.node_name:
        others = np.ones(len(columns), bool)
        if pod.node_name in columns.row_of:
            others[columns.row_of[pod.node_name]] = False
        refused.refuse(others, RefusalKind(node_name.NAME, (node_name.TEXT,), unresolvable=True))
    _refuse_taints(refused, pod, columns, profile)
    if pod.node_selector or pod.affinity.node is not None:
        kind = RefusalKind(node_affinity.NAME, (node_affinity.TEXT,), unresolvable=True)
        refused.refuse(~selected(columns, pod), kind)


def _refuse_taints(refused: Refused, pod: Pod, columns: Columns, profile: SchedulerRelease) -> None:
    counts = blocked(columns, pod.tolerations, taints.EFFECTS)
    for number, count in enumerate(counts):
        if count:
            text = taints.TEXT
            if not profile.hides_taints:
                first = untolerated(columns.taint_sets[number], pod.tolerations, taints.EFFECTS)[0]
                text = f"node(s) had untolerated taint {{{first.key}: {first.value}}}"
            refused.refuse(
                columns.taint_codes == number, RefusalKind(taints.NAME, (text,), unresolvable=True)
            )


def refuse_ports(refused: Refused, host_ports: Iterable[HostPort], holdings: Holdings) -> None:
    """Nodes where a pod holds one of the host ports."""
    in_use = np.zeros(len(refused.codes), bool)
    for port in host_ports:
        for held, rows in holdings.ports.items():
            if ports.clash(held, port):
                in_use[list(rows)] = True
    refused.refuse(in_use, PORTS_TAKEN)


def counted(need: Need) -> list[tuple[str, int]]:
    """The requests that are held against a node, in the order in which what is short is named."""
    requests = need.requests
    return [
        (name, requests[name])
        for name in (*_COMPUTE, *sorted(set(requests) - set(_COMPUTE)))
        if requests.get(name, 0) > 0
        and (name in _COMPUTE or "/" in name or name.startswith(("hugepages-", "attachable-volumes-")))
    ]


def refuse_amounts(refused: Refused, amounts: list[tuple[str, int]], holdings: Holdings, rows: Rows) -> None:
    """Of the rows given, those with too little left; rows that were refused before stay as they are."""
    columns = holdings.columns
    at = slice(None) if len(rows) == len(columns) else rows  # which is quicker than to pick all
    crowded = holdings.pods[at] + 1 > columns.allocatable(PODS)[at]
    short = [crowded]
    hopeless = np.zeros(len(rows), bool)
    for name, amount in amounts:
        there = columns.allocatable(name)[at]
        short.append(amount > there - holdings.used(name)[at])
        hopeless |= amount > there
    failing = np.logical_or.reduce(short) & (refused.codes[rows] == FEASIBLE)
    if not failing.any():
        return
    short.append(hopeless)
    which = interned([part[failing] for part in short])
    texts = [resources.CROWDED, *(resources.insufficient(name) for name, _ in amounts)]
    codes = []
    for first in np.unique(which, return_index=True)[1].tolist():
        *flags, unresolvable = (bool(part[failing][first]) for part in short)
        shown = tuple(text for text, flag in zip(texts, flags, strict=True) if flag)
        codes.append(refused.code(RefusalKind(resources.NAME, shown, unresolvable)))
    refused.codes[rows[failing]] = np.array(codes, np.int16)[which]


PORTS_TAKEN: Final = RefusalKind(ports.NAME, (ports.TEXT,), unresolvable=False)
SKEWED: Final = RefusalKind(topology_spread.NAME, (topology_spread.SKEWED,), unresolvable=False)
UNLABELLED: Final = RefusalKind(topology_spread.NAME, (topology_spread.UNLABELLED,), unresolvable=True)
NOT_WITH: Final = RefusalKind(pod_affinity.NAME, (pod_affinity.AFFINITY,), unresolvable=True)
NOT_BESIDE: Final = RefusalKind(pod_affinity.NAME, (pod_affinity.ANTI,), unresolvable=False)
NOT_WANTED: Final = RefusalKind(pod_affinity.NAME, (pod_affinity.ANTI_OF_OTHERS,), unresolvable=False)
