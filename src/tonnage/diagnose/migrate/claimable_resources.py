"""What a pod's containers ask of accelerators, and what of it no claim can ask for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.diagnose.lint.manifest_objects import (
    PodSite,
    mapping,
)
from tonnage.documents.yaml.reader import Path
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.names import SHARED_SUFFIX
from tonnage.model.reasons.pod.migration import (
    AmountNotClaimable,
    MigrationReason,
    ResourceNotClaimable,
)

GPU: Final = "nvidia.com/gpu"
MIG: Final = "nvidia.com/mig-"
_OTHER_VENDORS: Final = ("amd.com/", "habana.ai/", "gpu.intel.com/")
_SECTIONS: Final = ("limits", "requests")
_MOST_COUNT: Final = 32
"""Devices of one claim."""


def device_amounts(container: JsonObject) -> dict[str, JsonValue]:
    """What a container asks of accelerators, limits before requests; nothing by a 0, as charts write it."""
    resources = mapping(container.get("resources"))
    amounts: dict[str, JsonValue] = {}
    for section in _SECTIONS:
        for name, amount in mapping(resources.get(section)).items():
            if name.startswith(("nvidia.com/", *_OTHER_VENDORS)):
                amounts.setdefault(name, amount)
    return {name: amount for name, amount in amounts.items() if str(amount) != "0"}


def unclaimable(site: PodSite, resources: set[str]) -> MigrationReason | None:
    """Why what is asked for cannot be claimed."""
    for name in sorted(resources):
        if name.endswith(SHARED_SUFFIX):
            message = f"{name} is a share of a GPU, which a claim cannot ask for in numbers"
        elif name.startswith(_OTHER_VENDORS):
            message = f"{name} is of a vendor whose driver publishes other attributes"
        elif name != GPU and not name.startswith(MIG):
            message = f"{name} is a resource that Tonnage cannot migrate"
        else:
            continue
        return ResourceNotClaimable(subject=site.manifest.subject, message=message, resource=name)
    return None


def uncountable(site: PodSite, container: str, resource: str, amount: str) -> AmountNotClaimable:
    """The refusal of an amount for which there is no `claimable_count`."""
    message = f"container {container}: {amount} of {resource} is not 1 to {_MOST_COUNT} devices"
    return AmountNotClaimable(
        subject=site.manifest.subject,
        message=message,
        container=container,
        resource=resource,
        amount=amount,
    )


def mig_profile_of(resource: str) -> str:
    """The MIG profile of a resource; empty for whole GPUs."""
    return resource.removeprefix(MIG).replace(".me", "+me") if resource != GPU else ""


def claimable_count(amount: JsonValue) -> int | None:
    """How many devices of one claim an amount is; None: none that a claim can have.

    >>> claimable_count("2"), claimable_count("64"), claimable_count("500m")
    (2, None, None)
    """
    text = str(amount)
    if isinstance(amount, bool) or not (text.isascii() and text.isdecimal() and len(text) < 4):
        return None
    return int(text) if 0 < int(text) <= _MOST_COUNT else None


def places_of(resource: str, path: Path, container: JsonObject) -> Iterator[Path]:
    """Where a container asks for a resource."""
    for section in _SECTIONS:
        if resource in mapping(mapping(container.get("resources")).get(section)):
            yield (*path, "resources", section, resource)
