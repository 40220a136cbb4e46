"""Which replicas a container should get, by policy."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush

from tonnage.model.names import parse_device_id
from tonnage.model.sharing import PlannedResource, SharedPolicy


def prefer_replicas(
    resource: PlannedResource,
    available: Sequence[str],
    required: Sequence[str],
    size: int,
    *,
    index_of: Mapping[str, int],
    policy: SharedPolicy,
) -> tuple[str, ...]:
    """`size` ids out of `available`, `required` among them; fewer when there are no more.

    `taken` counts a device's replicas that are not available, those of this choice too.

    - distributed: the next one from the device with the fewest taken, then the fewest of this choice
    - packed: from the device with the most taken, then the most of this choice
    - spread: from the device with the fewest of this choice, then the fewest taken, so that no device gives
      two while another has one
    - spread-strict: as spread, but never two of one device, even if there are fewer than `size`

    Equal devices: lowest index first; of one device the lowest replica. Never fails. O(n log n).
    """
    offered = set(available)
    chosen = [slot for slot in dict.fromkeys(required) if slot in offered][: max(size, 0)]
    wanted = max(size, 0) - len(chosen)
    free: dict[str, deque[str]] = {}
    for slot in sorted(offered.difference(chosen), key=lambda slot: _position(slot, index_of)):
        free.setdefault(parse_device_id(slot).uuid, deque()).append(slot)
    taken = Counter(slot.uuid for slot in resource.slots)
    taken.subtract({uuid: len(slots) for uuid, slots in free.items()})
    here = Counter(parse_device_id(slot).uuid for slot in chosen)
    strict = policy is SharedPolicy.SPREAD_STRICT
    spread = strict or policy is SharedPolicy.SPREAD
    step = -1 if policy is SharedPolicy.PACKED else 1
    heap = [
        (step * (here if spread else taken)[uuid], step * (taken if spread else here)[uuid], place, uuid)
        for place, uuid in enumerate(free)
        if not (strict and here[uuid])
    ]
    heapify(heap)
    while wanted and heap:
        first, second, place, uuid = heappop(heap)
        chosen.append(free[uuid].popleft())
        wanted -= 1
        if free[uuid] and not strict:
            heappush(heap, (first + step, second + step, place, uuid))
    return tuple(chosen)


def by_index(
    available: Sequence[str], required: Sequence[str], size: int, *, index_of: Mapping[str, int]
) -> tuple[str, ...]:
    """`required`, then the lowest indices: what is left where nothing is known of links."""
    offered = set(available)
    chosen = [slot for slot in dict.fromkeys(required) if slot in offered][: max(size, 0)]
    others = sorted(offered.difference(chosen), key=lambda slot: _position(slot, index_of))
    return (*chosen, *others[: max(size, 0) - len(chosen)])


def _position(slot: str, index_of: Mapping[str, int]) -> tuple[int, str, int]:
    """Index order, what is unknown last, and replicas of a device in their order."""
    device = parse_device_id(slot)
    return index_of.get(device.uuid, 1 << 30), device.uuid, device.replica or 0
