"""Which devices a container gets, and from which NUMA nodes: the kubelet's device and topology managers.

A set of NUMA nodes is an int whose bit n stands for node n. Ids are device ids as a plugin advertises them.

Source: Kubernetes 1.36, pkg/kubelet/cm/devicemanager and pkg/kubelet/cm/topologymanager.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import TypeAlias

Ids: TypeAlias = frozenset[str]
NO_IDS: Ids = frozenset()


class TopologyPolicy(StrEnum):
    """The kubelet's `topologyManagerPolicy`."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"


@dataclass(frozen=True, slots=True)
class Hint:
    """NUMA nodes that could serve a request; `mask` None means that any will do."""

    mask: int | None
    preferred: bool


@dataclass(frozen=True, slots=True)
class Devices:
    """One resource of a node. `numa` names every registered device, with 0 for one without topology."""

    resource: str
    numa: Mapping[str, int]
    healthy: Ids
    allocated: Ids = NO_IDS

    @property
    def available(self) -> Ids:
        """Healthy and held by nobody."""
        return self.healthy - self.allocated


@dataclass(frozen=True, slots=True)
class Chosen:
    """Devices to hand out: `certain` and the first `missing` of `pool`.

    The kubelet draws from the pool at random; here it is the smallest ids, so that a run can be repeated.
    """

    certain: Ids
    pool: Ids = NO_IDS
    missing: int = 0

    @property
    def ids(self) -> Ids:
        return self.certain | frozenset(sorted(self.pool)[: self.missing])


@dataclass(frozen=True, slots=True)
class AskPlugin:
    """The plugin's preference is wanted before the choice can be finished with `prefer`."""

    available: Ids
    must: Ids
    size: int
    groups: tuple[Ids, ...]
    """What to draw from after the preferred devices, in order; preferred ids count only if in `eligible`."""
    eligible: Ids


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Why there are no devices to hand out, in the kubelet's words."""

    message: str


Choice: TypeAlias = Chosen | AskPlugin | Unavailable


@dataclass(frozen=True, slots=True)
class Request:
    """What a container asks of one resource; `reusable` are devices of the pod's finished init containers."""

    count: int
    reusable: Ids = NO_IDS
    hint: Hint = Hint(None, True)


def choose(devices: Devices, request: Request, *, plugin_prefers: bool) -> Choice:
    """The devices for a request, or what must be asked or said first.

    >>> four = Devices("nvidia.com/gpu", dict.fromkeys("abcd", 0), frozenset("abc"), frozenset("a"))
    >>> sorted(choose(four, Request(1), plugin_prefers=False).ids)
    ['b']
    >>> choose(four, Request(3), plugin_prefers=False).message
    'requested number of devices unavailable for nvidia.com/gpu. Requested: 3, Available: 2'
    """
    if not devices.healthy:
        return Unavailable(
            f"no healthy devices present; cannot allocate unhealthy devices {devices.resource}"
        )
    taken, done = _take(NO_IDS, request.reusable, request.count)
    if done is not None:
        return done
    available = devices.available
    missing = request.count - len(taken)
    if len(available) < missing:
        return Unavailable(
            f"requested number of devices unavailable for {devices.resource}. "
            f"Requested: {missing}, Available: {len(available)}"
        )
    aligned, unaligned, indifferent = _by_affinity(devices, available, request.hint)
    if missing < len(aligned):
        ask = AskPlugin(aligned | taken, taken, request.count, (aligned,), aligned)
        return ask if plugin_prefers else prefer(ask, NO_IDS)
    must, done = _take(taken, aligned, request.count)
    if done is not None:
        return done
    ask = AskPlugin(available | must, must, request.count, (unaligned, indifferent), available)
    return ask if plugin_prefers else prefer(ask, NO_IDS)


def prefer(ask: AskPlugin, preferred: Ids) -> Chosen | Unavailable:
    """The choice once the plugin has answered; what it may not or need not name is filled up."""
    taken = ask.must
    for group in (preferred & ask.eligible, *ask.groups):
        taken, done = _take(taken, group, ask.size)
        if done is not None:
            return done
    return Unavailable(
        f"unexpectedly allocated less resources than required. Requested: {ask.size}, Got: {len(taken)}"
    )


def _take(taken: Ids, group: Ids, size: int) -> tuple[Ids, Chosen | None]:
    fresh = group - taken
    missing = size - len(taken)
    if len(fresh) > missing:
        return taken, Chosen(taken, fresh, missing)
    together = taken | fresh
    return together, Chosen(together) if fresh and len(together) == size else None


def _by_affinity(devices: Devices, available: Ids, hint: Hint) -> tuple[Ids, Ids, Ids]:
    if hint.mask is None or not any(devices.numa.values()):
        return NO_IDS, NO_IDS, available
    placed = frozenset(device for device in available if devices.numa.get(device, 0))
    aligned = frozenset(device for device in placed if devices.numa[device] & hint.mask)
    return aligned, placed - aligned, available - placed


def hints_for(devices: Devices, count: int, reusable: Ids = NO_IDS) -> tuple[Hint, ...] | None:
    """The sets of NUMA nodes that could serve `count` devices, small ones first.

    None when no device has topology (anything will do); empty when there are not enough devices.
    """
    if not any(devices.numa.values()):
        return None
    available = devices.available
    if len(available | reusable) < count:
        return ()
    nodes = _nodes_of(_union(devices.numa.values()))
    fewest = len(nodes)
    masks = []
    for mask in _subsets(nodes):
        if sum(1 for numa in devices.numa.values() if numa & mask) >= count:
            fewest = min(fewest, mask.bit_count())
        if _serves(devices, mask, available, reusable) >= count:
            masks.append(mask)
    return tuple(Hint(mask, mask.bit_count() == fewest) for mask in masks)


def _subsets(nodes: Sequence[int]) -> list[int]:
    """Masks of all non-empty subsets, by size, then lexicographically."""
    sizes = range(1, len(nodes) + 1)
    return [_union(1 << node for node in group) for size in sizes for group in combinations(nodes, size)]


def _serves(devices: Devices, mask: int, available: Ids, reusable: Ids) -> int:
    pinned = [devices.numa[device] for device in reusable if devices.numa.get(device, 0)]
    if any(not numa & mask for numa in pinned):
        return 0
    return len(pinned) + sum(1 for device in available if devices.numa[device] & mask)


def _union(masks: Iterable[int]) -> int:
    result = 0
    for mask in masks:
        result |= mask
    return result


def _nodes_of(mask: int) -> list[int]:
    return [node for node in range(mask.bit_length()) if mask >> node & 1]


@dataclass(frozen=True, slots=True)
class Topology:
    """The host's NUMA nodes 0…n-1, the kubelet's policy, and whether `prefer-closest-numa-nodes` is on."""

    nodes: int
    policy: TopologyPolicy = TopologyPolicy.NONE
    distances: tuple[tuple[int, ...], ...] = ()
    """`distances[a][b]` as the ACPI SLIT has it; empty unless the closest nodes are preferred."""

    @property
    def everywhere(self) -> int:
        return (1 << self.nodes) - 1


def admit(topology: Topology, providers: Sequence[tuple[Hint, ...] | None]) -> tuple[Hint, bool]:
    """The merged hint of all resources of a container (or pod), and whether the policy lets the pod in."""
    if topology.policy is TopologyPolicy.NONE:
        return Hint(None, True), True
    best = _merge(topology, [_offers(hints) for hints in providers])
    return best, best.preferred or topology.policy is TopologyPolicy.BEST_EFFORT


def _offers(hints: tuple[Hint, ...] | None) -> tuple[Hint, ...]:
    if hints is None:
        return (Hint(None, True),)
    return hints or (Hint(None, False),)


def _merge(topology: Topology, offers: list[tuple[Hint, ...]]) -> Hint:
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


def _rank(topology: Topology, hint: Hint, target: int) -> tuple[int, int, int, float, int]:
    """Smaller is better. Not preferred: the size that the hungriest provider needs, then less, then more."""
    mask = hint.mask or 0
    size = mask.bit_count()
    distance = 0.0
    if topology.distances and topology.policy is not TopologyPolicy.SINGLE_NUMA_NODE:
        nodes = _nodes_of(mask)
        distance = sum(topology.distances[a][b] for a in nodes for b in nodes) / len(nodes) ** 2
    if hint.preferred:
        return 0, 0, size, distance, mask
    return 1, int(size > target), size if size > target else target - size, distance, mask
