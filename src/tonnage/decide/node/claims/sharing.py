"""How a claim's devices are shared among its containers, by the configurations of its classes and its own.

Source: kubernetes-sigs/dra-driver-nvidia-gpu v0.5, cmd/gpu-kubelet-plugin: later configurations win, those of
classes come first, and one for named requests must be of their devices' type. There the later of two that are
for the same and differ wins, too; here they are refused, since one of them was not meant.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tonnage.decide.node.claims.opaque import MIG_CONFIG, DeviceConfig, read_config
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.model.devices.claims import DRIVER, ClaimRef, Partition, PublishedDevice, SlicedDevice
from tonnage.model.devices.inventory import TimeSlice
from tonnage.model.devices.mps import MpsDaemon, MpsDevice
from tonnage.model.json import JsonObject
from tonnage.model.json_access import flag, items, mapping, text, texts
from tonnage.model.names import ResourceName
from tonnage.model.reasons.gpu.claim_preparation import ClaimConfigRefused

_MOST_NAMED: Final = 5
_DIGITS: Final = 12
_FROM_CLASS: Final = "FromClass"
_TIME_SLICING: Final = "TimeSlicing"
_NO_ROOT: Final = (
    "sharing by MPS needs flags.mpsRoot in the node's configuration; the chart's mps.root sets it"
)


class SharedUse(NamedTuple):
    """A claim, `namespace/name`, that has a part of a GPU, and the time slice that it has set of it."""

    claim: str
    interval: TimeSlice | None = None


@dataclass(frozen=True, slots=True)
class ClaimGround:
    """What a claim is judged by: the node's pool, its devices by name, who holds what, and the boot.

    `uids` are those of claims that hold devices, by `namespace/name`; `mps_root` is the folder of MPS.
    """

    pool: str
    devices: Mapping[str, PublishedDevice]
    held: DeviceHolds
    boot: str = ""
    uids: Mapping[str, str] = field(default_factory=dict)
    mps_root: str = ""
    partitions: Mapping[str, tuple[Partition, ...]] = field(default_factory=dict)
    """MIG devices that were made for other claims, or are being made, by `namespace/name`."""
    shared: Mapping[str, tuple[SharedUse, ...]] = field(default_factory=dict)
    """By uuid, the claims that have parts of a GPU."""


_Kind = tuple[str, str]
"""A request, or an alternative of it, and the type of a device that it has: a request may have several."""
Shares = tuple[tuple[SlicedDevice, ...], tuple[MpsDaemon, ...]]
"""What a claim has set of GPUs, and the MPS control daemons that it needs."""


def sharing_of(
    claim: ClaimRef, status: JsonObject, grants: Sequence[JsonObject], ground: ClaimGround
) -> Shares | ClaimConfigRefused:
    """What the claim's configurations come to; or which of them cannot be followed, and why."""
    chosen = _chosen(claim, status, grants, ground)
    if isinstance(chosen, ClaimConfigRefused):
        return chosen
    slices: list[SlicedDevice] = []
    daemons: list[MpsDaemon] = []
    for where, config in dict.fromkeys(chosen.values()):
        if not config.strategy:
            continue
        own = [grant for grant in grants if chosen.get(_kind_of(ground, grant)) == (where, config)]
        if any(flag(grant, "adminAccess") for grant in own):
            return _refused(claim, where, "who has admin access to a device cannot have it shared")
        uuids = tuple(dict.fromkeys(ground.devices[text(grant, "device")].uuid for grant in own))
        if config.strategy != _TIME_SLICING:
            if any(ground.devices[text(grant, "device")].partition is not None for grant in own):
                return _refused(claim, where, "MPS cannot share a MIG device that is made for the claim")
            if any(text(grant, "shareID") for grant in own):
                return _refused(claim, where, "MPS cannot share a GPU of which the claim has a part")
            if not ground.mps_root:
                return _refused(claim, where, _NO_ROOT)
            if (stray := _stray_limit(config, uuids)) is not None:
                return _refused(claim, where, stray)
            daemons.append(_daemon(claim, len(daemons), config, uuids, ground.mps_root))
        elif config.kind != MIG_CONFIG:  # MIG devices have no interval of their own
            slices += (SlicedDevice(uuid, config.interval) for uuid in uuids)
    return _disagreement(claim, grants, slices, ground) or (tuple(slices), tuple(daemons))


def _disagreement(
    claim: ClaimRef, grants: Sequence[JsonObject], slices: Sequence[SlicedDevice], ground: ClaimGround
) -> ClaimConfigRefused | None:
    """Claims with parts of one GPU have one time slice: which other claim has another."""
    intervals = {sliced.uuid: sliced.interval for sliced in slices}
    for grant in grants:
        uuid = ground.devices[text(grant, "device")].uuid
        for use in ground.shared.get(uuid, ()) if text(grant, "shareID") else ():
            if use.claim != str(claim) and use.interval != intervals.get(uuid):
                own, other = _in_words(intervals.get(uuid)), _in_words(use.interval)
                why = f"claim {use.claim} has a part of the GPU with {other}, and this one asks for {own}"
                return _refused(claim, "status.allocation.devices.config", why)
    return None


def _in_words(interval: TimeSlice | None) -> str:
    return "no time slice" if interval is None else f"the time slice {interval.name.title()}"


def daemons_of_claims(claims: Iterable[tuple[MpsDaemon, ...]]) -> tuple[MpsDaemon, ...]:
    """All daemons that claims need, in the order of their names."""
    return tuple(sorted((daemon for own in claims for daemon in own), key=lambda daemon: daemon.resource))


def _stray_limit(config: DeviceConfig, uuids: Sequence[str]) -> str | None:
    """What is wrong with a limit of a device that is none of those that share it; None: nothing."""
    names = {*uuids, *map(str, range(len(uuids)))}
    name = next((name for name, _ in config.limits_mib if name not in names), None)
    if name is None:
        return None
    places = "0" if len(uuids) == 1 else f"0 to {len(uuids) - 1}"
    field = f"sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit.{name[:80]}"
    return f"{field} is none of the devices of the configuration, which are {places} or their UUIDs"


def _daemon(
    claim: ClaimRef, number: int, config: DeviceConfig, uuids: tuple[str, ...], root: str
) -> MpsDaemon:
    """One daemon for all devices that a configuration is for."""
    limits = dict(config.limits_mib)
    devices = tuple(
        MpsDevice(uuid, limits.get(uuid, limits.get(str(place), config.limit_mib)))
        for place, uuid in enumerate(uuids)
    )
    name = daemon_name(claim.uid, number)
    return MpsDaemon(name, root, config.threads_percent, devices, config.multi_user, str(claim))


def daemon_name(uid: str, number: int) -> ResourceName:
    """What a claim's daemon has in the place of a resource's name: short, for sockets have short paths.

    >>> daemon_name("8a1e", 0)
    'claim/690ca8efb4da-0'
    """
    return ResourceName(f"claim/{hashlib.sha256(uid.encode()).hexdigest()[:_DIGITS]}-{number}")


def _chosen(
    claim: ClaimRef, status: JsonObject, grants: Sequence[JsonObject], ground: ClaimGround
) -> dict[_Kind, tuple[str, DeviceConfig]] | ClaimConfigRefused:
    """By request and type of device, the last configuration that is for them, with where it stands.

    What a class has shared is for who uses its devices, and not for who looks at them with admin access.
    Two of a claim, or of its class, that are for the same requests, however they name them, must say the
    same. One that names a request with alternatives is for those alternatives that have its type of device.
    """
    chosen: dict[_Kind, tuple[str, DeviceConfig]] = {}
    scopes: dict[_Kind, tuple[str, str]] = {}
    for where, entry in _in_order(status):
        config = read_config(mapping(entry, "opaque", "parameters"))
        if isinstance(config, tuple):
            return _refused(claim, where, "; ".join(config[:_MOST_NAMED]))
        named, of_class = texts(entry, "requests"), text(entry, "source") == _FROM_CLASS
        own = [grant for grant in grants if not (of_class and flag(grant, "adminAccess"))]
        for kind in dict.fromkeys(_kind_of(ground, grant) for grant in own):
            request, device_type = kind
            name = _name_in(named, request)
            if name is None:
                continue
            if config.device_type == device_type:
                scope = text(entry, "source"), name
                before, other = chosen.get(kind, (where, config))
                if scopes.get(kind) == scope and other != config:
                    why = f"it contradicts {before} about the request {request}; keep one of the two"
                    return _refused(claim, where, why)
                chosen[kind], scopes[kind] = (where, config), scope
            elif name == request:
                return _refused(
                    claim, where, f"{config.kind} is not for the request {request}, which has a {device_type}"
                )
    return chosen


def _name_in(named: Sequence[str], request: str) -> str | None:
    """By which name a configuration means a request: its own, or that of all its alternatives.

    None: it does not. Empty: it is for all requests.

    >>> _name_in(["gpu"], "gpu/large"), _name_in(["gpu", "gpu/large"], "gpu/large"), _name_in([], "gpu")
    ('gpu', 'gpu/large', '')
    """
    if not named:
        return ""
    return next((name for name in (request, request.partition("/")[0]) if name in named), None)


def _in_order(status: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """(where it is from, the configuration) of those for this driver: of classes first, then the claim's."""
    entries = [
        (f"status.allocation.devices.config[{place}]", mapping(entry))
        for place, entry in enumerate(items(status, "allocation", "devices", "config"))
        if text(entry, "opaque", "driver") == DRIVER
    ]
    yield from (pair for pair in entries if text(pair[1], "source") == _FROM_CLASS)
    yield from (pair for pair in entries if text(pair[1], "source") != _FROM_CLASS)


def _kind_of(ground: ClaimGround, grant: JsonObject) -> _Kind:
    return text(grant, "request"), ground.devices[text(grant, "device")].texts.get("type", "")


def _refused(claim: ClaimRef, where: str, why: str) -> ClaimConfigRefused:
    message = f"claim {claim}: {where}: {why}"
    return ClaimConfigRefused(
        subject=f"ResourceClaim {claim}", message=message, claim=str(claim), where=where
    )
