"""What a ResourceClaim has been given, for whom, and what drivers say of it.

Source: k8s.io/kubernetes pkg/apis/resource/validation (ValidateResourceClaimStatusUpdate), 1.35.
"""

from __future__ import annotations

import re
from ipaddress import ip_interface
from typing import Final

from tonnage.decide.kubernetes.api.go_values import in_go
from tonnage.decide.kubernetes.api.patches.json_patches import same_json
from tonnage.decide.kubernetes.api.problems import (
    forbidden,
    invalid,
    required,
    too_long,
    too_many,
)
from tonnage.decide.kubernetes.api.validation.conditions import conditions
from tonnage.decide.kubernetes.api.validation.devices.driver_names import (
    configuration,
    each_element,
    label,
    pool_name,
    raw_object,
)
from tonnage.decide.kubernetes.api.validation.devices.resource_claims import (
    request_names,
    request_reference,
    request_references,
)
from tonnage.decide.kubernetes.api.validation.fields import IMMUTABLE, FieldErrors, one_of
from tonnage.decide.kubernetes.api.validation.pods.placement import node_selector
from tonnage.decide.kubernetes.api.validation.storage.volume_sources import driver_name
from tonnage.model.json import JsonObject
from tonnage.model.json_access import mapping, mappings, text, texts

_MOST_CONSUMERS: Final = 256
_MOST_RESULTS: Final = 32
_MOST_CONFIGURATIONS: Final = 64
_MOST_CONDITIONS: Final = 8
_MOST_ADDRESSES: Final = 16
_LONGEST_INTERFACE: Final = 256
_LONGEST_HARDWARE_ADDRESS: Final = 128
_SOURCES: Final = ("FromClaim", "FromClass")
_ADDRESS_WORDS: Final = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
_NOT_NOW: Final = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"


def claim_status(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A changed status."""
    status, before = mapping(new, "status"), mapping(old, "status")
    allocation, allocation_before = status.get("allocation"), before.get("allocation")
    consumers = mappings(status, "reservedFor")
    yield from each_element(
        consumers, _MOST_CONSUMERS, "status.reservedFor", _consumer, lambda entry: text(entry, "uid")
    )
    results = mappings(allocation, "devices", "results")
    devices = [_identity(entry) for entry in results]

    def device_status(device: JsonObject, path: str) -> FieldErrors:
        yield from _device_status(device, path, devices)

    yield from each_element(mappings(status, "devices"), -1, "status.devices", device_status, _identity)
    if consumers and not isinstance(allocation, dict):
        yield forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
    elif text(new, "metadata", "deletionTimestamp") and any(
        entry not in mappings(before, "reservedFor") for entry in consumers
    ):
        yield forbidden("status.reservedFor", _NOT_NOW)
    if isinstance(allocation, dict) and isinstance(allocation_before, dict):
        if not same_json(allocation, allocation_before):
            yield invalid("status.allocation", in_go("dra.AllocationResult", allocation), IMMUTABLE)
    elif isinstance(allocation, dict):
        yield from _allocation(allocation, request_names(mappings(new, "spec", "devices", "requests")))


def _consumer(consumer: JsonObject, path: str) -> FieldErrors:
    for key in ("resource", "name", "uid"):
        if not text(consumer, key):
            yield required(f"{path}.{key}")


def _identity(device: JsonObject) -> JsonObject:
    """Which device something is about, as it is shown."""
    names = (("Driver", "driver"), ("Pool", "pool"), ("Device", "device"), ("ShareID", "shareID"))
    return {shown: text(device, key) for shown, key in names}


def _allocation(allocation: JsonObject, requests: frozenset[str]) -> FieldErrors:
    path = "status.allocation"

    def allocation_result(entry: JsonObject, where: str) -> FieldErrors:
        yield from request_reference(text(entry, "request"), f"{where}.request", requests)
        yield from _device(entry, where)

    def config(entry: JsonObject, where: str) -> FieldErrors:
        yield from one_of(text(entry, "source"), _SOURCES, f"{where}.source")
        yield from request_references(entry, where, requests)
        yield from configuration(entry, where)

    devices = mapping(allocation, "devices")
    yield from each_element(
        mappings(devices, "results"), _MOST_RESULTS, f"{path}.devices.results", allocation_result
    )
    yield from each_element(
        mappings(devices, "config"), _MOST_CONFIGURATIONS, f"{path}.devices.config", config
    )
    if isinstance(allocation.get("nodeSelector"), dict):
        yield from node_selector(mapping(allocation, "nodeSelector"), f"{path}.nodeSelector")


def _device(device: JsonObject, path: str) -> FieldErrors:
    yield from driver_name(text(device, "driver"), f"{path}.driver")
    yield from pool_name(text(device, "pool"), f"{path}.pool")
    yield from label(text(device, "device"), f"{path}.device")


def _device_status(device: JsonObject, path: str, allocated: list[JsonObject]) -> FieldErrors:
    """What a driver says of a device."""
    yield from _device(device, path)
    if (identity := _identity(device)) not in allocated:
        yield invalid(path, identity, "must be an allocated device in the claim")
    condition_list = mappings(device, "conditions")
    if len(condition_list) > _MOST_CONDITIONS:
        yield too_many(f"{path}.conditions", len(condition_list), _MOST_CONDITIONS)
    yield from conditions(condition_list, f"{path}.conditions")
    if device.get("data") is not None:
        yield from raw_object(device["data"], f"{path}.data")
    network = mapping(device, "networkData")
    for key, longest in (
        ("interfaceName", _LONGEST_INTERFACE),
        ("hardwareAddress", _LONGEST_HARDWARE_ADDRESS),
    ):
        if len(text(network, key).encode()) > longest:
            yield too_long(f"{path}.networkData.{key}", longest)
    yield from each_element(texts(network, "ips"), _MOST_ADDRESSES, f"{path}.networkData.ips", _address, str)


def _address(address: str, path: str) -> FieldErrors:
    try:
        if not re.search(r"/\d{1,3}$", address):
            raise ValueError(address)
        interface = ip_interface(address)
    except ValueError:
        yield invalid(path, address, _ADDRESS_WORDS)
        return
    if (usual := str(interface)) != address:
        yield invalid(path, address, f'must be in canonical form ("{usual}")')
