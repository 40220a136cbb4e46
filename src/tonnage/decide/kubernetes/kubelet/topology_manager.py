"""topologymanager.Policy: what devices, CPUs and memory could do, merged into one set of NUMA nodes.

A set of NUMA nodes is an int whose bit n stands for node n.

Source: Kubernetes 1.36, pkg/kubelet/cm/topologymanager.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import Final

REASON: Final = "TopologyAffinityError"
REFUSAL: Final = "Resources cannot be allocated with Topology locality"


class TopologyPolicy(StrEnum):
    """The kubelet's `topologyManagerPolicy`."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"


class TopologyScope(StrEnum):
    """The kubelet's `topologyManagerScope`: what is aligned as one."""

    CONTAINER = "container"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class Hint:
    """NUMA nodes that could serve a request; `mask` None means that any will do."""

    mask: int | None
    preferred: bool


ANY: Final = Hint(None, True)
"""Whatever serves."""


@dataclass(frozen=True, slots=True)
class NumaTopology:
    """The host's NUMA nodes 0…n-1, the kubelet's policy, and whether `prefer-closest-numa-nodes` is on."""

    nodes: int
    policy: TopologyPolicy = TopologyPolicy.NONE
    distances: tuple[tuple[int, ...], ...] = ()
    """`distances[a][b]` as the ACPI SLIT has it; empty unless the closest nodes are preferred."""
    scope: TopologyScope = TopologyScope.CONTAINER

    @property
    def everywhere(self) -> int:
        return (1 << self.nodes) - 1


def admit(topology: NumaTopology, providers: Sequence[tuple[Hint, ...] | None]) -> tuple[Hint, bool]:
    """The merged hint of all resources of a container (or pod), and whether the policy lets the pod in."""
    if topology.policy is TopologyPolicy.NONE:
        return ANY, True
    best = _merge(topology, [_offers(hints) for hints in providers])
    return best, best.preferred or topology.policy is TopologyPolicy.BEST_EFFORT


def _offers(hints: tuple[Hint, ...] | None) -> tuple[Hint, ...]:
    if hints is None:
        return (ANY,)
    return hints or (Hint(None, False),)


def _merge(topology: NumaTopology, offers: list[tuple[Hint, ...]]) -> Hint:
    single = topology.policy is TopologyPolicy.SINGLE_NUMA_NODE
    if single:
        offers = [tuple(h for h in hints if h.preferred and _count(h.mask) <= 1) for hints in offers]
    target = max(
        (min((_count(h.mask) for h in hints if h.mask is not None), default=0) for hints in offers), default=0
    )
    merged = {hint for hint in _combinations(topology.everywhere, offers) if hint.mask}
    best = min(
        merged,
        key=lambda hint: _rank(topology, hint, target),
        default=Hint(topology.everywhere, preferred=False),
    )
    if single and best.mask == topology.everywhere:
        return Hint(None, best.preferred)
    return best


def _count(mask: int | None) -> int:
    return 0 if mask is None else mask.bit_count()


def _combinations(everywhere: int, offers: list[tuple[Hint, ...]]) -> set[Hint]:
    """Every merged hint that some choice of one hint per provider gives, without walking the product."""
    states: set[tuple[int, int | None, bool]] = {(everywhere, None, True)}
    for hints in offers:
        states = {_step(state, hint) for state in states for hint in hints}
    return {Hint(mask, preferred) for mask, _, preferred in states}


def _step(state: tuple[int, int | None, bool], hint: Hint) -> tuple[int, int | None, bool]:
    mask, common, preferred = state
    if hint.mask is None:
        return mask, common, preferred and hint.preferred
    same = common is None or common == hint.mask
    return (
        mask & hint.mask,
        common if common is not None else hint.mask,
        preferred and hint.preferred and same,
    )


def _rank(topology: NumaTopology, hint: Hint, target: int) -> tuple[int, int, int, float, int]:
    """Smaller is better. Not preferred: the size that the hungriest provider needs, then less, then more."""
    mask = hint.mask or 0
    size = mask.bit_count()
    distance = 0.0
    if topology.distances and topology.policy is not TopologyPolicy.SINGLE_NUMA_NODE:
        nodes = nodes_of(mask)
        distance = sum(topology.distances[a][b] for a in nodes for b in nodes) / len(nodes) ** 2
    if hint.preferred:
        return 0, 0, size, distance, mask
    return 1, int(size > target), size if size > target else target - size, distance, mask


def subsets_of(nodes: Sequence[int]) -> list[int]:
    """Masks of all non-empty subsets, by size, then lexicographically.

    >>> subsets_of([0, 1, 3])
    [1, 2, 8, 3, 9, 10, 11]
    """
    sizes = range(1, len(nodes) + 1)
    return [sum(1 << node for node in group) for size in sizes for group in combinations(nodes, size)]


def nodes_of(mask: int) -> list[int]:
    """The NUMA nodes of a set.

    >>> nodes_of(0b101)
    [0, 2]
    """
    return [node for node in range(mask.bit_length()) if mask >> node & 1]
