"""Which of the devices that kubelet has free a container should get."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush

from tonnage.model.names import parse_device_id
from tonnage.model.sharing import PlannedResource, SharedPolicy


def prefer(
    resource: PlannedResource,
    available: Sequence[str],
    required: Sequence[str],
    size: int,
    *,
    index_of: Mapping[str, int],
    policy: SharedPolicy = SharedPolicy.DISTRIBUTED,
) -> tuple[str, ...]:
    """`size` ids out of `available`, `required` among them; fewer when there are no more.

    Whole devices: lowest index first. Replicas: from the device with the fewest taken (`distributed`) or with
    the most (`packed`), counting this choice, so that a request is spread over devices or kept on one.
    Equal candidates: lowest index, then lowest replica. Never fails: an unknown id comes last. O(n log n).
    """
    offered = set(available)
    chosen = [slot for slot in dict.fromkeys(required) if slot in offered][: max(size, 0)]
    wanted = max(size, 0) - len(chosen)
    candidates = sorted(offered - set(chosen), key=lambda slot: _position(slot, index_of))
    if not resource.shared or not wanted:
        return (*chosen, *candidates[:wanted])
    free: dict[str, deque[str]] = {}
    for slot in candidates:
        free.setdefault(parse_device_id(slot).uuid, deque()).append(slot)
    taken = Counter(slot.uuid for slot in resource.slots)
    taken.subtract({uuid: len(slots) for uuid, slots in free.items()})
    here = Counter(parse_device_id(slot).uuid for slot in chosen)
    sign = -1 if policy is SharedPolicy.PACKED else 1
    heap = [(sign * taken[uuid], sign * here[uuid], place, uuid) for place, uuid in enumerate(free)]
    heapify(heap)
    while wanted and heap:
        load, own, place, uuid = heappop(heap)
        chosen.append(free[uuid].popleft())
        wanted -= 1
        if free[uuid]:
            heappush(heap, (load + sign, own + sign, place, uuid))
    return tuple(chosen)


def _position(slot: str, index_of: Mapping[str, int]) -> tuple[int, str, int]:
    device = parse_device_id(slot)
    return index_of.get(device.uuid, 1 << 30), device.uuid, device.replica or 0
