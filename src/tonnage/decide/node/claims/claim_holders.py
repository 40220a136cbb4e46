"""Which containers have which device by a claim: kubelet names devices as claims do, and we know their uuids.

Source: kubelet's pod resources API, v1 `DynamicResource`; names of kubernetes-sigs/dra-driver-nvidia-gpu.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.sharing import Hold, HoldKind

_PROFILE: Final = re.compile(r"[^a-z0-9]")


def claim_names(inventory: Inventory) -> dict[str, str]:
    """Uuids of GPUs and MIG devices by the names that claims know.

    >>> from tonnage.model.devices.inventory import Device
    >>> claim_names(Inventory((Device("GPU-a", 3, "T4", 15360, minor=0),)))
    {'gpu-0': 'GPU-a'}
    """
    names: dict[str, str] = {}
    for device in inventory.devices:
        if device.minor is None:
            continue
        names[f"gpu-{device.minor}"] = device.uuid
        for part in device.migs:
            if part.placement is not None and part.profile_number is not None:
                size = _PROFILE.sub("", part.profile.lower())
                name = f"gpu-{device.minor}-mig-{size}-{part.profile_number}-{part.placement[0]}"
                names[name] = part.uuid
    return names


def named_holds(claims: Iterable[Hold], names: Mapping[str, str]) -> Iterator[Hold]:
    """Holds by claims with uuids in the place of names; unknown names are left out."""
    for hold in claims:
        uuids = tuple(dict.fromkeys(names[name] for name in hold.ids if name in names))
        if uuids:
            yield replace(hold, ids=uuids)


def with_containers(
    holds: Iterable[Hold], claims: Iterable[Hold], names: Mapping[str, str]
) -> tuple[Hold, ...]:
    """The holds, those of claims once for each container that kubelet lists with the device.

    Where it lists none, which is so until it has started one, the claim's hold stays as it was noted.
    """
    listed: dict[str, list[Hold]] = {}
    for claim in named_holds(claims, names):
        listed.setdefault(claim.resource, []).append(claim)
    return tuple(
        own for hold in holds for own in (_of_containers(hold, listed.get(hold.resource, [])) or [hold])
    )


def _of_containers(hold: Hold, listed: list[Hold]) -> list[Hold]:
    if hold.kind is not HoldKind.CLAIM:
        return []
    return [
        replace(claim, ids=ids)
        for claim in listed
        if (ids := tuple(uuid for uuid in claim.ids if uuid in hold.ids))
    ]
