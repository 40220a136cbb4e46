"""Which whole devices a container should get: the best by the rules of `objective`."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from tonnage.decide.node.preference.class_tables import (
    MOST_STEPS,
    ClassTables,
    class_tables,
    kinds_of,
    steps_of,
)
from tonnage.decide.node.preference.heuristic import nearly_best
from tonnage.decide.node.preference.objective import Pairs, pairs_of
from tonnage.decide.node.preference.subset_tables import MOST_DEVICES, SubsetTables, subset_tables
from tonnage.model.devices.links import LinkMatrix

T = TypeVar("T")

_AT_ONCE: Final = 9
"""Free devices whose tables are built while kubelet waits: about 3 ms."""

Tables = SubsetTables | ClassTables


@dataclass(frozen=True, slots=True)
class DeviceTopology:
    """How the devices of one resource are joined, and what has been worked out of it so far.

    `places` are by uuid, lowest index first. Without `tables` an answer is quick, but may not be the best.
    """

    matrix: LinkMatrix
    pairs: Pairs
    kinds: tuple[tuple[int, ...], ...]
    places: Mapping[str, int]
    tables: Tables | None = None


def topology_of(matrix: LinkMatrix) -> DeviceTopology:
    """What is known at once."""
    pairs = pairs_of(matrix)
    places = {uuid: place for place, uuid in enumerate(matrix.uuids)}
    return DeviceTopology(matrix, pairs, kinds_of(pairs), places)


def worked_out(topology: DeviceTopology) -> Generator[None, None, DeviceTopology]:
    """The topology with tables, where they are small enough; yields about every millisecond.

    Up to 16 devices always, then every answer is the best one; more of them when they are of few kinds.
    """
    steps, devices = steps_of(topology.kinds), len(topology.pairs)
    if steps <= (1 << devices if devices <= MOST_DEVICES else MOST_STEPS):
        return replace(topology, tables=(yield from class_tables(topology.pairs, topology.kinds)))
    if devices <= MOST_DEVICES:
        return replace(topology, tables=(yield from subset_tables(topology.pairs)))
    return topology


def finished(work: Generator[None, None, T]) -> T:
    """What the work gives, done in one go."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            answer: T = end.value
            return answer


def prefer_whole(
    topology: DeviceTopology, available: Sequence[str], required: Sequence[str], size: int
) -> tuple[str, ...]:
    """`size` uuids out of `available`, `required` among them, by index; fewer only when there are no more.

    Devices that the topology does not know come last, and only when there are too few others. Never fails.
    With tables the answer is the best one, else one found in a bounded number of steps.
    """
    offered = set(available)
    must = tuple(uuid for uuid in dict.fromkeys(required) if uuid in offered)[: max(size, 0)]
    places = topology.places
    strange = sorted(offered.difference(places, must))
    free = sorted(places[uuid] for uuid in offered.difference(strange) if uuid in places)
    needed = [places[uuid] for uuid in must if uuid in places]
    number = min(size - (len(must) - len(needed)), len(free))
    chosen = [topology.matrix.uuids[place] for place in _best(topology, free, needed, number)]
    answer = [*chosen, *(uuid for uuid in must if uuid not in places)]
    return (*answer, *strange[: max(size - len(answer), 0)])


def slowest_pair(topology: DeviceTopology, uuids: Sequence[str]) -> int | None:
    """Tenths of GB/s between the two of them that are joined worst; None of fewer than two that are known."""
    places = [topology.places[uuid] for uuid in uuids if uuid in topology.places]
    return min((topology.matrix.best[i][j] for i in places for j in places if i != j), default=None)


def _best(
    topology: DeviceTopology, free: Sequence[int], required: Sequence[int], size: int
) -> tuple[int, ...]:
    if size <= len(required):
        return tuple(sorted(required))
    if size == len(free):
        return tuple(free)
    if topology.tables is not None:
        return topology.tables.choose(free, required, size)
    if len(free) > _AT_ONCE:
        return nearly_best(topology.pairs, topology.kinds, free, required, size)
    few = {place: few for few, place in enumerate(free)}
    tables = finished(subset_tables(topology.pairs.among(free)))
    return tuple(free[place] for place in tables.choose(range(len(free)), [few[i] for i in required], size))
