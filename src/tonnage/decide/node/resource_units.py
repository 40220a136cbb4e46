"""What a node has to give: whole devices and MIG devices under their names, by the MIG strategy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.names import GPU, MIG_PREFIX, ResourceName, parse_resource_name
from tonnage.model.node.plugin_settings import MigStrategy, NamePattern
from tonnage.model.reasons.gpu.offers import (
    DeviceKindDiffers,
    MigDevicesMissing,
    MigIgnored,
    MigProfilesMixed,
    MigProfileUnnamed,
    OfferReason,
)

_WHOLE: Final = "whole devices"
"""The kind of a device that is not divided; those of divided ones are profiles."""


@dataclass(frozen=True, slots=True)
class DeviceUnit:
    """A whole device (`mig` is None) or a MIG device of it, and its name before it is shared."""

    name: ResourceName
    device: Device
    mig: MigDevice | None = None

    @property
    def uuid(self) -> str:
        """What it is given out as."""
        return self.mig.uuid if self.mig else self.device.uuid

    @property
    def index(self) -> str:
        """Its index as it is asked for."""
        return index_of(self.device, self.mig)

    def answers_to(self, selector: str) -> bool:
        """Whether a selector of the configuration names it: by index, or by uuid, of MIG in both forms."""
        if selector in (self.index, self.uuid):
            return True
        legacy = self.mig and f"MIG-{self.device.uuid}/{self.mig.gpu_instance}/{self.mig.compute_instance}"
        return selector == legacy


def index_of(device: Device, mig: MigDevice | None = None) -> str:
    """A device's index as it is asked for: `3`, of a MIG device `3:1`."""
    return f"{device.index}:{mig.index}" if mig else str(device.index)


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a device offers under strategy single; without a `name` it offers nothing, whatever others are."""

    name: str = ""
    refusal: OfferReason | None = None


OfferedUnits: TypeAlias = tuple[tuple[DeviceUnit, ...], tuple[OfferReason, ...]]


def units_of(inventory: Inventory, config: PluginConfig) -> OfferedUnits:
    """(what can be given out, in device order; what is withheld and why).

    - none: every device whole, also a divided one: a container computes on one part of it then.
    - mixed: a divided device by its MIG devices, each under its profile's name, the others whole.
    - single: one kind of device for the node under the name of whole ones: the kind that most of its devices
      are of (whole, or divided into one profile), the lowest index deciding between equals. Devices that are
      not of it are withheld; so are those with several profiles: a pod could not know what it gets.

    A device with MIG enabled and no MIG devices gives nothing: nothing computes on it. Nobody else is the
    worse for a device that is withheld. Source of words in the texts: NVIDIA/k8s-device-plugin.
    """
    if config.mig_strategy is MigStrategy.NONE:
        return _undivided(inventory.devices, config)
    if config.mig_strategy is MigStrategy.MIXED:
        return _mixed(inventory.devices, config)
    return _single(inventory.devices, config)


def mig_resource(profile: str) -> ResourceName:
    """The name of a profile's resource; a part of a GPU instance has one, too.

    >>> mig_resource("1g.10gb+me"), mig_resource("1c.3g.20gb"), mig_resource("1g.24gb-me")
    ('nvidia.com/mig-1g.10gb.me', 'nvidia.com/mig-1c.3g.20gb', 'nvidia.com/mig-1g.24gb-me')

    Raises:
        ValueError: it makes no name of a resource.
    """
    return parse_resource_name(MIG_PREFIX + profile.replace("+", "."))


def fits(pattern: str, text: str) -> bool:
    """Whether the whole text fits a pattern in which `*` is any text.

    >>> fits("*A100*", "NVIDIA A100-SXM4-40GB"), fits("A100*", "NVIDIA A100-SXM4-40GB"), fits("a*a", "a")
    (True, False, False)
    """
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *inner, last = rest
    at, end = len(first), len(text) - len(last)
    if at > end or not text.startswith(first) or not text.endswith(last):
        return False
    for part in inner:
        position = text.find(part, at, end)
        if position < 0:
            return False
        at = position + len(part)
    return True


def _renamed(text: str, rules: Sequence[NamePattern]) -> ResourceName | None:
    return next((rule.name for rule in rules if fits(rule.pattern, text)), None)


def _whole(device: Device, config: PluginConfig) -> DeviceUnit:
    return DeviceUnit(_renamed(device.product, config.gpu_names) or GPU, device)


def _undivided(devices: Sequence[Device], config: PluginConfig) -> OfferedUnits:
    ignored = "has MIG enabled, which MIG strategy none ignores: containers compute on one of its MIG devices"
    return (
        tuple(_whole(device, config) for device in devices if device.migs or not device.mig_enabled),
        tuple(
            MigIgnored(
                subject=f"Device {device.uuid}", message=f"{_called(device)} {ignored}", uuid=device.uuid
            )
            if device.migs
            else _empty(device)
            for device in devices
            if device.mig_enabled
        ),
    )


def _called(device: Device) -> str:
    return f"device {device.index} ({device.uuid})"


def _empty(device: Device) -> MigDevicesMissing:
    message = (
        f"device {device.index} has no MIG devices configured: MIG is enabled on {device.uuid},"
        " so it offers nothing until they are created or MIG is disabled"
    )
    return MigDevicesMissing(subject=f"Device {device.uuid}", message=message, uuid=device.uuid)


def _mixed(devices: Sequence[Device], config: PluginConfig) -> OfferedUnits:
    units: list[DeviceUnit] = []
    refusals: list[OfferReason] = []
    for device in devices:
        if not device.mig_enabled:
            units.append(_whole(device, config))
        elif not device.migs:
            refusals.append(_empty(device))
        for mig in device.migs if device.mig_enabled else ():
            try:
                name = _renamed(mig.profile, config.mig_names) or mig_resource(mig.profile)
            except ValueError as error:
                why = f"MIG profile '{mig.profile[:63]}' does not match any resource patterns"
                refusals.append(
                    MigProfileUnnamed(
                        subject=f"Device {mig.uuid}",
                        message=f"{why}, so {mig.uuid} is withheld: {error}",
                        uuid=mig.uuid,
                        profile=mig.profile,
                    )
                )
            else:
                units.append(DeviceUnit(name, device, mig))
    return tuple(units), tuple(refusals)


def _single(devices: Sequence[Device], config: PluginConfig) -> OfferedUnits:
    kinds = [_kind(device) for device in devices]
    count = Counter(kind.name for kind in kinds if kind.name)
    chosen = max(count, key=lambda name: count[name], default="")
    units: list[DeviceUnit] = []
    refusals: list[OfferReason] = []
    for device, kind in zip(devices, kinds, strict=True):
        if kind.refusal is not None:
            refusals.append(kind.refusal)
        elif kind.name != chosen:
            refusals.append(_other_kind(device, kind.name, chosen))
        elif chosen == _WHOLE:
            units.append(_whole(device, config))
        else:
            units += [
                DeviceUnit(_renamed(mig.profile, config.mig_names) or GPU, device, mig) for mig in device.migs
            ]
    return tuple(units), tuple(refusals)


def _kind(device: Device) -> _Kind:
    if not device.mig_enabled:
        return _Kind(_WHOLE)
    profiles = list(dict.fromkeys(mig.profile for mig in device.migs))
    if not profiles:
        return _Kind(refusal=_empty(device))
    if len(profiles) > 1:
        why = f"more than one MIG device type present: {', '.join(sorted(profiles))}"
        message = f"{_called(device)} is withheld, {why}; MIG strategy single offers one"
        subject, mixed = f"Device {device.uuid}", tuple(sorted(profiles))
        return _Kind(
            refusal=MigProfilesMixed(subject=subject, message=message, uuid=device.uuid, profiles=mixed)
        )
    return _Kind(profiles[0])


def _other_kind(device: Device, kind: str, chosen: str) -> DeviceKindDiffers:
    if _WHOLE in (kind, chosen):
        why = "all devices on the node must be configured with the same migEnabled value"
    else:
        why = "more than one MIG device type present on node"
    return DeviceKindDiffers(
        subject=f"Device {device.uuid}",
        message=f"{_called(device)} is withheld, {why}: it has {kind}, this node offers {chosen}",
        uuid=device.uuid,
        kind=kind,
        offered=chosen,
    )


def parts_of(inventory: Inventory) -> Iterator[tuple[Device, MigDevice]]:
    """Every MIG device of the node with its physical one."""
    return ((device, mig) for device in inventory.devices for mig in device.migs)
