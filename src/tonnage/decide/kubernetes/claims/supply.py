"""What the slices of a cluster offer, and what of it claims have already. Made once per view.

Source: k8s.io/dynamic-resource-allocation/structured, kube-scheduler's dynamicresources/allocateddevices.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from tonnage.model.kubernetes.feature_gates import (
    CONDITIONS,
    EXTENDED,
    PARTITIONS,
    SHARES,
    TAINTS,
    FeatureGates,
)
from tonnage.model.kubernetes.resource_claims import (
    CLASS_RESOURCE,
    AllocatedDevice,
    ClaimDeviceId,
    DeviceClass,
    NodeScope,
    ResourceClaim,
    ResourceSlice,
    SliceDevice,
    TaintRule,
)

if TYPE_CHECKING:
    from tonnage.decide.kubernetes.claims.expressions import Selection


_MOST_LOOKED_AT: Final = 4096


@dataclass(frozen=True, slots=True)
class Gates:
    """Which parts of dynamic allocation a release has, and how it goes about them."""

    minor: int = 35
    partitions: bool = False
    taints: bool = False
    sharing: bool = False
    conditions: bool = False
    extended: bool = False

    @property
    def as_features(self) -> FeatureGates:
        """The same by their names."""
        chosen = (
            (PARTITIONS, self.partitions),
            (TAINTS, self.taints),
            (SHARES, self.sharing),
            (CONDITIONS, self.conditions),
            (EXTENDED, self.extended),
        )
        return FeatureGates(self.minor, chosen)

    @property
    def takes_incomplete_pools(self) -> bool:
        """Counts are met from pools of which slices are missing, and an invalid pool fails the pod."""
        return self.minor < 35

    @property
    def names_device_in_errors(self) -> bool:
        """CEL errors say on which device, and what to do about it."""
        return self.minor > 36


def gates_of(minor: int, chosen: tuple[tuple[str, bool], ...] = ()) -> Gates:
    """The gates of a release: by default, but for those that somebody has `chosen`."""
    gates = FeatureGates(minor, chosen)
    return Gates(
        minor,
        partitions=gates.has(PARTITIONS),
        taints=gates.has(TAINTS),
        sharing=gates.has(SHARES),
        conditions=gates.has(CONDITIONS),
        extended=gates.has(EXTENDED),
    )


def gates_shown(
    minor: int,
    slices: Iterable[ResourceSlice],
    classes: Iterable[DeviceClass] = (),
    claims: Iterable[ResourceClaim] = (),
) -> Gates:
    """The gates of a release, and those that objects show: a server drops the fields of one that is off."""
    gates, slices = gates_of(minor), tuple(slices)
    shown = any(cls.extended_resource and cls.created for cls in classes)  # a file shows nothing
    gates = replace(gates, extended=gates.extended or shown)
    if gates.partitions and gates.taints and gates.sharing and gates.conditions:
        return gates
    devices = tuple(device for part in slices for device in part.devices)
    shares = any(device.shareable for device in devices) or any(map(_shows_sharing, claims))
    return replace(
        gates,
        partitions=gates.partitions or any(part.counters for part in slices),
        taints=gates.taints or any(device.taints for device in devices),
        sharing=gates.sharing or shares,
        conditions=gates.conditions or any(device.waits_for for device in devices),
    )


def _shows_sharing(claim: ResourceClaim) -> bool:
    """A claim that a server took has what it drops while consumable capacity is off. A file shows nothing."""
    parts = (part for request in claim.requests for part in (request, *request.alternatives))
    return bool(claim.uid) and (
        any(part.capacity is not None for part in parts)
        or any(constraint.distinct for constraint in claim.constraints)
    )


@dataclass(frozen=True, slots=True)
class Supply:
    """Slices by the node that alone reaches them, the others, and all of a pool; what claims have of it.

    `held` are devices that one claim has for itself, by the claim; `parts` what is taken of devices that are
    shared. All slices and pools are in order of their names.
    """

    gates: Gates
    by_node: Mapping[str, tuple[ResourceSlice, ...]]
    anywhere: tuple[ResourceSlice, ...]
    by_pool: Mapping[tuple[str, str], tuple[ResourceSlice, ...]]
    classes: Mapping[str, DeviceClass]
    claims: dict[tuple[str, str], ResourceClaim]
    held: dict[ClaimDeviceId, ResourceClaim]
    parts: dict[ClaimDeviceId, dict[str, Fraction]]
    by_resource: Mapping[str, str] = field(default_factory=dict)
    """The class that stands for each extended resource."""
    changed: list[str] = field(init=False, default_factory=list, compare=False, repr=False)
    """Nodes of whose own devices some were given by `put`, in order."""
    _selections: dict[str, Selection] = field(default_factory=dict)
    _attributes: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def with_claims(self, claims: Iterable[ResourceClaim]) -> Supply:
        """The same offer to other claims."""
        every = {claim.key: claim for claim in claims}
        held, parts = _holdings(every.values(), sharing=self.gates.sharing)
        return replace(self, claims=every, held=held, parts=parts)

    def put(self, claims: Iterable[ResourceClaim]) -> None:
        """New claims, or claims that have devices by now, each whole: in place, for who made this supply."""
        for claim in claims:
            self.claims[claim.key] = claim
            for device in claim.allocation.devices if claim.allocation else ():
                if not device.admin:
                    if device.share and self.gates.sharing:
                        _consume(self.parts, device)
                    else:
                        self.held[device.id] = claim
                    pool = self.by_pool.get((device.id.driver, device.id.pool), ())
                    self.changed.extend(part.scope.name for part in pool if part.scope and part.scope.name)

    @property
    def attributes(self) -> Mapping[str, tuple[str, ...]]:
        """The attributes that devices publish, by their full names, each with the texts that it has.

        Empty where there are too many devices to look at.
        """
        if not self._attributes and self._is_small():
            texts: dict[str, dict[str, None]] = {}
            for (driver, _), slices in self.by_pool.items():
                for device in (device for part in slices for device in part.devices):
                    for key, value in device.attributes.items():
                        there = texts.setdefault(key if "/" in key else f"{driver}/{key}", {})
                        if isinstance(value, str):
                            there[value] = None
            self._attributes.update({name: tuple(values) for name, values in texts.items()})
        return self._attributes

    def _is_small(self) -> bool:
        counts = (len(part.devices) for slices in self.by_pool.values() for part in slices)
        return all(total <= _MOST_LOOKED_AT for total in accumulate(counts))

    def selects(self, expression: str, driver: str, device: SliceDevice) -> bool:
        """Whether a CEL selector takes a device; asked about alike devices once.

        Raises:
            CelError: the expression fails, or is none.
            UnsupportedError: its result cannot be known here.
        """
        from tonnage.decide.kubernetes.claims.expressions import selection

        cached = self._selections.get(expression)
        if cached is None:
            cached = self._selections[expression] = selection(expression, self.gates.minor)
        return cached.takes(driver, device)


def supply_of(
    slices: Iterable[ResourceSlice],
    classes: Iterable[DeviceClass],
    claims: Iterable[ResourceClaim],
    gates: Gates,
) -> Supply:
    """The supply out of a snapshot's parts."""
    every = tuple(classes)
    by_node: dict[str, list[ResourceSlice]] = {}
    anywhere: list[ResourceSlice] = []
    by_pool: dict[tuple[str, str], list[ResourceSlice]] = {}
    for resource_slice in sorted(slices, key=lambda s: s.name):
        by_pool.setdefault((resource_slice.driver, resource_slice.pool), []).append(resource_slice)
        scope = resource_slice.scope or NodeScope()
        if scope.name and not (resource_slice.counters and gates.minor == 36):
            by_node.setdefault(scope.name, []).append(resource_slice)
        else:
            anywhere.append(resource_slice)
    offer = Supply(
        gates,
        {name: tuple(group) for name, group in by_node.items()},
        tuple(anywhere),
        {key: tuple(group) for key, group in by_pool.items()},
        {cls.name: cls for cls in every},
        {},
        {},
        {},
        classes_by_resource(every) if gates.extended else {},
    )
    return offer.with_claims(claims)


def classes_by_resource(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """The class that stands for each extended resource: of several the latest, then the first by name."""
    ranked = sorted(classes, key=lambda cls: (-cls.created, cls.name), reverse=True)
    explicit = {cls.extended_resource: cls.name for cls in ranked if cls.extended_resource}
    return {**{f"{CLASS_RESOURCE}{cls.name}": cls.name for cls in ranked}, **explicit}


def tainted(
    slices: Iterable[ResourceSlice], rules: Iterable[TaintRule], gates: Gates
) -> tuple[ResourceSlice, ...]:
    """The slices with the taints of rules, which schedulers mind by default from 1.37 on."""
    minded = [rule for rule in rules if rule.chooses] if gates.minor > 36 else []
    return tuple(_tainted(resource_slice, minded) for resource_slice in slices) if minded else tuple(slices)


def _tainted(resource_slice: ResourceSlice, rules: list[TaintRule]) -> ResourceSlice:
    here = [
        r
        for r in rules
        if r.driver in (None, resource_slice.driver) and r.pool in (None, resource_slice.pool)
    ]
    if not here:
        return resource_slice

    def with_taints(device: SliceDevice) -> SliceDevice:
        added = tuple(rule.taint for rule in here if rule.device in (None, device.name))
        return replace(device, taints=(*device.taints, *added)) if added else device

    return replace(resource_slice, devices=tuple(with_taints(device) for device in resource_slice.devices))


def _holdings(
    claims: Iterable[ResourceClaim], *, sharing: bool
) -> tuple[dict[ClaimDeviceId, ResourceClaim], dict[ClaimDeviceId, dict[str, Fraction]]]:
    """Devices that claims have. Administrators' access takes nothing."""
    held: dict[ClaimDeviceId, ResourceClaim] = {}
    parts: dict[ClaimDeviceId, dict[str, Fraction]] = {}
    for claim in claims:
        for device in claim.allocation.devices if claim.allocation else ():
            if device.admin:
                continue
            if not (device.share and sharing):
                held[device.id] = claim
                continue
            _consume(parts, device)
    return held, parts


def _consume(parts: dict[ClaimDeviceId, dict[str, Fraction]], device: AllocatedDevice) -> None:
    consumed = parts.setdefault(device.id, {})
    for name, amount in device.consumed.items():
        consumed[name] = consumed.get(name, Fraction(0)) + amount
