"""Nodes whose devices are equal in all that a pod's claims ask of them, so that one answer is all of theirs.

Only of nodes that reach the slices of their own and no others, where devices share no counters and no parts.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from tonnage.decide.kubernetes.claims.cel_errors import CelError, CelUnsupportedError
from tonnage.decide.kubernetes.claims.supply import Supply
from tonnage.model.kubernetes.cluster import Node
from tonnage.model.kubernetes.resource_claims import DeviceRequest, ResourceClaim, ResourceSlice, SliceDevice


@dataclass(frozen=True, slots=True)
class DeviceTraits:
    """What claims read of devices: the answers of selectors, and the values of attributes."""

    expressions: tuple[str, ...]
    attributes: tuple[str, ...]


def traits_read_by(claims: Sequence[ResourceClaim], supply: Supply) -> DeviceTraits | None:
    """What claims read of devices; None: nodes must be asked singly."""
    if supply.anywhere or supply.parts:
        return None
    parts = [part for claim in claims for r in claim.requests for part in (r.alternatives or (r,))]
    if any(part.capacity is not None or part.admin for part in parts):
        return None
    return DeviceTraits(tuple(_expressions(parts, supply)), tuple(_attributes(claims)))


def kind_on(node: Node, claims: Sequence[ResourceClaim], supply: Supply) -> Hashable:
    """What claims and a node's devices are to each other, equal where the answers are; None: not known."""
    traits = traits_read_by(claims, supply)
    if traits is None:
        return None
    asks = tuple((claim.requests, claim.constraints) for claim in claims)
    return asks, devices_as_seen(node.name, traits, supply)


def devices_as_seen(node: str, traits: DeviceTraits, supply: Supply) -> Hashable:
    """What a node's devices are to claims that read these traits: equal for nodes that answer alike."""
    return tuple(_slice_key(part, traits, supply) for part in slices_in_order(node, supply))


def slices_in_order(node: str, supply: Supply) -> Sequence[ResourceSlice]:
    """A node's own slices by pool, as the allocator looks through them."""
    slices = supply.by_node.get(node, ())
    if len(slices) < 2:
        return slices
    return sorted(slices, key=lambda part: (part.driver, part.pool, part.name))


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


def _slice_key(part: ResourceSlice, traits: DeviceTraits, supply: Supply) -> Hashable:
    pool = supply.by_pool[part.driver, part.pool]
    if part.problems or part.counters or part.scope_by_device or len(pool) != 1 or part.slices != 1:
        return part.name, tuple(part.id_of(device) in supply.held for device in part.devices)
    return part.driver, tuple(_device_key(part, device, traits, supply) for device in part.devices)


def _device_key(part: ResourceSlice, device: SliceDevice, traits: DeviceTraits, supply: Supply) -> Hashable:
    identity = part.id_of(device)
    if device.consumes or device.shareable or device.waits_for:
        return str(identity), identity in supply.held
    answers = tuple(_answer(expression, part.driver, device, supply) for expression in traits.expressions)
    values = tuple((value, type(value)) for value in map(device.attributes.get, traits.attributes))
    return device.name, answers, values, device.taints, identity in supply.held


def _answer(expression: str, driver: str, device: SliceDevice, supply: Supply) -> Hashable:
    try:
        return supply.selects(expression, driver, device)
    except (CelError, CelUnsupportedError) as error:
        return str(error)
