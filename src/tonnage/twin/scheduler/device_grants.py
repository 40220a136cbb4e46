"""AllocationResult of a claim: which devices, how configured, and who reaches them.

Source: k8s.io/dynamic-resource-allocation/structured/internal/stable (allocator_stable.go, v1.35).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from uuid import uuid4

from tonnage.decide.kubernetes.claims.allocator import Picked
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mappings, number, text, texts
from tonnage.model.kubernetes.quantity import write_device_quantity
from tonnage.model.kubernetes.resource_claims import ClaimDeviceId


def allocation_of(
    claim: JsonObject,
    picked: Sequence[Picked],
    classes: Mapping[str, JsonObject],
    slices: Iterable[JsonObject],
) -> JsonObject:
    """The `status.allocation`, out of the specs of the claim, of classes by name, and of all slices."""
    devices: JsonObject = {"results": [_allocation_result(device) for device in picked]}
    parts = {device.request for device in picked}
    configured = [*_of_classes(claim, parts, classes), *_of_claim(claim, parts)]
    if configured:
        devices["config"] = configured
    selector = _node_selector([device.id for device in picked], slices)
    return {"devices": devices, **({"nodeSelector": selector} if selector else {})}


def _allocation_result(device_grant: Picked) -> JsonObject:
    driver, pool, device = device_grant.id
    entry: JsonObject = {"request": device_grant.request, "driver": driver, "pool": pool, "device": device}
    if device_grant.consumed is not None:
        amounts: JsonObject = {
            name: write_device_quantity(amount) for name, amount in device_grant.consumed.items()
        }
        entry |= {"shareID": str(uuid4()), "consumedCapacity": amounts}
    return {**entry, "adminAccess": True} if device_grant.admin else entry


def _requests(claim: JsonObject, parts: set[str]) -> Iterator[tuple[str, str, str]]:
    """Name of the request, name of what was taken of it, and the latter's class."""
    for request in mappings(claim, "devices", "requests"):
        name = text(request, "name")
        if "exactly" in request:
            yield name, name, text(request, "exactly", "deviceClassName")
        for part in mappings(request, "firstAvailable"):
            if (whole := f"{name}/{text(part, 'name')}") in parts:
                yield name, whole, text(part, "deviceClassName")


def _of_classes(claim: JsonObject, parts: set[str], classes: Mapping[str, JsonObject]) -> Iterator[JsonValue]:
    """The configuration of every class, once, with all requests for devices of it."""
    asking: dict[str, list[JsonValue]] = {}
    for _, whole, name in _requests(claim, parts):
        asking.setdefault(name, []).append(whole)
    for name, requests in asking.items():
        for config in mappings(classes.get(name), "config"):
            yield {"source": "FromClass", "requests": [*requests], **config}


def _of_claim(claim: JsonObject, parts: set[str]) -> Iterator[JsonValue]:
    """The claim's own configuration that is about all requests, or about one that was met: once for each."""
    met = list(_requests(claim, parts))
    for config in mappings(claim, "devices", "config"):
        names = texts(config, "requests")
        meant = sum(name in names or whole in names for name, whole, _ in met) if names else 1
        for _ in range(meant):
            yield {"source": "FromClaim", **config}


def _node_selector(devices: Sequence[ClaimDeviceId], slices: Iterable[JsonObject]) -> JsonObject | None:
    """The nodes that reach all of the devices; None when all nodes do."""
    pools: dict[tuple[str, str], list[JsonObject]] = {}
    for entry in slices:
        pools.setdefault((text(entry, "driver"), text(entry, "pool", "name")), []).append(entry)
    parts: dict[str, list[JsonValue]] = {"matchFields": [], "matchExpressions": []}
    for device in devices:
        place = _place_of(device, pools.get(device[:2], []))
        if name := text(place, "nodeName"):
            field: JsonObject = {"key": "metadata.name", "operator": "In", "values": [name]}
            return {"nodeSelectorTerms": [{"matchFields": [field]}]}
        for term in mappings(place, "nodeSelector", "nodeSelectorTerms"):
            for part, terms in parts.items():
                terms += [entry for entry in mappings(term, part) if entry not in terms]
    term = {part: [*terms] for part, terms in parts.items() if terms}
    return {"nodeSelectorTerms": [term]} if term else None


def _place_of(device: ClaimDeviceId, slices: Sequence[JsonObject]) -> JsonObject:
    """Where a device is: its slice, or itself where the slice leaves that to its devices."""
    for slice_spec in sorted(
        slices, key=lambda slice_spec: number(slice_spec, "pool", "generation"), reverse=True
    ):
        for entry in mappings(slice_spec, "devices"):
            if entry.get("name") == device.device:
                return entry if slice_spec.get("perDeviceNodeSelection") else slice_spec
    return {}
