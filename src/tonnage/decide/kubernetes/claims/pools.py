"""GatherPools: the pools of devices that a node can reach.

Source: k8s.io/dynamic-resource-allocation/structured, pools (1.34.4, 1.35.8, 1.36.3, 1.37.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tonnage.decide.kubernetes.claims.supply import Gates, Supply
from tonnage.decide.kubernetes.matching import term_matches
from tonnage.model.kubernetes.cluster import Node
from tonnage.model.kubernetes.resource_claims import NodeScope, Quantities, ResourceSlice


@dataclass(frozen=True, slots=True)
class Pool:
    """A driver's pool as a node sees it. `elsewhere` are its slices that the node does not reach.

    `invalid` says why nothing may be taken of it; `incomplete`: slices of its generation are missing.
    """

    driver: str
    name: str
    slices: tuple[ResourceSlice, ...] = ()
    elsewhere: tuple[ResourceSlice, ...] = ()
    counters: Mapping[str, Quantities] = field(default_factory=dict)
    incomplete: bool = False
    invalid: str = ""

    @property
    def usable(self) -> bool:
        """Whether devices may be taken of it."""
        return not self.incomplete and not self.invalid

    def __str__(self) -> str:
        return f"{self.driver}/{self.name}"


def pools_for(node: Node, supply: Supply) -> tuple[Pool, ...]:
    """The pools in the order in which the allocator looks through them.

    Before 1.36 that order is chance with several pools or slices; here it is always by name.
    """
    gates = supply.gates
    by_pool: dict[tuple[str, str], list[ResourceSlice]] = {}
    for resource_slice in (*supply.by_node.get(node.name, ()), *supply.anywhere):
        if _reaches(resource_slice, node, gates):
            _add(by_pool.setdefault((resource_slice.driver, resource_slice.pool), []), resource_slice)
    ordered = (
        (key, sorted(slices, key=lambda resource_slice: resource_slice.name))
        for key, slices in sorted(by_pool.items())
    )
    pools = [pool for key, slices in ordered if (pool := _pool(key, slices, supply))]
    if gates.conditions:
        pools.sort(key=_has_conditions)
    return tuple(pools)


def scope_takes(scope: NodeScope, node: Node) -> bool:
    """Whether a node is in a scope."""
    if scope.name:
        return scope.name == node.name
    return scope.everywhere or any(term_matches(term, node) for term in scope.selector or ())


def _reaches(resource_slice: ResourceSlice, node: Node, gates: Gates) -> bool:
    if resource_slice.scope is None or (resource_slice.scope_by_device and not gates.partitions):
        return False
    if resource_slice.counters and gates.minor == 36:
        return True
    if resource_slice.scope_by_device:
        return any(scope_takes(device.scope, node) for device in resource_slice.devices)
    return scope_takes(resource_slice.scope, node)


def _add(slices: list[ResourceSlice], resource_slice: ResourceSlice) -> None:
    """Keep only the latest generation."""
    if slices and resource_slice.generation > slices[0].generation:
        slices.clear()
    if not slices or resource_slice.generation == slices[0].generation:
        slices.append(resource_slice)


def _pool(key: tuple[str, str], slices: list[ResourceSlice], supply: Supply) -> Pool | None:
    """The pool, or None when a newer generation is on its way to nodes other than this."""
    expected, generation = slices[0].slices, slices[0].generation
    every = tuple(slices)
    if len(slices) != expected and supply.gates.minor > 34:
        if any(other.generation > generation for other in supply.by_pool[key]):
            return None
        every = tuple(other for other in supply.by_pool[key] if other.generation == generation)
    incomplete = len(every) != expected
    if incomplete and not supply.gates.takes_incomplete_pools:
        return Pool(*key, incomplete=True)
    names = {resource_slice.name for resource_slice in slices}
    others = tuple(resource_slice for resource_slice in every if resource_slice.name not in names)
    return _built(key, tuple(slices), others, supply.gates, incomplete=incomplete)


def _built(
    key: tuple[str, str],
    slices: tuple[ResourceSlice, ...],
    others: tuple[ResourceSlice, ...],
    gates: Gates,
    *,
    incomplete: bool,
) -> Pool:
    if not gates.partitions:
        return Pool(*key, slices, others, incomplete=incomplete, invalid=_repeated(_device_names(slices)))
    sets = [
        resource_slice
        for resource_slice in (*slices, *(others if gates.minor > 36 else ()))
        if resource_slice.counters
    ]
    with_devices = tuple(resource_slice for resource_slice in slices if not resource_slice.counters)
    away = tuple(resource_slice for resource_slice in others if not resource_slice.counters)
    counters = {name: amounts for resource_slice in sets for name, amounts in resource_slice.counters.items()}
    invalid = (
        _repeated(_device_names(with_devices))
        or _repeated((name for resource_slice in sets for name in resource_slice.counters), "counter set")
        or _unknown_counter(counters, (*with_devices, *away))
    )
    if invalid:
        return Pool(*key, invalid=invalid)
    return Pool(*key, with_devices, away, counters)


def _device_names(slices: Iterable[ResourceSlice]) -> Iterator[str]:
    return (device.name for resource_slice in slices for device in resource_slice.devices)


def _repeated(names: Iterable[str], kind: str = "device") -> str:
    seen_names: set[str] = set()
    for name in names:
        if name in seen_names:
            return f"duplicate {kind} name {name}"
        seen_names.add(name)
    return ""


def _unknown_counter(counters: Mapping[str, Quantities], slices: Iterable[ResourceSlice]) -> str:
    for resource_slice in slices:
        for device in resource_slice.devices:
            for name, amounts in device.consumes.items():
                if name not in counters:
                    return f"counter set {name} not found"
                for counter in sorted(amounts):
                    if counter not in counters[name]:
                        return f"counter {counter} not found in counter set {name}"
    return ""


def _has_conditions(pool: Pool) -> bool:
    return any(device.waits_for for resource_slice in pool.slices for device in resource_slice.devices)
