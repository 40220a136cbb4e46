"""Who holds which device of a node, whatever gave it out: the one place that answers it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from types import MappingProxyType

from tonnage.model.devices.sharing import Hold
from tonnage.model.names import parse_device_id


@dataclass(frozen=True, slots=True)
class Use:
    """A way in which a device is given out. Uses of one device that differ exclude each other.

    `part` is the uuid of the MIG device that is used, where only that part of the device is.
    """

    resource: str
    replicated: bool
    part: str = ""


Uses = dict[str, dict[Use, Hold]]
"""By the physical device's uuid: each use it is in, with one of the holds that say so."""


@dataclass(frozen=True, slots=True)
class DeviceHolds:
    """Every hold of every kind, by newest knowledge; `settled` once kubelet was asked, even if it is silent.

    Before that, `holds` are those that the ledger has from before. `by_id` is the hold of each
    (resource, id) that is held; of an id that is in several, the last.

    The device plugin asks it before it gives out a device, and to offer none that is held under another
    name; MIG before it destroys one; MPS before it ends a daemon.
    """

    holds: tuple[Hold, ...] = ()
    settled: bool = False
    by_id: Mapping[tuple[str, str], Hold] = field(
        default_factory=lambda: MappingProxyType({}), compare=False, repr=False
    )

    @classmethod
    def of(cls, holds: Iterable[Hold], *, settled: bool = True) -> DeviceHolds:
        """These, found by id.

        >>> DeviceHolds.of([Hold("r", ("GPU-0", "GPU-1"), "ml", "train")]).by_id["r", "GPU-1"].pod
        'train'
        """
        every = tuple(holds)
        return cls(every, settled, {(hold.resource, slot): hold for hold in every for slot in hold.ids})

    @property
    def resources(self) -> frozenset[str]:
        """The names under which any device is held."""
        return frozenset(hold.resource for hold in self.holds)

    def with_devices(self, uuids: Set[str]) -> Iterator[Hold]:
        """Those that have one of these devices or MIG devices, or a replica of one."""
        for hold in self.holds:
            if any(parse_device_id(text).uuid in uuids for text in hold.ids):
                yield hold

    def uses(self, whole_of: Mapping[str, str] = MappingProxyType({})) -> Uses:
        """The uses that each physical device is in. `whole_of` is that of every MIG device, by uuid."""
        uses: Uses = {}
        counted: set[tuple[str, str, bool]] = set()
        for hold in self.holds:
            for text in hold.ids:
                device = parse_device_id(text)
                key = hold.resource, device.uuid, device.replica is not None
                if key in counted:  # another replica of it
                    continue
                counted.add(key)
                whole = whole_of.get(device.uuid)
                use = Use(hold.resource, device.replica is not None, "" if whole is None else device.uuid)
                uses.setdefault(whole or device.uuid, {}).setdefault(use, hold)
        return uses
