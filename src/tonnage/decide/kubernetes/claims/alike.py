"""Nodes whose devices are equal in all that a pod's claims ask of them, so that one answer is all of theirs.

Only of nodes that reach the slices of their own and no others, where devices share no counters and no parts.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

from tonnage.decide.kubernetes.claims.cel_errors import CelError, CelUnsupportedError
from tonnage.decide.kubernetes.claims.supply import Supply
from tonnage.model.kubernetes.resource_claims import DeviceRequest, ResourceClaim, ResourceSlice, SliceDevice


def device_signatures(claims: Sequence[ResourceClaim], supply: Supply) -> Mapping[str, Hashable] | None:
    """By node with slices of its own, what its devices are to these claims; None: nodes must be asked singly.

    Made once for the same questions to the same supply.
    """
    if supply.anywhere or supply.parts or not claims:
        return None
    parts = [part for claim in claims for r in claim.requests for part in (r.alternatives or (r,))]
    if any(part.capacity is not None or part.admin for part in parts):
        return None
    reads = (tuple(_expressions(parts, supply)), tuple(_attributes(claims)))
    cached = supply.signatures.get(reads)
    if cached is None or cached[0] is not supply.held:
        numbers: dict[Hashable, int] = {}
        by_node: dict[str, Hashable] = {}
        for node, slices in supply.by_node.items():
            key = tuple(_slice_key(part, reads, supply) for part in slices)
            by_node[node] = numbers.setdefault(key, len(numbers))
        cached = supply.signatures[reads] = (supply.held, by_node)
    return cached[1]


def _expressions(parts: Sequence[DeviceRequest], supply: Supply) -> Iterator[str]:
    for part in parts:
        cls = supply.classes.get(part.device_class)
        yield from cls.selectors if cls is not None else ()
        yield from part.selectors


def _attributes(claims: Sequence[ResourceClaim]) -> Iterator[str]:
    for claim in claims:
        for constraint in claim.constraints:
            yield constraint.attribute
            yield constraint.attribute.rpartition("/")[2]


def _slice_key(
    part: ResourceSlice, reads: tuple[tuple[str, ...], tuple[str, ...]], supply: Supply
) -> Hashable:
    if part.problems or part.counters or part.scope_by_device:
        return part.name
    pool = supply.by_pool[part.driver, part.pool]
    if len(pool) != 1 or part.slices != 1:
        return part.name
    return part.driver, tuple(_device_key(part, device, reads, supply) for device in part.devices)


def _device_key(
    part: ResourceSlice,
    device: SliceDevice,
    reads: tuple[tuple[str, ...], tuple[str, ...]],
    supply: Supply,
) -> Hashable:
    identity = part.id_of(device)
    if device.consumes or device.shareable or device.waits_for:
        return str(identity)
    expressions, attributes = reads
    answers = tuple(_answer(expression, part.driver, device, supply) for expression in expressions)
    values = tuple((value, type(value)) for value in map(device.attributes.get, attributes))
    return device.name, answers, values, device.taints, identity in supply.held


def _answer(expression: str, driver: str, device: SliceDevice, supply: Supply) -> Hashable:
    try:
        return supply.selects(expression, driver, device)
    except (CelError, CelUnsupportedError) as error:
        return str(error)
