"""cpumanager, static policy: which CPUs a container gets alone, and from which NUMA nodes.

Only whole CPUs of Guaranteed pods are its own matter; everything else runs in the shared pool.

Source: Kubernetes 1.36, pkg/kubelet/cm/cpumanager/policy_static.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from tonnage.decide.kubernetes.kubelet.topology_manager import Hint, subsets_of

CpuIds: TypeAlias = frozenset[int]
NO_CPUS: CpuIds = frozenset()
FULL_CORES: Final = "full-pcpus-only"
BY_SOCKET: Final = "align-by-socket"
SMT_REASON: Final = "SMTAlignmentError"


@dataclass(frozen=True, slots=True)
class Cpus:
    """A node's CPUs: the NUMA node and the socket of each, and which are in the shared pool unreserved.

    `options` are those of the policy that are on.
    """

    numa: Mapping[int, int]
    free: CpuIds
    sockets: Mapping[int, int]
    threads_per_core: int = 1
    options: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NoCpus:
    """Why there are none to give: the status' reason (empty for an unexpected error) and kubelet's words."""

    upstream_message: str
    reason: str = ""


def cpu_hints(cpus: Cpus, count: int, reusable: CpuIds = NO_CPUS) -> tuple[Hint, ...] | None:
    """The sets of NUMA nodes that could serve `count` CPUs; None for a container that wants none of its own.

    >>> four = Cpus({0: 0, 1: 0, 2: 1, 3: 1}, frozenset({0, 2, 3}), {0: 0, 1: 0, 2: 0, 3: 0})
    >>> [(hint.mask, hint.preferred) for hint in cpu_hints(four, 2)]
    [(2, True), (3, False)]
    """
    if count == 0:
        return None
    nodes = sorted(set(cpus.numa.values()))
    fewest, masks = len(nodes), []
    for mask in subsets_of(nodes):
        if sum(1 for node in cpus.numa.values() if mask >> node & 1) >= count:
            fewest = min(fewest, mask.bit_count())
        if all(mask >> cpus.numa[cpu] & 1 for cpu in reusable):
            there = reusable | {cpu for cpu in cpus.free if mask >> cpus.numa[cpu] & 1}
            if len(there) >= count:
                masks.append(mask)
    return tuple(Hint(mask, _preferred(cpus, mask, fewest)) for mask in masks)


def _preferred(cpus: Cpus, mask: int, fewest: int) -> bool:
    if mask.bit_count() == fewest:
        return True
    sockets = set(cpus.sockets.values())
    if BY_SOCKET not in cpus.options or not sockets:
        return False
    a_socket = len(set(cpus.numa.values())) // len(sockets)
    if a_socket == 0:
        return False
    spanned = {cpus.sockets[cpu] for cpu, node in cpus.numa.items() if mask >> node & 1}
    return len(spanned) == -(-fewest // a_socket)


def take_cpus(cpus: Cpus, count: int, hint: Hint, reusable: CpuIds = NO_CPUS) -> CpuIds | NoCpus:
    """CPUs for a container, those of the hint first, the lowest first.

    Which of several NUMA nodes' CPUs kubelet takes where one is not enough, follows its own packing; here it
    is the lowest numbers.
    """
    if FULL_CORES in cpus.options and count % cpus.threads_per_core:
        detail = f"requested {count} cpus not multiple cpus per core = {cpus.threads_per_core}"
        return NoCpus(f"SMT Alignment Error: {detail}", SMT_REASON)
    there = cpus.free | reusable
    if len(there) < count:
        detail = f"requested={count}, available={len(there)}"
        return NoCpus(f"not enough cpus available to satisfy request: {detail}")
    aligned = [c for c in sorted(there) if hint.mask is None or hint.mask >> cpus.numa[c] & 1]
    others = [c for c in sorted(there) if c not in aligned]
    return frozenset([*aligned, *others][:count])


def spread_cpus(count: int, nodes: int, *, reserved: int = 0) -> Cpus:
    """CPUs of a machine that has them in order over its NUMA nodes, each a socket; the first are reserved.

    >>> [hint.mask for hint in cpu_hints(spread_cpus(8, 2, reserved=2), 4)]
    [2, 3]
    """
    numa = {cpu: cpu * nodes // count for cpu in range(count)}
    return Cpus(numa, frozenset(range(reserved, count)), dict(numa))
